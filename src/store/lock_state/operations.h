/* SPDX-License-Identifier: Apache-2.0 */
/* Applies the operations of store.h to the state of one lock, on behalf of client `self`. Call
   hf__lock_state_expire first. */
#ifndef HF_STORE_LOCK_STATE_OPERATIONS_H
#define HF_STORE_LOCK_STATE_OPERATIONS_H

#include "store/lock_state/lock_state.h"

/* The contender that an operation is about. */
hf__contender hf__contender_of_op(const hf__store_client *self, const hf__op *op);

hf_result hf__lock_state_acquire(hf__lock_state *state, const hf__store_client *self, hf__op *op,
                                 hf__time now);
hf_result hf__lock_state_renew(hf__lock_state *state, const hf__store_client *self, hf__op *op,
                               hf__time now);
hf_result hf__lock_state_release(hf__lock_state *state, const hf__store_client *self,
                                 const hf__op *op);
hf_result hf__lock_state_break(hf__lock_state *state, hf__op *op, hf__time now);
void hf__lock_state_inspect(const hf__lock_state *state, hf__lock_info *lock_info, hf__time now);

#endif
