/* SPDX-License-Identifier: Apache-2.0 */
/* The visits of a soak's thread, chosen at random. */
#include <stdio.h>
#include <string.h>

#include "soak_thread.h"
#include "t_time.h"

enum {
    SHORT_MS = 80,
    LONG_MS = 7000, /* longer than a lease */
    UPGRADE_MS = 10000,
    TIMED_MS = 200,
    DEPTH_MAX = 4,
    LATCH_WAIT_MS = 15000,
    RETRY_MS = 100
};

int thread_chance(soak_thread *m, int below) {
    m->chance = m->chance * 1664525U + 1013904223U;
    return (int)((m->chance >> 8) % (unsigned)below);
}

/* If all exchanges of a client so far met a stopped server, the client reports its store as too
   slow. */
static bool is_slow(hf_result result) {
    return result == HF_INVALID && strstr(hf_error_detail(), "round trips");
}

bool thread_is_away(soak_thread *m, hf_result result) {
    if (result != HF_UNREACHABLE && result != HF_UNKNOWN_OUTCOME && !is_slow(result)) return false;
    atomic_fetch_add(&m->s->counts.away, 1);
    return true;
}

void thread_waits(soak_thread *m, const char *name) {
    static const char *const stores[SOAK_STORES] = {"kept", "wiped", "file"};
    snprintf(m->s->waiting_for[m->slot], SOAK_WAIT_ROOM, "%s %s", stores[m->store], name);
    atomic_store(&m->s->waiting_since_ms[m->slot], t_now_ms());
}

void mate_served(soak_thread *m) {
    soak_counts *c = &m->s->counts;
    long long ms = t_now_ms() - atomic_exchange(&m->s->waiting_since_ms[m->slot], 0);
    long long longest = atomic_load(&c->longest_ms);
    int bucket = 0;
    while (bucket < SOAK_BUCKETS - 1 && ms > 1LL << bucket) bucket++;
    atomic_fetch_add(&c->waits[bucket], 1);
    while (ms > longest && !atomic_compare_exchange_weak(&c->longest_ms, &longest, ms)) continue;
    if (ms > longest) memcpy(m->s->longest_for, m->s->waiting_for[m->slot], SOAK_WAIT_ROOM);
}

static int64_t inside_ms(soak_thread *m, int one_in) {
    return thread_chance(m, one_in) ? thread_chance(m, SHORT_MS) : thread_chance(m, LONG_MS);
}

/* ---- One name -------------------------------------------------------------------------------- */

static void begin_stay(soak_thread *m, stay *st, int family, uint32_t kind, char *name) {
    *st = (stay){.count = 1};
    st->at[0].name = soak_name(m->store, family, thread_chance(m, soak_names_of(family)), name);
    st->at[0].kind = kind;
}

static bool acquire_one(soak_thread *m, stay *st, const char *name, const hf_options *options) {
    return stay_acquire(m, st, &name, options);
}

static void visit_mutex(soak_thread *m) {
    static const int64_t waits[] = {HF_FOREVER, HF_FOREVER, HF_FOREVER, HF_FOREVER, 0, TIMED_MS};
    char name[SOAK_NAME_ROOM];
    stay st;
    begin_stay(m, &st, SOAK_MUTEX, HF_MUTEX, name);
    hf_options options = stay_options(m, HF_MUTEX);
    options.wait_ms = waits[thread_chance(m, 6)];
    if (!acquire_one(m, &st, name, &options)) return;
    stay_inside(m, &st, inside_ms(m, 1000));
    stay_release(m, &st);
}

/* The owner enters again: the same ownership, with the same token. */
static void visit_again(soak_thread *m) {
    char name[SOAK_NAME_ROOM];
    hf_hold *again[DEPTH_MAX] = {NULL};
    stay st;
    begin_stay(m, &st, SOAK_MUTEX, HF_MUTEX, name);
    hf_options options = stay_options(m, HF_MUTEX);
    if (!acquire_one(m, &st, name, &options)) return;
    const hf_options more = {.wait_ms = 0};
    int depth = 1 + thread_chance(m, DEPTH_MAX - 1), have = 0;
    while (have < depth && hf_acquire(m->client, name, &more, &again[have]) == HF_OK) have++;
    for (int i = 0; i < have; i++)
        if (hf_fence(again[i]) != hf_fence(st.hold) && hf_held(again[i]) && hf_held(st.hold))
            soak_violated(m->s, "%s was entered again under another token", name);
    atomic_fetch_add(&m->s->counts.reentered, have);
    stay_inside(m, &st, inside_ms(m, 1000));
    for (int i = 0; i < LEDGER_RECORDS && have; i++) ledger_leave(&m->s->ledger, m->slot, i);
    while (have) (void)hf_release(again[--have]);
    stay_release(m, &st);
}

