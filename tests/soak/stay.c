/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A stay inside one lock or several: recorded in the ledger, watched, and ended. These checks apply
 * to every kind. No conflicting stay exists at the same time, and tokens grow. A loss is reported
 * within a lease of a wipe. A release of a lock that the store had lost does not succeed. No loss
 * is reported that did not happen.
 */
#include <stdlib.h>

#include "soak_thread.h"
#include "t_time.h"

enum { LOOK_EVERY_MS = 10, RETRY_MS = 100, LOSS_SLACK_MS = 1000, LEAK_BYTES = 400 };

static void on_lost(hf_hold *hold, void *arg) {
    soak_thread *m = arg;
    (void)hold;
    atomic_fetch_add(&m->lost_calls, 1);
    atomic_fetch_add(&m->s->counts.lost_calls, 1);
}

hf_options stay_options(soak_thread *m, uint32_t kind) {
    return (hf_options){.wait_ms = HF_FOREVER, .kind = kind, .on_lost = on_lost, .arg = m};
}

/* Its deadline, by a clock that was read before. */
static int64_t until_us(const hf_hold *hold) {
    int64_t now_us = t_now_us();
    int64_t left_ms = hf_remaining_ms(hold);
    return left_ms > 0 ? now_us + left_ms * 1000 : 0;
}

static bool is_exclusive(uint32_t kind) {
    return kind == HF_MUTEX || kind == HF_WRITE;
}

static void check_token(soak_thread *m, const stay *st, int i, unsigned wipes) {
    const ledger_stay *at = &st->at[i];
    uint64_t token = st->count > 1 ? hf_fence_of(st->hold, (size_t)i) : hf_fence(st->hold);
    if (!is_exclusive(at->kind) || ledger_token_grows(&m->s->ledger, at->name, token)) return;
    if (at->wipes != wipes || wipes % 2 || !hf_held(st->hold)) return;
    soak_violated(m->s, "token %llu of name %d does not grow (slot %d)", (unsigned long long)token,
                  at->name, m->slot);
}

static void enter_locks(soak_thread *m, stay *st) {
    int other = -1;
    for (int i = 0; i < st->count; i++) {
        st->at[i].until_us = until_us(st->hold);
        ledger_enter(&m->s->ledger, m->slot, i, &st->at[i]);
    }
    unsigned wipes = atomic_load(&m->s->wipes[m->store]);
    for (int i = 0; i < st->count; i++) {
        if (ledger_overlaps(&m->s->ledger, m->slot, &st->at[i], wipes, &other))
            soak_violated(m->s, "two inside name %d, kind %u: slots %d and %d", st->at[i].name,
                          st->at[i].kind, m->slot, other);
        check_token(m, st, i, wipes);
    }
}

/* One attempt to acquire the names. */
static hf_result try_acquire(soak_thread *m, stay *st, const char *const *names,
                             const hf_options *options) {
    hf_request requests[STAY_NAMES];
    if (st->count == 1) return hf_acquire(m->client, names[0], options, &st->hold);
    for (int i = 0; i < st->count; i++)
        requests[i] = (hf_request){.name = names[i], .kind = st->at[i].kind};
    return hf_acquire_all(m->client, requests, (size_t)st->count, options, &st->hold);
}

static void remember_wipes(soak_thread *m, stay *st) {
    unsigned wipes = atomic_load(&m->s->wipes[m->store]);
    for (int i = 0; i < st->count; i++) st->at[i].wipes = wipes;
}

bool stay_acquire(soak_thread *m, stay *st, const char *const *names, const hf_options *options) {
    hf_result result;
    thread_waits(m, names[0]);
    for (;;) {
        /* one of several names may have been lost before all were held */
        atomic_store(&m->lost_calls, 0);
        remember_wipes(m, st);
        result = try_acquire(m, st, names, options);
        if (!thread_is_away(m, result) && result != HF_LOST) break;
        t_sleep_ms(RETRY_MS + thread_chance(m, RETRY_MS));
    }
    mate_served(m);
    if (result == HF_BUSY || result == HF_TIMEOUT) atomic_fetch_add(&m->s->counts.busy, 1);
    if (result != HF_OK && result != HF_BUSY && result != HF_TIMEOUT)
        soak_violated(m->s, "acquire of %s: %s (%s)", names[0], hf_result_name(result),
                      hf_error_detail());
    if (result != HF_OK) return false;
    st->wipes_granted = atomic_load(&m->s->wipes[m->store]);
    atomic_fetch_add(&m->s->counts.entered, 1);
    enter_locks(m, st);
    return true;
}

