/* SPDX-License-Identifier: Apache-2.0 */
/* Converts what the store knows of a lock into what the user gets. */
#ifndef HF_CLIENT_INSPECT_H
#define HF_CLIENT_INSPECT_H

#include "store/store.h"

/* Fills in what `lock_info` has of the holder, and only the client and the owner of each waiter.
   The strings point into `lock_info`. */
void hf__info_fill(hf_info *info, hf_waiter waiters[HF__WAITERS_MAX],
                   const hf__lock_info *lock_info);

#endif
