/* `memory:`: locks of one process, with leases, numbers and tokens like any other store's. */
#ifndef HF_STORE_MEMORY_H
#define HF_STORE_MEMORY_H

#include "store/store.h"

/* Clients of this process that give their space the same name share its locks. NULL when memory is out. */
hf__store *hf__memory_new(const char *name, const char *prefix, const hf__identity *identity);

#endif