static void visit_lone(soak_thread *m) {
    char name[SOAK_NAME_ROOM];
    stay st;
    begin_stay(m, &st, SOAK_LONE, HF_MUTEX, name);
    hf_options options = stay_options(m, HF_MUTEX);
    if (!acquire_one(m, &st, name, &options)) return;
    stay_inside(m, &st, inside_ms(m, 20));
    stay_release(m, &st);
}

static void visit_permits(soak_thread *m) {
    char name[SOAK_NAME_ROOM];
    stay st;
    begin_stay(m, &st, SOAK_PERMIT, HF_PERMITS, name);
    hf_options options = stay_options(m, HF_PERMITS);
    st.at[0].permits = options.permits = 1 + (uint32_t)thread_chance(m, 3);
    st.at[0].capacity = options.capacity = SOAK_CAPACITY;
    options.owner = 1 + (uint64_t)m->slot;
    if (!acquire_one(m, &st, name, &options)) return;
    stay_inside(m, &st, inside_ms(m, 500));
    stay_release(m, &st);
}

/* ---- Readers and writers --------------------------------------------------------------------- */

/* Write for a while, then read again. */
static void upgrade_stay(soak_thread *m, stay *st) {
    hf_result result = hf_upgrade(st->hold, UPGRADE_MS);
    if (result != HF_OK) return;
    atomic_fetch_add(&m->s->counts.upgraded, 1);
    stay_becomes(m, st, HF_WRITE);
    stay_inside(m, st, thread_chance(m, SHORT_MS));
    ledger_leave(&m->s->ledger, m->slot, 0);
    if (hf_downgrade(st->hold) == HF_OK) stay_becomes(m, st, HF_UPGRADABLE);
}

static void visit_readers_writers(soak_thread *m) {
    static const uint32_t kinds[] = {HF_READ, HF_READ,       HF_READ,       HF_READ,
                                     HF_READ, HF_UPGRADABLE, HF_UPGRADABLE, HF_WRITE};
    uint32_t kind = kinds[thread_chance(m, 8)];
    char name[SOAK_NAME_ROOM];
    stay st;
    begin_stay(m, &st, SOAK_SHARED, kind, name);
    hf_options options = stay_options(m, kind);
    options.owner = 1 + (uint64_t)m->slot;
    if (!acquire_one(m, &st, name, &options)) return;
    stay_inside(m, &st, inside_ms(m, 500));
    if (kind == HF_UPGRADABLE && thread_chance(m, 2)) upgrade_stay(m, &st);
    stay_release(m, &st);
}

/* ---- Several names --------------------------------------------------------------------------- */

static void visit_many(soak_thread *m) {
    char names[STAY_NAMES][SOAK_NAME_ROOM];
    const char *pointers[STAY_NAMES];
    stay st = {.count = 2 + thread_chance(m, STAY_NAMES - 1)};
    int all = soak_names_of(SOAK_MANY), first = thread_chance(m, all);
    for (int i = 0; i < st.count; i++) {
        st.at[i].kind = HF_MUTEX;
        st.at[i].name = soak_name(m->store, SOAK_MANY, (first + 2 * all - i) % all, names[i]);
        pointers[i] = names[i];
    }
    hf_options options = stay_options(m, HF_MUTEX);
    if (!stay_acquire(m, &st, pointers, &options)) return;
    stay_inside(m, &st, inside_ms(m, 1000));
    stay_release(m, &st);
}

/* ---- Leading --------------------------------------------------------------------------------- */

