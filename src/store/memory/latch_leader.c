/* SPDX-License-Identifier: Apache-2.0 */
/* The acquire ids of completed operations are not remembered here. Other stores remember them
   because an answer can be lost. In one process every operation is executed once, and is always
   answered. */
#include "store/memory/latch_leader.h"

#include <stdlib.h>

#include "store/lock_state/token.h"

#define RETRY_MS   20
#define LATCH_KEEP (INT64_C(25) * 3600 * HF__SEC)

/* ---- Latches ---- */

static hf_result execute_latch(hf__latch_leader *latch_leader, hf__op *op, hf__time now) {
    hf__latch *l = &latch_leader->latch;
    uint32_t count = op->latch->count;
    op->retry_ms = RETRY_MS;
    if (now - latch_leader->latch_used_at > LATCH_KEEP) *l = (hf__latch){0};
    latch_leader->latch_used_at = now;
    if (op->verb == HF__LATCH_SET) {
        l->round = hf__token_next(l->round, 0, hf__unix_us());
        l->left = count;
    } else if (!l->round) {
        return HF_NOT_HELD;
    } else if (op->verb == HF__LATCH_COUNT_DOWN) {
        l->left = l->left > count ? l->left - count : 0;
    }
    if (!l->left) l->last_done = l->round;
    *op->latch = *l;
    return HF_OK;
}

/* ---- Leaders ---- */

static hf_result set_leader_value(hf__latch_leader *latch_leader, const hf__lock_state *state,
                                  hf__client_id self, const hf__op *op) {
    hf__contender contender = {.client = self, .acquire_id = op->acquire_id, .kind = HF_MUTEX};
    const hf__holder *holder = hf__lock_state_find_holder(state, &contender);
    if (!holder || holder->token != op->token) return HF_LOST;
    if (latch_leader->value && latch_leader->token == op->token &&
        latch_leader->value->sequence >= op->leader_value->sequence)
        return HF_OK;
    if (!latch_leader->value) latch_leader->value = malloc(sizeof *latch_leader->value);
    if (!latch_leader->value) return HF_NOMEM;
    *latch_leader->value = *op->leader_value;
    latch_leader->token = op->token;
    return HF_OK;
}

static hf_result read_leader_value(const hf__latch_leader *latch_leader,
                                   const hf__lock_state *state, hf__op *op, hf__time now) {
    const hf__holder *holder = state->holders;
    op->lock_info->held = holder && latch_leader->value && latch_leader->token == holder->token;
    op->retry_ms = RETRY_MS;
    if (!op->lock_info->held) return HF_NOT_HELD;
    op->lock_info->token = holder->token;
    op->lock_info->remaining_ms = (holder->expires - now) / HF__MS;
    hf__client_id_to_uuid(holder->contender.client, op->lock_info->identity.client);
    *op->leader_value = *latch_leader->value;
    return HF_OK;
}

hf_result hf__latch_leader_execute(hf__latch_leader *latch_leader, const hf__lock_state *state,
                                   hf__client_id self, hf__op *op, hf__time now) {
    switch (op->verb) {
    case HF__LATCH_SET:
    case HF__LATCH_COUNT_DOWN:
    case HF__LATCH_GET: return execute_latch(latch_leader, op, now);
    case HF__PROCLAIM: return set_leader_value(latch_leader, state, self, op);
    case HF__LEADER: return read_leader_value(latch_leader, state, op, now);
    default: return HF_UNSUPPORTED;
    }
}
