/* SPDX-License-Identifier: Apache-2.0 */
/* The slot of a key, as Redis computes it: CRC16 of the part between its first braces, or of the
   whole key. */
#ifndef HF_STORE_CLUSTER_SLOT_H
#define HF_STORE_CLUSTER_SLOT_H

#include <stddef.h>

unsigned hf__slot_of_key(const char *key, size_t length);

/* The slot of all keys and channels of a name. */
unsigned hf__slot_of_name(const char *name, size_t length);

#endif
