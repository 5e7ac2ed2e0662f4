/* SPDX-License-Identifier: Apache-2.0 */
#include "core_kit.h"

#include <stdlib.h>
#include <string.h>

#include "t.h"

/* ---- Calls ---- */

kit_call *kit_call_init(kit_call *call) {
    *call = (kit_call){.call = {.waker = &call->outcome}};
    return call;
}

void kit_wait_init(kit_wait *w, uint64_t owner, int64_t wait_ms, int64_t lease_ms, hf__time now) {
    *w = (kit_wait){.wait = {.call = {.waker = &w->outcome},
                             .owner = {owner, false},
                             .lease_ms = lease_ms,
                             .try_once = wait_ms == 0,
                             .started_at = now,
                             .until = wait_ms ? hf__after_ms(now, wait_ms) : HF__NEVER,
                             .handle = calloc(1, sizeof(hf__handle))}};
    T_CHECK(hf__wait_prepare(&w->wait) && w->wait.handle);
}

void kit_wait_fini(kit_wait *w) {
    if (w->outcome.times && w->outcome.result == HF_OK) return;
    free(w->wait.handle);
    hf__wait_discard(&w->wait);
}

void kit_collect(hf__core *core, hf__time now) {
    for (hf__call *call; (call = hf__core_next_finished(core));) {
        kit_outcome *o = call->waker;
        T_CHECK(call->done);
        T_CHECK(o->times == 0);
        o->times++;
        o->at = now;
        o->result = call->result;
        if (call->detail) strcpy(o->detail, call->detail);
        free(call->detail);
        call->detail = NULL;
    }
}

int kit_take_lost(hf__core *core) {
    int count = 0;
    for (hf__ownership *ownership; (ownership = hf__core_next_lost(core)); count++) {
        hf__ownership_unref(ownership);
    }
    return count;
}

void kit_hold_free(hf__handle *hold) {
    hf__ownership_unref(hold->ownership);
    free(hold);
}

hf__entry *kit_entry(const hf__core *core, const char *name) {
    return (hf__entry *)hf__map_find(&core->entries, name, strlen(name));
}

/* ---- The stage's store ---- */

static void stage_submit(hf__store *store, hf__op *op, hf__time now) {
    core_stage *s = (core_stage *)store;
    T_CHECK(store->up);
    T_CHECK(s->count < STAGE_OPS);
    for (size_t i = 0; i < s->count; i++) T_CHECK(s->pending[i] != op);
    op->sent_at = now;
    op->link = store->link;
    s->pending[s->count++] = op;
}

static const hf__store_table table = {.submit = stage_submit};

int stage_set_up(void **state) {
    static const hf__core_config config = {.lease_ms = STAGE_LEASE_MS,
                                           .command_timeout_ms = STAGE_COMMAND_MS,
                                           .outage_ms = STAGE_OUTAGE_MS};
    core_stage *s = calloc(1, sizeof *s);
    if (!s) return -1;
    s->store = (hf__store){.table = &table, .link = 1, .up = true, .expires = true};
    s->now = 1000 * HF__SEC + 1;
    hf__core_init(&s->core, &s->store, &config, 1);
    *state = s;
    return 0;
}

/* Everything that a test leaves must end by itself: the stage answers all pending operations. */
static void answer_all(core_stage *s) {
    while (s->count) stage_answer(s, s->pending[0]->verb, HF_OK);
}

int stage_tear_down(void **state) {
    core_stage *s = *state;
    kit_call close;
    if (s->waiting) return 0; /* an assertion failed: the waits were on that test's stack */
    if (!s->store.up) stage_link_up(s);
    hf__core_close(&s->core, &kit_call_init(&close)->call, s->now);
    stage_process(s);
    stage_run(s, s->now + 100 * HF__SEC, answer_all);
    bool drained = close.outcome.times == 1 && s->core.entries.count == 0;
    if (!drained) fprintf(stderr, "the core is not drained at the end\n");
    hf__core_fini(&s->core);
    free(s);
    return drained ? 0 : -1;
}

/* ---- Actions ---- */

void stage_process(core_stage *s) {
    kit_collect(&s->core, s->now);
    int lost = kit_take_lost(&s->core);
    if (lost) s->lost_at = s->now;
    s->lost += lost;
    for (size_t i = 0; i < s->waiting;) {
        kit_wait *w = s->waits[i];
        if (!w->outcome.times) {
            i++;
            continue;
        }
        if (w->outcome.result == HF_OK) w->hold = w->wait.handle;
        s->waits[i] = s->waits[--s->waiting];
    }
}

void stage_begin(core_stage *s, kit_wait *w, const char *name) {
    T_CHECK(s->waiting < STAGE_WAITS);
    s->waits[s->waiting++] = w;
    hf__core_acquire(&s->core, &w->wait, name, strlen(name), s->now);
    stage_process(s);
}

void stage_acquire_named(core_stage *s, kit_wait *w, const char *name, uint64_t owner,
                         int64_t wait_ms, int64_t lease_ms) {
    kit_wait_init(w, owner, wait_ms, lease_ms, s->now);
    stage_begin(s, w, name);
}

