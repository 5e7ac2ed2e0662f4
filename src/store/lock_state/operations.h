/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Applies the operations of store.h to the state of one lock, on behalf of client `self`.
 *
 * The answer is in the operation. The effects on others are in the state:
 *  - `can_be_granted` of a waiter: wake its client, so that it repeats its acquire.
 *  - `handed_over` of a holder, where the store hands over: tell its client that it was granted.
 */
#ifndef HF_STORE_LOCK_STATE_OPERATIONS_H
#define HF_STORE_LOCK_STATE_OPERATIONS_H

#include "store/lock_state/lock_state.h"

/* The contender that an operation is about. */
hf__contender hf__contender_of_op(hf__client_id self, const hf__op *op);

/* Not here, because no store that uses the state needs them yet: EXPORT, EXTEND_EXPORTED and
   ACQUIRE with `exported`, RAISE_TOKEN, chains, `next_acquire`, tombstones. */

/* Expire, execute ACQUIRE, RENEW, RELEASE, BREAK or INSPECT, then hand over if the store does so,
   and mark the waiters that can be granted. Any other verb: HF_UNSUPPORTED. */
hf_result hf__lock_state_apply(hf__lock_state *state, const hf__lock_env *env, hf__client_id self,
                               hf__op *op);

/* ---- The parts, for a store that does the rest itself ---- */

hf_result hf__lock_state_acquire(hf__lock_state *state, const hf__lock_env *env, hf__client_id self,
                                 hf__op *op);
hf_result hf__lock_state_renew(hf__lock_state *state, const hf__lock_env *env, hf__client_id self,
                               hf__op *op);
hf_result hf__lock_state_release(hf__lock_state *state, hf__client_id self, hf__op *op);
hf_result hf__lock_state_break(hf__lock_state *state, const hf__lock_env *env, hf__op *op);
void hf__lock_state_inspect(const hf__lock_state *state, const hf__lock_env *env,
                            hf__lock_info *lock_info);

#endif