/* The value contains the token under which it was proclaimed: see check_leader() of worker.c. */
static void visit_lead(soak_thread *m) {
    char name[SOAK_NAME_ROOM], value[32];
    stay st;
    begin_stay(m, &st, SOAK_LEAD, HF_MUTEX, name);
    hf_options options = stay_options(m, HF_MUTEX);
    hf_result result;
    atomic_store(&m->lost_calls, 0);
    thread_waits(m, name);
    do {
        st.at[0].wipes = atomic_load(&m->s->wipes[m->store]);
        result = hf_campaign(m->client, name, "new", 3, &options, &st.hold);
        if (result != HF_OK) t_sleep_ms(RETRY_MS);
    } while (result == HF_LOST || thread_is_away(m, result));
    mate_served(m);
    if (result != HF_OK) {
        soak_violated(m->s, "campaign: %s (%s)", hf_result_name(result), hf_error_detail());
        return;
    }
    st.wipes_granted = atomic_load(&m->s->wipes[m->store]);
    atomic_store(&m->lost_calls, 0);
    stay_becomes(m, &st, HF_MUTEX);
    int length = snprintf(value, sizeof value, "%llu", (unsigned long long)hf_fence(st.hold));
    if (hf_proclaim(st.hold, value, (size_t)length) == HF_OK)
        atomic_fetch_add(&m->s->counts.led, 1);
    stay_inside(m, &st, inside_ms(m, 200));
    stay_release(m, &st);
}

/* ---- Latches --------------------------------------------------------------------------------- */

void thread_count_round(soak_thread *m, int gate) {
    enum { COUNT = 3 };
    soak_gate *g = &m->s->gates[gate];
    char name[SOAK_NAME_ROOM];
    snprintf(name, sizeof name, "gate-%d", gate);
    if (hf_latch_set(m->client, name, COUNT) != HF_OK) return;
    long long round = atomic_fetch_add(&g->set, 1) + 1;
    for (int i = 0; i < COUNT; i++) {
        t_sleep_ms(thread_chance(m, SHORT_MS));
        if (i == COUNT - 1) atomic_store(&g->ending, round);
        if (hf_latch_count_down(m->client, name, 1, NULL) != HF_OK) return;
    }
}

/* The wait must end with a round that began no earlier than the last one set before the wait. */
void thread_await_round(soak_thread *m, int gate) {
    soak_gate *g = &m->s->gates[gate];
    char name[SOAK_NAME_ROOM];
    snprintf(name, sizeof name, "gate-%d", gate);
    long long before = atomic_load(&g->set);
    hf_result result = hf_latch_wait(m->client, name, &(hf_options){.wait_ms = LATCH_WAIT_MS});
    long long ending = atomic_load(&g->ending);
    if (result == HF_OK && ending < before)
        soak_violated(m->s, "the wait for %s ended in round %lld, but only %lld had ended", name,
                      before, ending);
    if (result == HF_OK) atomic_fetch_add(&m->s->counts.latched, 1);
    if (result == HF_TIMEOUT) atomic_fetch_add(&m->s->counts.busy, 1);
    if (result != HF_OK && result != HF_TIMEOUT && result != HF_NOT_HELD &&
        !thread_is_away(m, result))
        soak_violated(m->s, "latch: %s (%s)", hf_result_name(result), hf_error_detail());
}

static void visit_latch(soak_thread *m) {
    if (m->store == SOAK_KEPT) thread_await_round(m, thread_chance(m, SOAK_GATES));
}

/* ---- All ------------------------------------------------------------------------------------- */

/* Enter without acquiring: the ledger must notice. */
static void enter_unlocked(soak_thread *m) {
    char name[SOAK_NAME_ROOM];
    stay st;
    begin_stay(m, &st, SOAK_MUTEX, HF_MUTEX, name);
    st.at[0].wipes = atomic_load(&m->s->wipes[m->store]);
    st.at[0].until_us = t_now_us() + SHORT_MS * 1000;
    ledger_enter(&m->s->ledger, m->slot, 0, &st.at[0]);
    t_sleep_ms(SHORT_MS);
    ledger_leave(&m->s->ledger, m->slot, 0);
}

typedef void visit_fn(soak_thread *m);

void thread_visit(soak_thread *m) {
    static visit_fn *const visits[] = {visit_mutex,
                                       visit_mutex,
                                       visit_mutex,
                                       visit_again,
                                       visit_again,
                                       visit_readers_writers,
                                       visit_readers_writers,
                                       visit_readers_writers,
                                       visit_readers_writers,
                                       visit_permits,
                                       visit_permits,
                                       visit_many,
                                       visit_many,
                                       visit_lead,
                                       visit_lone,
                                       visit_lone,
                                       visit_lone,
                                       visit_lone,
                                       visit_latch,
                                       visit_latch};
    if (m->s->plant == SOAK_PLANT_DOUBLE && m->slot == 0) enter_unlocked(m);
    visits[thread_chance(m, (int)(sizeof visits / sizeof *visits))](m);
    atomic_fetch_add(&m->s->counts.visits, 1);
}