void stage_acquire(core_stage *s, kit_wait *w, uint64_t owner, int64_t wait_ms, int64_t lease_ms) {
    stage_acquire_named(s, w, "name", owner, wait_ms, lease_ms);
}

hf__op *stage_pending_op(core_stage *s, hf__verb verb) {
    if (s->count != 1 || s->pending[0]->verb != verb)
        fail_msg("%zu operations are pending, the first has verb %d, not %d", s->count,
                 s->count ? (int)s->pending[0]->verb : -1, (int)verb);
    return s->pending[0];
}

void stage_nothing_pending(const core_stage *s) {
    if (s->count) fail_msg("unexpected operation: verb %d", (int)s->pending[0]->verb);
}

static void stage_complete(core_stage *s, hf__verb verb, hf_result result, bool maybe) {
    T_CHECK(s->count > 0);
    hf__op *op = s->pending[0];
    assert_int_equal(op->verb, verb);
    memmove(s->pending, s->pending + 1, --s->count * sizeof *s->pending);
    op->result = result;
    op->outcome_unknown = maybe;
    op->detail = result == HF_OK ? NULL : hf__line("the stage said %s", hf_result_name(result));
    hf__core_complete(&s->core, op, s->now);
    stage_process(s);
}

void stage_answer(core_stage *s, hf__verb verb, hf_result result) {
    if (verb == HF__ACQUIRE && result == HF_OK) s->pending[0]->token += 7;
    stage_complete(s, verb, result, false);
}

void stage_answer_maybe(core_stage *s, hf__verb verb, hf_result result) {
    stage_complete(s, verb, result, true);
}

void stage_answer_busy(core_stage *s, int64_t retry_ms) {
    T_CHECK(s->count > 0);
    s->pending[0]->retry_ms = retry_ms;
    stage_complete(s, HF__ACQUIRE, HF_BUSY, false);
}

hf__handle *stage_take(core_stage *s, kit_wait *w, const char *name, int64_t lease_ms) {
    stage_acquire_named(s, w, name, 1, 0, lease_ms);
    stage_pending_op(s, HF__ACQUIRE);
    stage_answer(s, HF__ACQUIRE, HF_OK);
    ASSERT_FINISHED(w->outcome, HF_OK);
    return w->hold;
}

/* ---- Time ---- */

static hf__time next_event(const core_stage *s) {
    hf__time next = hf__core_due(&s->core);
    for (size_t i = 0; i < s->waiting; i++)
        next = hf__sooner(next, hf__wait_until(&s->core, &s->waits[i]->wait));
    return next;
}

static void give_up_due(core_stage *s) {
    for (size_t i = 0; i < s->waiting; i++) {
        kit_wait *w = s->waits[i];
        if (s->now < hf__wait_until(&s->core, &w->wait)) continue;
        stage_give_up(s, w, HF_TIMEOUT);
        i = (size_t)-1; /* settling moved the others */
    }
}

/* Advances to the next event, if it is not after `until`. */
static bool advance_time(core_stage *s, hf__time until) {
    hf__time next = next_event(s);
    if (next > until) {
        s->now = until;
        return false;
    }
    s->now = hf__later(s->now, next);
    hf__core_tick(&s->core, s->now);
    stage_process(s);
    give_up_due(s);
    return true;
}

enum { EVENTS_MAX = 100000 };

void stage_run(core_stage *s, hf__time until, stage_answerer *answerer) {
    int events = 0;
    do {
        if (answerer) answerer(s);
        if (++events > EVENTS_MAX) t_fail("the core never becomes idle");
    } while (advance_time(s, until));
}

hf__op *stage_run_to_op(core_stage *s, hf__verb verb, hf__time until) {
    for (int events = 0; !s->count && advance_time(s, until);)
        if (++events > EVENTS_MAX) t_fail("the core never becomes idle");
    return stage_pending_op(s, verb);
}

/* ---- The link ---- */

void stage_link_down(core_stage *s) {
    s->store.up = false;
    hf__core_link_changed(&s->core, s->now);
    stage_process(s);
    for (size_t n = s->count; n; n--) stage_answer_maybe(s, s->pending[0]->verb, HF_UNREACHABLE);
}

void stage_link_up(core_stage *s) {
    s->store.up = true;
    s->store.link++;
    hf__core_link_changed(&s->core, s->now);
    stage_process(s);
}

/* ---- Calls of a holder ---- */

void stage_release(core_stage *s, hf__handle *hold, kit_call *call) {
    hf__core_release(&s->core, hold, &kit_call_init(call)->call, s->now);
    stage_process(s);
}

void stage_extend(core_stage *s, hf__handle *hold, int64_t lease_ms, kit_call *call) {
    hf__core_extend(&s->core, hold, lease_ms, &kit_call_init(call)->call, s->now);
    stage_process(s);
}

void stage_give_up(core_stage *s, kit_wait *w, hf_result why) {
    hf__core_give_up(&w->wait, why, s->now);
    stage_process(s);
}
