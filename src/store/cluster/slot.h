/* The slot of a key: CRC16 of what stands between its first braces, or of all of it, as Redis counts it. */
#ifndef HF_STORE_CLUSTER_SLOT_H
#define HF_STORE_CLUSTER_SLOT_H

#include <stddef.h>

unsigned hf__slot_of_key(const char *key, size_t length);

/* Of all keys and channels of a name. */
unsigned hf__slot_of_name(const char *name, size_t length);

#endif
