/* What is kept beside a lock of the memory store: its latch, and what its leader says. */
#ifndef HF_STORE_MEMORY_BESIDE_H
#define HF_STORE_MEMORY_BESIDE_H

#include "store/lock_state/lock_state.h"

/* Zero is one that was never used. */
typedef struct hf__beside {
    hf__latch latch;     /* round 0: it is not set */
    hf__time latch_used; /* when it was last used */
    hf__word *word;      /* on the heap; NULL: nobody has said anything yet */
    uint64_t token;      /* under which that was said */
} hf__beside;

/* LATCH_…, PROCLAIM and LEADER of store.h, as `self`. */
hf_result hf__beside_execute(hf__beside *beside, const hf__lock_state *state,
                             const hf__store_client *self, hf__op *op, hf__time now);

#endif
