/* SPDX-License-Identifier: Apache-2.0 */
/* What each operation does to the state of a lock, and its answer. See operations.h. */
#include "store/lock_state/operations.h"

#include "store/lock_state/token.h"

#define RETRY_MS 20 /* how long a waiter waits before it retries */
/* The same for a queued waiter that is notified. Well below HF__WAITER_TIMEOUT. */
#define NOTIFIED_RETRY_MS 400

hf__contender hf__contender_of_op(const hf__store_client *self, const hf__op *op) {
    return (hf__contender){.client = self,
                           .acquire_id = op->acquire_id,
                           .owner = op->owner,
                           .kind = op->upgrade && op->verb == HF__ACQUIRE ? HF_WRITE : op->kind,
                           .permits = op->permits,
                           .capacity = op->capacity};
}

static void extend_lease(hf__holder *holder, int64_t lease_ms, hf__time now) {
    holder->expires = hf__later(holder->expires, now + lease_ms * HF__MS);
}

/* ---- ACQUIRE ---- */

static uint64_t next_token(hf__lock_state *state, const hf__op *op, int64_t unix_us) {
    return state->last_token = hf__token_next(state->last_token, op->token, unix_us);
}

static hf__holder *add_grant(hf__lock_state *state, const hf__contender *contender,
                             const hf__op *op) {
    hf__holder *made = hf__lock_state_add_holder(state, contender);
    if (!made) return NULL;
    int64_t unix_us = hf__unix_us();
    made->token = next_token(state, op, unix_us);
    made->since_unix_ms = unix_us / 1000;
    made->count = op->count;
    return made;
}

static hf_result answer_granted(const hf__lock_state *state, hf__holder *holder, hf__op *op,
                                hf__time now) {
    extend_lease(holder, op->lease_ms, now);
    op->token = holder->token;
    op->has_waiters = hf__lock_state_has_other_waiters(state, &holder->contender);
    return HF_OK;
}

/* Retry no later than the first lease ends: its holder may have died. */
static hf_result answer_busy(const hf__lock_state *state, const hf__store_client *self, hf__op *op,
                             hf__time now) {
    op->retry_ms = op->queued && self->is_notified ? NOTIFIED_RETRY_MS : RETRY_MS;
    for (const hf__holder *it = state->holders; it; it = it->next) {
        int64_t left = (it->expires - now) / HF__MS + 1;
        if (left < op->retry_ms) op->retry_ms = left;
        op->holder_token = it->token; /* of the last holder: it is the highest */
    }
    return HF_BUSY;
}

static hf_result wait_in_queue(hf__lock_state *state, const hf__contender *contender, hf__op *op,
                               hf__time now) {
    op->queued = op->enqueue && hf__lock_state_enqueue(state, contender, op->upgrade, now);
    return answer_busy(state, contender->client, op, now);
}

/* All permits that are held at a time have one capacity. */
static bool capacity_differs(const hf__lock_state *state, const hf__contender *contender,
                             hf__op *op) {
    const hf__contender *inside = state->holders ? &state->holders->contender : NULL;
    if (contender->kind != HF_PERMITS || !inside || inside->kind != HF_PERMITS) return false;
    if (inside->capacity == contender->capacity) return false;
    op->capacity = inside->capacity;
    return true;
}

/* An upgrade goes before all waiters. It waits only until it is the sole holder. */
static hf_result upgrade_hold(hf__lock_state *state, const hf__contender *contender, hf__op *op,
                              hf__time now) {
    hf__holder *holder = hf__lock_state_find_holder(state, contender);
    if (!holder) return HF_LOST;
    if (holder->contender.kind == HF_WRITE) return answer_granted(state, holder, op, now);
    if (holder->contender.kind != HF_UPGRADABLE) return HF_INVALID;
    if (state->holders->next) return wait_in_queue(state, contender, op, now);
    hf__lock_state_dequeue(state, contender);
    holder->contender.kind = HF_WRITE;
    holder->token = next_token(state, op, hf__unix_us());
    return answer_granted(state, holder, op, now);
}

