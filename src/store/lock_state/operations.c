/* SPDX-License-Identifier: Apache-2.0 */
/* What each operation does to the state of a lock, and its answer. See operations.h. */
#include "store/lock_state/operations.h"

#include "store/lock_state/token.h"

#define RETRY_MS 20 /* when an acquire that is not queued is to be tried again */

/* The first lease of a waiter that is granted: its client may be gone. */
#define FIRST_LEASE_MIN_MS 2000
#define FIRST_LEASE_MAX_MS 10000

hf__contender hf__contender_of_op(hf__client_id self, const hf__op *op) {
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

static uint64_t next_token(hf__lock_state *state, const hf__lock_env *env, uint64_t seen) {
    return state->last_token = hf__token_next(state->last_token, seen, env->token_clock);
}

static bool holders_are_full(const hf__lock_state *state, uint32_t max) {
    uint32_t count = 0;
    for (const hf__holder *it = state->holders; it && count < max; it = it->next) count++;
    return max && count == max;
}

/* NULL: out of memory, or all holders that the store has space for are there. */
static hf__holder *add_grant(hf__lock_state *state, const hf__lock_env *env,
                             const hf__contender *contender, uint32_t count, uint64_t seen) {
    bool full = holders_are_full(state, env->max_holders);
    hf__holder *made = full ? NULL : hf__lock_state_add_holder(state, contender);
    if (!made) return NULL;
    made->token = next_token(state, env, seen);
    made->since_unix_ms = env->unix_us / 1000;
    made->count = count;
    return made;
}

static void grant_upgrade(hf__lock_state *state, const hf__lock_env *env, hf__holder *holder,
                          uint64_t seen) {
    hf__lock_state_dequeue(state, &holder->contender);
    holder->contender.kind = HF_WRITE;
    holder->token = next_token(state, env, seen);
}

static hf_result answer_granted(const hf__lock_state *state, const hf__lock_env *env,
                                hf__holder *holder, hf__op *op) {
    extend_lease(holder, op->lease_ms, env->now);
    op->token = holder->token;
    op->has_waiters = hf__lock_state_has_other_waiters(state, &holder->contender);
    return HF_OK;
}

/* Retry no later than the first lease ends: its holder may have died. */
static hf_result answer_busy(const hf__lock_state *state, const hf__lock_env *env, hf__op *op) {
    op->retry_ms = op->queued ? env->queued_retry_ms : RETRY_MS;
    for (const hf__holder *it = state->holders; it; it = it->next) {
        int64_t left = (it->expires - env->now) / HF__MS + 1;
        if (left < op->retry_ms) op->retry_ms = left;
        op->holder_token = it->token; /* of the last holder: it is the highest */
    }
    return HF_BUSY;
}

static hf_result wait_in_queue(hf__lock_state *state, const hf__lock_env *env,
                               const hf__contender *contender, hf__op *op) {
    hf__waiter *waiter = NULL;
    if (op->enqueue)
        waiter = hf__lock_state_enqueue(state, contender, op->upgrade, env->max_waiters);
    op->queued = waiter != NULL;
    if (!waiter) return answer_busy(state, env, op);
    waiter->count = op->count;
    waiter->seen_token = op->token;
    waiter->lease_ms = op->lease_ms;
    waiter->seen_at = env->now;
    if (!waiter->since_unix_ms) waiter->since_unix_ms = env->unix_us / 1000;
    return answer_busy(state, env, op);
}

/* All permits that are held at the same time must have one capacity. */
static bool capacity_differs(const hf__lock_state *state, const hf__contender *contender,
                             hf__op *op) {
    const hf__contender *holder = state->holders ? &state->holders->contender : NULL;
    if (contender->kind != HF_PERMITS || !holder || holder->kind != HF_PERMITS) return false;
    if (holder->capacity == contender->capacity) return false;
    op->capacity = holder->capacity;
    return true;
}

/* An upgrade goes before all waiters. It waits only until it is the sole holder. */
static hf_result upgrade_hold(hf__lock_state *state, const hf__lock_env *env,
                              const hf__contender *contender, hf__op *op) {
    hf__holder *holder = hf__lock_state_find_holder(state, contender);
    if (!holder) return HF_LOST;
    if (holder->contender.kind == HF_WRITE) return answer_granted(state, env, holder, op);
    if (holder->contender.kind != HF_UPGRADABLE) return HF_INVALID;
    if (state->holders->next) return wait_in_queue(state, env, contender, op);
    grant_upgrade(state, env, holder, op->token);
    return answer_granted(state, env, holder, op);
}

hf_result hf__lock_state_acquire(hf__lock_state *state, const hf__lock_env *env, hf__client_id self,
                                 hf__op *op) {
    if (env->now > op->not_after) return HF_TIMEOUT;
    hf__contender contender = hf__contender_of_op(self, op);
    if (op->upgrade) return upgrade_hold(state, env, &contender, op);
    hf__holder *holder = hf__lock_state_find_holder(state, &contender);
    if (holder) return answer_granted(state, env, holder, op);
    if (hf__lock_state_is_superseded(state, &contender)) return answer_busy(state, env, op);
    if (capacity_differs(state, &contender, op)) {
        hf__lock_state_dequeue(state, &contender);
        return HF_INVALID;
    }
    /* A hold of a lower acquire id was granted after its caller had stopped waiting. This acquire
       inherits the turn of that hold. */
    bool replaced = hf__lock_state_end_holds_of(state, &contender);
    if (!(replaced && op->inherits_position) && !hf__lock_state_can_grant(state, env, &contender))
        return wait_in_queue(state, env, &contender, op);
    holder = add_grant(state, env, &contender, op->count, op->token);
    return holder ? answer_granted(state, env, holder, op) : HF_NOMEM;
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

hf_result hf__lock_state_renew(hf__lock_state *state, const hf__lock_env *env, hf__client_id self,
                               hf__op *op) {
    hf__contender contender = hf__contender_of_op(self, op);
    hf__holder *holder = hf__lock_state_find_holder(state, &contender);
    if (!holder || holder->token != op->token) return HF_LOST;
    downgrade_hold(state, holder, op->kind);
    holder->count = op->count;
    extend_lease(holder, op->lease_ms, env->now);
    op->has_waiters = hf__lock_state_has_other_waiters(state, &contender);
    return HF_OK;
}

/* The release was repeated, and the hold is gone. If nobody was granted the lock since, the first
   release has ended it, or its lease did: it makes no difference. */
static hf_result answer_repeated_release(const hf__lock_state *state, hf__op *op) {
    if (state->last_token == op->token) return HF_OK;
    op->outcome_unknown = true;
    return HF_LOST;
}

hf_result hf__lock_state_release(hf__lock_state *state, hf__client_id self, hf__op *op) {
    hf__contender contender = hf__contender_of_op(self, op);
    const hf__holder *holder = hf__lock_state_find_holder(state, &contender);
    bool is_other = op->exact_token && holder && holder->token != op->token;
    bool held = hf__lock_state_end_holds_of(state, &contender);
    hf__lock_state_dequeue(state, &contender);
    if (!held && op->retried) return answer_repeated_release(state, op);
    return held && !is_other ? HF_OK : HF_LOST;
}

hf_result hf__lock_state_break(hf__lock_state *state, const hf__lock_env *env, hf__op *op) {
    if (env->now > op->not_after) return HF_TIMEOUT;
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
    hf__client_id_to_uuid(first->contender.client, lock_info->identity.client);
}

static void describe_queue(const hf__lock_state *state, hf__lock_info *lock_info) {
    for (const hf__waiter *it = state->waiters; it; it = it->next) {
        if (lock_info->waiter_count++ >= HF__WAITERS_MAX) continue;
        hf__waiter_info *seen = &lock_info->waiters[lock_info->waiter_count - 1];
        hf__owner_text(seen->owner, it->contender.owner);
        hf__client_id_to_uuid(it->contender.client, seen->client);
    }
}

void hf__lock_state_inspect(const hf__lock_state *state, const hf__lock_env *env,
                            hf__lock_info *lock_info) {
    lock_info->held = false;
    lock_info->waiter_count = lock_info->holders = lock_info->used = lock_info->capacity = 0;
    describe_queue(state, lock_info);
    if (!state->holders) return;
    describe_holders(state, lock_info);
    describe_first_holder(state->holders, lock_info, env->now);
}

/* ---- Any operation ---- */

static int64_t first_lease_of(int64_t lease_ms) {
    int64_t first = lease_ms / 3;
    if (first < FIRST_LEASE_MIN_MS) first = FIRST_LEASE_MIN_MS;
    if (first > FIRST_LEASE_MAX_MS) first = FIRST_LEASE_MAX_MS;
    return first < lease_ms ? first : lease_ms;
}

/* False: it stays in the queue. */
static bool hand_over_to(hf__lock_state *state, const hf__lock_env *env, const hf__waiter *waiter) {
    hf__waiter granted = *waiter; /* the grant removes it from the queue */
    hf__holder *holder = hf__lock_state_find_holder(state, &granted.contender);
    if (holder)
        grant_upgrade(state, env, holder, granted.seen_token);
    else
        holder = add_grant(state, env, &granted.contender, granted.count, granted.seen_token);
    if (!holder) return false;
    extend_lease(holder, first_lease_of(granted.lease_ms), env->now);
    holder->handed_over = true;
    return true;
}

static void hand_over(hf__lock_state *state, const hf__lock_env *env) {
    bool granted = true;
    for (hf__holder *it = state->holders; it; it = it->next) it->handed_over = false;
    while (granted && state->waiters) {
        hf__lock_state_mark_grantable(state, env);
        const hf__waiter *it = state->waiters;
        while (it && !it->can_be_granted) it = it->next;
        granted = it && hand_over_to(state, env, it);
    }
}

static hf_result execute_op(hf__lock_state *state, const hf__lock_env *env, hf__client_id self,
                            hf__op *op) {
    switch (op->verb) {
    case HF__ACQUIRE: return hf__lock_state_acquire(state, env, self, op);
    case HF__RENEW: return hf__lock_state_renew(state, env, self, op);
    case HF__RELEASE: return hf__lock_state_release(state, self, op);
    case HF__BREAK: return hf__lock_state_break(state, env, op);
    case HF__INSPECT: hf__lock_state_inspect(state, env, op->lock_info); return HF_OK;
    default: return HF_UNSUPPORTED;
    }
}

hf_result hf__lock_state_apply(hf__lock_state *state, const hf__lock_env *env, hf__client_id self,
                               hf__op *op) {
    hf__lock_state_expire(state, env);
    hf_result r = execute_op(state, env, self, op);
    if (env->hands_over) hand_over(state, env);
    if (state->waiters) hf__lock_state_mark_grantable(state, env);
    return r;
}