/* Whether a wipe has begun and ended since the grant. */
static bool was_wiped(soak_thread *m, const stay *st) {
    return atomic_load(&m->s->wipes[m->store]) / 2 > (st->wipes_granted + 1) / 2;
}

/* The clock is read before hf_held: a stop of the process between the two does no harm. */
static void check_loss_is_reported(soak_thread *m, stay *st) {
    int64_t now_ms = t_now_ms();
    if (!st->wiped_ms && was_wiped(m, st)) st->wiped_ms = now_ms;
    if (!st->wiped_ms || now_ms - st->wiped_ms < SOAK_LEASE_MS + LOSS_SLACK_MS) return;
    if (hf_held(st->hold))
        soak_violated(m->s, "name %d is held a lease after its store was wiped (slot %d)",
                      st->at[0].name, m->slot);
}

void stay_inside(soak_thread *m, stay *st, int64_t ms) {
    int64_t end_ms = t_now_ms() + ms;
    while (t_now_ms() < end_ms && hf_held(st->hold)) {
        int64_t left_ms = end_ms - t_now_ms();
        t_sleep_ms(left_ms < LOOK_EVERY_MS ? left_ms : LOOK_EVERY_MS);
        int64_t until = until_us(st->hold);
        for (int i = 0; i < st->count; i++) ledger_extend(&m->s->ledger, m->slot, i, until);
        check_loss_is_reported(m, st);
    }
}

void stay_becomes(soak_thread *m, stay *st, uint32_t kind) {
    st->at[0].kind = kind;
    enter_locks(m, st);
}

struct gathered {
    struct gathered *next;
    char bytes[LEAK_BYTES];
};

/* Grows like a table that remembers every visit, and is freed with its client. */
static void grow_table(soak_thread *m) {
    struct gathered *one = malloc(sizeof *one);
    if (!one) return;
    one->next = m->gathered;
    m->gathered = one;
}

void stay_forget(soak_thread *m) {
    while (m->gathered) {
        struct gathered *one = m->gathered;
        m->gathered = one->next;
        free(one);
    }
}

/* Plants the bug of a user who forgets to free something. */
static void plant_bug(soak_thread *m) {
    if (m->s->plant == SOAK_PLANT_LEAK) {
        char *leaked = malloc(LEAK_BYTES);
        if (leaked) *(volatile char *)leaked = 1;
    }
    if (m->s->plant == SOAK_PLANT_DESCRIPTOR && m->index == 0) (void)hf_cancel_new();
    if (m->s->plant == SOAK_PLANT_GATHER) grow_table(m);
}

void stay_release(soak_thread *m, stay *st) {
    for (int i = 0; i < st->count; i++) ledger_leave(&m->s->ledger, m->slot, i);
    bool wiped = was_wiped(m, st);
    hf_result result = hf_release(st->hold);
    if (result == HF_LOST) atomic_fetch_add(&m->s->counts.lost, 1);
    if (result != HF_OK && result != HF_LOST && result != HF_UNKNOWN_OUTCOME)
        soak_violated(m->s, "release: %s (%s)", hf_result_name(result), hf_error_detail());
    if (result == HF_OK && wiped)
        soak_violated(m->s, "name %d was released as if its store had not been wiped (slot %d)",
                      st->at[0].name, m->slot);
    if (atomic_load(&m->lost_calls) > (result == HF_OK ? 0 : 1))
        soak_violated(m->s, "on_lost was called %d times for a hold whose release returned %s",
                      atomic_load(&m->lost_calls), hf_result_name(result));
    plant_bug(m);
}
