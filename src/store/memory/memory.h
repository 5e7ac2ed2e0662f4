/* SPDX-License-Identifier: Apache-2.0 */
/* The `memory:` store: locks of one process, with leases, acquire ids and tokens like any other
   store. */
#ifndef HF_STORE_MEMORY_H
#define HF_STORE_MEMORY_H

#include "store/store.h"

/* Clients of this process that name the same space share its locks. Copies its arguments. NULL: out
   of memory. */
hf__store *hf__memory_new(const char *name, const char *prefix, const hf__identity *identity);

#endif
