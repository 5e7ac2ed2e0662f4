/* SPDX-License-Identifier: Apache-2.0 */
/* The `redis+cluster://` store: locks spread over the primaries of a Redis or Valkey cluster. Each
   name is on one of them. */
#ifndef HF_STORE_CLUSTER_H
#define HF_STORE_CLUSTER_H

#include "base/log.h"
#include "base/url.h"
#include "store/store.h"

/* Borrows `url` and `log`, which must outlive the store. Connects at the first tick. NULL: out of
   memory. */
hf__store *hf__cluster_new(const hf__url *url, const hf__identity *who, hf__log *log);

#endif