hf_result hf__lock_state_acquire(hf__lock_state *state, const hf__store_client *self, hf__op *op,
                                 hf__time now) {
    if (now > op->not_after) return HF_TIMEOUT;
    hf__contender contender = hf__contender_of_op(self, op);
    if (op->upgrade) return upgrade_hold(state, &contender, op, now);
    hf__holder *holder = hf__lock_state_find_holder(state, &contender);
    if (holder) return answer_granted(state, holder, op, now);
    if (hf__lock_state_is_superseded(state, &contender)) return answer_busy(state, self, op, now);
    if (capacity_differs(state, &contender, op)) {
        hf__lock_state_dequeue(state, &contender);
        return HF_INVALID;
    }
    /* A hold of a lower acquire id was granted after its caller had stopped waiting. This acquire
       inherits its turn. */
    bool replaced = hf__lock_state_end_holds_of(state, &contender);
    if (!(replaced && op->inherits_position) && !hf__lock_state_can_grant(state, &contender))
        return wait_in_queue(state, &contender, op, now);
    holder = add_grant(state, &contender, op);
    return holder ? answer_granted(state, holder, op, now) : HF_NOMEM;
}

/* ---- RENEW, RELEASE, BREAK ---- */

/* A renewal can lower the kind of a hold but never raise it. A renewal as reader or upgradable
   cancels a pending upgrade. */
static void downgrade_hold(hf__lock_state *state, hf__holder *holder, uint32_t kind) {
    uint32_t *is = &holder->contender.kind;
    if (kind != HF_READ && kind != HF_UPGRADABLE) return;
    if (*is == HF_UPGRADABLE) hf__lock_state_dequeue(state, &holder->contender);
    if (*is == HF_WRITE || (*is == HF_UPGRADABLE && kind == HF_READ)) *is = kind;
}

hf_result hf__lock_state_renew(hf__lock_state *state, const hf__store_client *self, hf__op *op,
                               hf__time now) {
    hf__contender contender = hf__contender_of_op(self, op);
    hf__holder *holder = hf__lock_state_find_holder(state, &contender);
    if (!holder || holder->token != op->token) return HF_LOST;
    downgrade_hold(state, holder, op->kind);
    holder->count = op->count;
    extend_lease(holder, op->lease_ms, now);
    op->has_waiters = hf__lock_state_has_other_waiters(state, &contender);
    return HF_OK;
}

hf_result hf__lock_state_release(hf__lock_state *state, const hf__store_client *self,
                                 const hf__op *op) {
    hf__contender contender = hf__contender_of_op(self, op);
    bool held = hf__lock_state_end_holds_of(state, &contender);
    hf__lock_state_dequeue(state, &contender);
    return held ? HF_OK : HF_LOST;
}

hf_result hf__lock_state_break(hf__lock_state *state, hf__op *op, hf__time now) {
    if (now > op->not_after) return HF_TIMEOUT;
    uint64_t first = state->holders ? state->holders->token : 0;
    bool ended = hf__lock_state_end_token(state, op->token);
    if (!ended || !op->token) op->token = first;
    return ended ? HF_OK : HF_NOT_HELD;
}

/* ---- INSPECT ---- */

static void describe_holders(const hf__lock_state *state, hf__lock_info *lock_info) {
    for (const hf__holder *it = state->holders; it; it = it->next) {
        lock_info->holders++;
        if (it->contender.kind != HF_PERMITS) continue;
        lock_info->used += it->contender.permits;
        lock_info->capacity = it->contender.capacity;
    }
}

static void describe_first_holder(const hf__holder *first, hf__lock_info *lock_info, hf__time now) {
    /* it shares the lock with readers */
    bool is_shared = first->next && first->contender.kind == HF_UPGRADABLE;
    lock_info->held = true;
    lock_info->kind = is_shared ? HF_READ : first->contender.kind;
    lock_info->count = first->count;
    lock_info->token = first->token;
    lock_info->since_unix_ms = first->since_unix_ms;
    lock_info->remaining_ms = (first->expires - now) / HF__MS;
    hf__owner_text(lock_info->owner, first->contender.owner);
    memcpy(lock_info->identity.client, first->contender.client->uuid,
           sizeof lock_info->identity.client);
}

static void describe_queue(const hf__lock_state *state, hf__lock_info *lock_info) {
    for (const hf__waiter *it = state->waiters; it; it = it->next) {
        if (lock_info->waiter_count++ >= HF__WAITERS_MAX) continue;
        hf__waiter_info *seen = &lock_info->waiters[lock_info->waiter_count - 1];
        hf__owner_text(seen->owner, it->contender.owner);
        memcpy(seen->client, it->contender.client->uuid, sizeof seen->client);
    }
}

void hf__lock_state_inspect(const hf__lock_state *state, hf__lock_info *lock_info, hf__time now) {
    lock_info->held = false;
    lock_info->waiter_count = lock_info->holders = lock_info->used = lock_info->capacity = 0;
    describe_queue(state, lock_info);
    if (!state->holders) return;
    describe_holders(state, lock_info);
    describe_first_holder(state->holders, lock_info, now);
}
