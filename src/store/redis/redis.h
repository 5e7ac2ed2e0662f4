/* SPDX-License-Identifier: Apache-2.0 */
/* `redis://`, `redis+unix://` and `redis+sentinel://`: one Redis or Valkey primary. */
#ifndef HF_STORE_REDIS_H
#define HF_STORE_REDIS_H

#include "base/log.h"
#include "base/url.h"
#include "store/store.h"

/* Borrows url and log, which must outlive the store; copies who. Connects at the first tick. NULL:
   out of memory. */
hf__store *hf__redis_new(const hf__url *url, const hf__identity *who, hf__log *log);

#endif
