/* What is kept beside a lock of the memory store: its latch, and what its leader says. */
#ifndef HF_STORE_MEMORY_LATCH_LEADER_H
#define HF_STORE_MEMORY_LATCH_LEADER_H

#include "store/lock_state/lock_state.h"

/* Zero is one that was never used. */
typedef struct hf__latch_leader {
    hf__latch latch;         /* round 0: it is not set */
    hf__time latch_used_at;  /* when it was last used */
    hf__leader_value *value; /* on the heap; NULL: nobody has said anything yet */
    uint64_t token;          /* under which that was said */
} hf__latch_leader;

/* LATCH_…, PROCLAIM and LEADER of store.h, as `self`. */
hf_result hf__latch_leader_execute(hf__latch_leader *latch_leader, const hf__lock_state *state,
                                   const hf__store_client *self, hf__op *op, hf__time now);

#endif
