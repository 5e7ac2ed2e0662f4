/* SPDX-License-Identifier: Apache-2.0 */
/* The latch of a lock and the value of its leader, for the memory store. */
#ifndef HF_STORE_MEMORY_LATCH_LEADER_H
#define HF_STORE_MEMORY_LATCH_LEADER_H

#include "store/lock_state/lock_state.h"

/* All zero: never used. */
typedef struct hf__latch_leader {
    hf__latch latch; /* round 0: not set */
    hf__time latch_used_at;
    hf__leader_value *value; /* owned; NULL: no leader has set a value yet */
    uint64_t token;          /* of the hold that set the value */
} hf__latch_leader;

/* Executes LATCH_SET, LATCH_COUNT_DOWN, LATCH_GET, PROCLAIM and LEADER of store.h on behalf of
   `self`. HF_UNSUPPORTED for any other operation. */
hf_result hf__latch_leader_execute(hf__latch_leader *latch_leader, const hf__lock_state *state,
                                   hf__client_id self, hf__op *op, hf__time now);

#endif
