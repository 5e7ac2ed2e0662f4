/* What the store says of a lock, as the user is told it. */
#ifndef HF_CLIENT_INSPECT_H
#define HF_CLIENT_INSPECT_H

#include "store/store.h"

/* Of those who wait only client and owner, and of the holder what the sight has. Its texts are the
   sight's. */
void hf__info_fill(hf_info *info, hf_waiter waiters[HF__WAITERS_MAX],
                   const hf__lock_info *lock_info);

#endif
