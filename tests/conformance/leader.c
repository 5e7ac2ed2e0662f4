/* SPDX-License-Identifier: Apache-2.0 */
/* Leaders: campaigns, values and their tokens, and observers. */
#include "conformance.h"

#include <poll.h>
#include <unistd.h>

#include "t_proc.h"

static const hf_options FOREVER = {.wait_ms = HF_FOREVER};

static hf_hold *become_leader(hf_client *client, const char *name, const char *value,
                              const hf_options *options) {
    hf_hold *hold = NULL;
    CF_IS(HF_OK, hf_campaign(client, name, value, strlen(value), options, &hold));
    assert_int_equal(hf_held(hold), 1);
    return hold;
}

/* The leader has this value, under the token of this hold. */
static void check_leads(hf_client *client, const char *name, const hf_hold *hold,
                        const char *value) {
    hf_leader_info *info = NULL;
    CF_IS(HF_OK, hf_leader(client, name, &info));
    assert_true(info->token == hf_fence(hold));
    assert_int_equal(info->value_length, strlen(value));
    assert_string_equal(info->value, value);
    assert_int_equal(info->pid, getpid());
    assert_int_equal(strlen(info->client), 36);
    assert_true(*info->host && *info->program);
    assert_in_range(info->remaining_ms, 0, HF_LEASE_MAX_MS);
    hf_leader_free(info);
}

static void check_nobody(hf_client *client, const char *name) {
    hf_leader_info *info = (hf_leader_info *)client;
    CF_IS(HF_NOT_HELD, hf_leader(client, name, &info));
    assert_null(info);
}

/* ---- Campaigning ----------------------------------------------------------------------------- */

static void B32_a_campaigner_leads_until_it_resigns(cf *f) {
    check_nobody(f->a, f->name);
    hf_hold *hold = become_leader(f->a, f->name, "host-1:8080", NULL);
    check_leads(f->a, f->name, hold, "host-1:8080");
    check_leads(f->b, f->name, hold, "host-1:8080");
    hf_info *seen = cf_inspect(f->b, f->name); /* an ordinary hold */
    assert_true(seen->held && seen->token == hf_fence(hold));
    assert_int_equal(seen->kind, HF_MUTEX);
    assert_int_equal(seen->count, 1);
    hf_info_free(seen);
    hf_hold *other = NULL;
    CF_IS(HF_BUSY, hf_campaign(f->b, f->name, "x", 1, NULL, &other));
    CF_IS(HF_TIMEOUT, hf_campaign(f->b, f->name, "x", 1, &(hf_options){.wait_ms = 300}, &other));
    assert_null(other);
    check_leads(f->b, f->name, hold, "host-1:8080");
    CF_FREE(hold);
    check_nobody(f->b, f->name);
    hold = become_leader(f->b, f->name, "host-2", NULL);
    check_leads(f->a, f->name, hold, "host-2");
    CF_FREE(hold);
}

typedef struct campaign {
    hf_client *client;
    const char *name, *value;
    hf_options options;
    hf_result result;
    hf_hold *hold;
    cf_thread *thread;
} campaign;

static void campaign_in_thread(void *arg) {
    campaign *c = arg;
    c->result = hf_campaign(c->client, c->name, c->value, strlen(c->value), &c->options, &c->hold);
}

static campaign *begin_campaign(cf *f, hf_client *client, const char *value,
                                const hf_options *options) {
    campaign *c = cf_new(f, sizeof *c);
    *c = (campaign){.client = client, .name = f->name, .value = value, .options = *options};
    uint64_t waiting = cf_stats(client).waiting;
    c->thread = cf_spawn(f, campaign_in_thread, c);
    CF_UNTIL(cf_stats(client).waiting > waiting);
    return c;
}

static void B32_the_next_campaigner_leads_after_a_resignation(cf *f) {
    hf_hold *hold = become_leader(f->a, f->name, "first", NULL);
    campaign *next = begin_campaign(f, f->b, "second", &FOREVER);
    check_leads(f->b, f->name, hold, "first");
    uint64_t token = hf_fence(hold);
    CF_FREE(hold);
    cf_join(next->thread);
    CF_IS(HF_OK, next->result);
    assert_true(hf_fence(next->hold) > token);
    check_leads(f->a, f->name, next->hold, "second");
    CF_FREE(next->hold);
}

static void B32_a_campaign_is_cancelled_or_closed_like_a_wait(cf *f) {
    hf_cancel *cancel = cf_cancel();
    hf_client *closing = cf_open(f);
    hf_hold *hold = become_leader(f->a, f->name, "first", NULL);
    campaign *one =
        begin_campaign(f, f->b, "one", &(hf_options){.wait_ms = HF_FOREVER, .cancel = cancel});
    campaign *two = begin_campaign(f, closing, "two", &FOREVER);
    hf_cancel_fire(cancel);
    cf_join(one->thread);
    CF_IS(HF_CANCELLED, one->result);
    cf_close(f, closing);
    cf_join(two->thread);
    CF_IS(HF_CLOSED, two->result);
    check_leads(f->b, f->name, hold, "first");
    CF_FREE(hold);
    check_nobody(f->b, f->name);
    hf_cancel_free(cancel);
}

/* A hold without a value is not a leader; its holder may become one at any time. */
static void B32_a_holder_without_a_value_is_no_leader(cf *f) {
    hf_hold *hold = CF_TAKE(f->a, f->name, NULL);
    check_nobody(f->b, f->name);
    CF_IS(HF_OK, hf_proclaim(hold, "now", 3));
    check_leads(f->b, f->name, hold, "now");
    CF_FREE(hold);
    hold = CF_TAKE(f->b, f->name, NULL); /* the old value does not belong to this hold */
    check_nobody(f->a, f->name);
    CF_FREE(hold);
}

static void B32_a_leader_may_change_its_value(cf *f) {
    hf_hold *hold = become_leader(f->a, f->name, "one", NULL);
    for (int i = 0; i < 20; i++) {
        char value[16];
        int length = snprintf(value, sizeof value, "value %d", i);
        CF_IS(HF_OK, hf_proclaim(hold, value, (size_t)length));
        check_leads(f->b, f->name, hold, value);
    }
    hf_hold *again = become_leader(f->a, f->name, "entered again", NULL);
    assert_true(hf_fence(again) == hf_fence(hold));
    check_leads(f->b, f->name, hold, "entered again");
    CF_FREE(again);
    check_leads(f->b, f->name, hold, "entered again");
    CF_IS(HF_OK, hf_extend(hold, 60000));
    check_leads(f->b, f->name, hold, "entered again");
    CF_FREE(hold);
    check_nobody(f->b, f->name);
}

static void B32_a_value_may_have_any_bytes(cf *f) {
    char *value = cf_new(f, HF_VALUE_MAX + 1);
    hf_hold *hold = NULL;
    hf_leader_info *info = NULL;
    for (int i = 0; i <= HF_VALUE_MAX; i++) value[i] = (char)(i * 7);
    size_t const lengths[] = {0, 1, 255, HF_VALUE_MAX};
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        CF_IS(HF_OK,
              hf_campaign(f->a, f->name, lengths[i] ? value : NULL, lengths[i], NULL, &hold));
        CF_IS(HF_OK, hf_leader(f->b, f->name, &info));
        assert_int_equal(info->value_length, lengths[i]);
        assert_memory_equal(info->value, value, lengths[i]);
        assert_int_equal(info->value[lengths[i]], 0);
        hf_leader_free(info);
        CF_FREE(hold);
    }
    CF_IS(HF_INVALID, hf_campaign(f->a, f->name, value, HF_VALUE_MAX + 1, NULL, &hold));
    assert_null(hold);
    check_nobody(f->b, f->name);
}

static void B32_arguments_are_checked(cf *f) {
    hf_hold *hold = (hf_hold *)f;
    hf_observer *observer = NULL;
    CF_IS(HF_INVALID, hf_campaign(f->a, f->name, NULL, 1, NULL, &hold));
    CF_IS(HF_INVALID, hf_campaign(f->a, f->name, "x", 1, &(hf_options){.kind = HF_READ}, &hold));
    CF_IS(HF_INVALID, hf_campaign(f->a, "", "x", 1, NULL, &hold));
    CF_IS(HF_INVALID, hf_campaign(f->a, f->name, "x", 1, NULL, NULL));
    CF_IS(HF_INVALID, hf_proclaim(NULL, "x", 1));
    CF_IS(HF_INVALID, hf_leader(f->a, f->name, NULL));
    CF_IS(HF_INVALID, hf_observe(f->a, f->name, NULL, NULL, &observer));
    assert_null(hold);
    hf_unobserve(NULL);
    hf_leader_free(NULL);
    hold = become_leader(f->a, f->name, "x", NULL);
    hf_ref(hold);
    CF_FREE(hold);
    CF_IS(HF_NOT_HELD, hf_proclaim(hold, "y", 1));
    hf_unref(hold);
}

static void B32_a_broken_leader_no_longer_leads(cf *f) {
    cf_lost *lost = cf_new(f, sizeof *lost);
    hf_hold *hold =
        become_leader(f->a, f->name, "mine", &(hf_options){.on_lost = cf_on_lost, .arg = lost});
    CF_IS(HF_OK, hf_break(f->b, f->name, hf_fence(hold)));
    check_nobody(f->b, f->name);
    hf_hold *next = become_leader(f->b, f->name, "theirs", NULL);
    CF_IS(HF_LOST, hf_proclaim(hold, "still mine", 10));
    check_leads(f->a, f->name, next, "theirs");
    CF_UNTIL(atomic_load(&lost->calls) == 1);
    CF_IS(HF_LOST, hf_release(hold));
    check_leads(f->a, f->name, next, "theirs");
    CF_FREE(next);
}

static void B32_a_leader_lasts_as_long_as_its_lease_is_renewed(cf *f) {
    hf_hold *hold =
        become_leader(f->a, f->name, "kept", &(hf_options){.lease_ms = CF_KEPT_LEASE_MS});
    uint64_t renewed = cf_stats(f->a).renewed;
    CF_UNTIL(cf_stats(f->a).renewed >= renewed + 4);
    check_leads(f->b, f->name, hold, "kept");
    CF_FREE(hold);
    hold = become_leader(f->a, f->name, "ends",
                         &(hf_options){.lease_ms = CF_SHORT_LEASE_MS, .flags = HF_NO_RENEW});
    CF_UNTIL(!hf_held(hold));
    CF_IS(HF_LOST, hf_release(hold));
    check_nobody(f->b, f->name);
}

/* ---- Tokens and values ----------------------------------------------------------------------- */

enum { CANDIDATES = 3, TERMS = 12 };

typedef struct leader_race {
    hf_client *client;
    const char *name;
    atomic_int *stop;
    atomic_int failures, seen;
} leader_race;

/* The value contains the token under which it was proclaimed. */
static void lead_in_turn(void *arg) {
    leader_race *r = arg;
    for (int i = 0; i < TERMS; i++) {
        hf_hold *hold = NULL;
        char value[32];
        if (hf_acquire(r->client, r->name, &FOREVER, &hold) != HF_OK) {
            atomic_fetch_add(&r->failures, 1);
            return;
        }
        int length = snprintf(value, sizeof value, "%llu", (unsigned long long)hf_fence(hold));
        if (hf_proclaim(hold, value, (size_t)length) != HF_OK) atomic_fetch_add(&r->failures, 1);
        if (hf_release(hold) != HF_OK) atomic_fetch_add(&r->failures, 1);
    }
}

static void compare_token(leader_race *r, const hf_leader_info *info) {
    if (strtoull(info->value, NULL, 10) != info->token) atomic_fetch_add(&r->failures, 1);
    atomic_fetch_add(&r->seen, 1);
}

static void read_leader_meanwhile(void *arg) {
    leader_race *r = arg;
    while (!atomic_load(r->stop) && !cf_over()) {
        hf_leader_info *info = NULL;
        hf_result result = hf_leader(r->client, r->name, &info);
        if (result == HF_OK) compare_token(r, info);
        if (result != HF_OK && result != HF_NOT_HELD) atomic_fetch_add(&r->failures, 1);
        hf_leader_free(info);
    }
}

static void B32_a_value_is_never_seen_with_another_token(cf *f) {
    atomic_int *stop = cf_new(f, sizeof *stop);
    leader_race *races[CANDIDATES + 1];
    cf_thread *threads[CANDIDATES + 1];
    for (int i = 0; i <= CANDIDATES; i++) {
        races[i] = cf_new(f, sizeof **races);
        *races[i] =
            (leader_race){.client = i % 2 ? f->a : cf_open(f), .name = f->name, .stop = stop};
        threads[i] = cf_spawn(f, i < CANDIDATES ? lead_in_turn : read_leader_meanwhile, races[i]);
    }
    for (int i = 0; i < CANDIDATES; i++) cf_join(threads[i]);
    atomic_store(stop, 1);
    cf_join(threads[CANDIDATES]);
    for (int i = 0; i <= CANDIDATES; i++) assert_int_equal(atomic_load(&races[i]->failures), 0);
}

/* ---- Observing ------------------------------------------------------------------------------- */

enum { CHANGES_MAX = 256 };

/* What an observer was notified of, in order. */
typedef struct changes {
    atomic_int count;
    uint64_t tokens[CHANGES_MAX]; /* 0: no leader */
    char values[CHANGES_MAX][32];
    hf_client *client; /* if set, call back into it */
    const char *name;
    hf_observer **observer; /* if set, ended by its own callback */
    hf_result called;
    atomic_int gate; /* 1: wait in the callback until it is 2 */
    atomic_int inside;
} changes;

static void note_change(const hf_leader_info *leader, void *arg) {
    changes *c = arg;
    int i = atomic_load(&c->count);
    if (i == CHANGES_MAX) return;
    c->tokens[i] = leader ? leader->token : 0;
    snprintf(c->values[i], sizeof c->values[i], "%s", leader ? leader->value : "-");
    hf_leader_info *info = NULL;
    if (c->client) c->called = hf_leader(c->client, c->name, &info);
    hf_leader_free(info);
    atomic_store(&c->inside, 1);
    while (atomic_load(&c->gate) == 1 && !cf_over()) t_sleep_ms(1);
    if (c->observer) hf_unobserve(*c->observer);
    atomic_store(&c->count, i + 1);
}

static changes *begin_observing(cf *f, hf_client *client, hf_observer **observer) {
    changes *c = cf_new(f, sizeof *c);
    c->name = f->name;
    CF_IS(HF_OK, hf_observe(client, f->name, note_change, c, observer));
    return c;
}

static void check_change(changes *c, int nth, const char *value, const hf_hold *hold) {
    CF_UNTIL(atomic_load(&c->count) >= nth);
    assert_string_equal(c->values[nth - 1], value);
    assert_true(c->tokens[nth - 1] == (hold ? hf_fence(hold) : 0));
}

static void B32_an_observer_is_notified_of_every_change_in_order(cf *f) {
    hf_observer *observers[2];
    changes *c[2] = {begin_observing(f, f->b, &observers[0]),
                     begin_observing(f, f->a, &observers[1])};
    for (int i = 0; i < 2; i++) check_change(c[i], 1, "-", NULL);
    hf_hold *hold = become_leader(f->a, f->name, "one", NULL);
    for (int i = 0; i < 2; i++) check_change(c[i], 2, "one", hold);
    CF_IS(HF_OK, hf_proclaim(hold, "uno", 3));
    for (int i = 0; i < 2; i++) check_change(c[i], 3, "uno", hold);
    CF_FREE(hold);
    for (int i = 0; i < 2; i++) check_change(c[i], 4, "-", NULL);
    hold = become_leader(f->b, f->name, "two", NULL);
    for (int i = 0; i < 2; i++) check_change(c[i], 5, "two", hold);
    CF_IS(HF_OK, hf_break(f->a, f->name, 0));
    for (int i = 0; i < 2; i++) check_change(c[i], 6, "-", NULL);
    CF_IS(HF_LOST, hf_release(hold));
    for (int i = 0; i < 2; i++) hf_unobserve(observers[i]);
    for (int i = 0; i < 2; i++) assert_int_equal(atomic_load(&c[i]->count), 6);
}

static void B32_a_later_observer_is_notified_of_the_present_leader(cf *f) {
    hf_observer *observer;
    hf_hold *hold = become_leader(f->a, f->name, "before", NULL);
    changes *c = begin_observing(f, f->b, &observer);
    check_change(c, 1, "before", hold);
    hf_unobserve(observer);
    CF_FREE(hold);
}

/* Nobody announces the end: the store expires the lease, and the observer checks at that time. */
static void B32_a_leader_whose_lease_ends_is_noticed(cf *f) {
    hf_observer *observer;
    changes *c = begin_observing(f, f->b, &observer);
    check_change(c, 1, "-", NULL);
    hf_hold *hold = become_leader(
        f->a, f->name, "short", &(hf_options){.lease_ms = CF_SHORT_LEASE_MS, .flags = HF_NO_RENEW});
    CF_UNTIL(atomic_load(&c->count) >= 2);
    /* on a slow machine the lease ended before the observer saw it */
    if (c->tokens[1]) check_change(c, 3, "-", NULL);
    hf_unobserve(observer);
    (void)hf_release(hold);
}

/* Many terms in a row, faster than the observer looks: notifications come in order, and the last
   term is always among them. */
static void B32_notifications_are_in_order(cf *f) {
    hf_observer *observer;
    changes *c = begin_observing(f, f->b, &observer);
    hf_hold *hold = NULL;
    for (int i = 0; i < 30; i++) {
        if (hold) CF_FREE(hold);
        hold = become_leader(i % 2 ? f->a : f->b, f->name, i == 29 ? "last" : "term", NULL);
    }
    CF_UNTIL(atomic_load(&c->count) && !strcmp(c->values[atomic_load(&c->count) - 1], "last"));
    hf_unobserve(observer);
    uint64_t before = 0;
    for (int i = 0; i < atomic_load(&c->count); i++) {
        if (c->tokens[i]) assert_true(c->tokens[i] > before);
        if (c->tokens[i]) before = c->tokens[i];
    }
    assert_true(before == hf_fence(hold));
    CF_FREE(hold);
}

static void B32_a_callback_may_call_back_in(cf *f) {
    hf_observer *observer;
    changes *c = cf_new(f, sizeof *c);
    *c = (changes){.client = f->b, .name = f->name};
    CF_IS(HF_OK, hf_observe(f->b, f->name, note_change, c, &observer));
    check_change(c, 1, "-", NULL);
    assert_int_equal(c->called, HF_NOT_HELD);
    hf_hold *hold = become_leader(f->b, f->name, "x", NULL);
    check_change(c, 2, "x", hold);
    assert_int_equal(c->called, HF_OK);
    hf_unobserve(observer);
    CF_FREE(hold);
}

static void B32_an_observer_may_end_itself(cf *f) {
    changes *c = cf_new(f, sizeof *c);
    hf_observer **observer = cf_new(f, sizeof *observer);
    *c = (changes){.observer = observer};
    CF_IS(HF_OK, hf_observe(f->b, f->name, note_change, c, observer));
    check_change(c, 1, "-", NULL);
    hf_hold *hold = become_leader(f->a, f->name, "x", NULL);
    t_sleep_ms(100); /* long enough for a wrong notification */
    assert_int_equal(atomic_load(&c->count), 1);
    CF_FREE(hold);
}

static void end_observer(void *arg) {
    hf_unobserve(arg);
}

/* hf_unobserve waits for the running callback, and no callback comes after it. */
static void B32_an_ended_observer_is_not_called(cf *f) {
    hf_observer *observer;
    changes *c = cf_new(f, sizeof *c);
    *c = (changes){.gate = 1};
    CF_IS(HF_OK, hf_observe(f->b, f->name, note_change, c, &observer));
    CF_UNTIL(atomic_load(&c->inside));
    cf_thread *ending = cf_spawn(f, end_observer, observer);
    t_sleep_ms(30);
    atomic_store(&c->gate, 2);
    cf_join(ending);
    int count = atomic_load(&c->count);
    assert_int_equal(count, 1);
    hf_hold *hold = become_leader(f->a, f->name, "x", NULL);
    t_sleep_ms(100); /* long enough for a wrong notification */
    assert_int_equal(atomic_load(&c->count), count);
    CF_FREE(hold);
}

static void B32_a_close_ends_observers(cf *f) {
    hf_observer *observer, *other;
    hf_client *client = cf_open(f);
    changes *c = begin_observing(f, client, &observer);
    begin_observing(f, client, &other);
    check_change(c, 1, "-", NULL);
    cf_close(f, client);
    int count = atomic_load(&c->count);
    hf_hold *hold = become_leader(f->a, f->name, "x", NULL);
    t_sleep_ms(50); /* long enough for a wrong notification */
    assert_int_equal(atomic_load(&c->count), count);
    hf_unobserve(observer);
    hf_unobserve(other);
    CF_FREE(hold);
}

static void churn_observers(void *arg) {
    leader_race *r = arg;
    changes *own = calloc(1, sizeof *own);
    for (int i = 0; own && i < 40; i++) {
        hf_observer *observer;
        atomic_store(&own->count, 0);
        if (hf_observe(r->client, r->name, note_change, own, &observer) != HF_OK)
            atomic_fetch_add(&r->failures, 1);
        else
            hf_unobserve(observer);
    }
    free(own);
}

static void B32_observers_and_leaders_come_and_go(cf *f) {
    leader_race *races[4];
    cf_thread *threads[4];
    for (int i = 0; i < 4; i++) {
        races[i] = cf_new(f, sizeof **races);
        *races[i] = (leader_race){.client = i % 2 ? f->a : f->b, .name = f->name};
        threads[i] = cf_spawn(f, i < 2 ? lead_in_turn : churn_observers, races[i]);
    }
    for (int i = 0; i < 4; i++) cf_join(threads[i]);
    for (int i = 0; i < 4; i++) assert_int_equal(atomic_load(&races[i]->failures), 0);
}

/* A client without threads: its loop checks and notifies. */
static void dispatch_until(hf_client *client, changes *c, int count) {
    int64_t until = t_now_ms() + t_patience(CF_WATCHDOG_MS);
    while (atomic_load(&c->count) < count) {
        struct pollfd fd = {.fd = hf_fd(client), .events = POLLIN};
        assert_true(t_now_ms() < until);
        (void)poll(&fd, 1, 100);
        CF_IS(HF_OK, hf_dispatch(client));
    }
}

static void B32_a_loop_observes_and_leads(cf *f) {
    hf_client *client = cf_open_url(f, cf_url(), &(hf_client_options){.flags = HF_NO_THREAD});
    hf_observer *observer;
    changes *c = begin_observing(f, client, &observer);
    assert_int_equal(atomic_load(&c->count), 0);
    dispatch_until(client, c, 1);
    check_change(c, 1, "-", NULL);
    hf_hold *hold = become_leader(f->a, f->name, "one", NULL);
    dispatch_until(client, c, 2);
    check_change(c, 2, "one", hold);
    CF_FREE(hold);
    dispatch_until(client, c, 3);
    hold = become_leader(client, f->name, "mine", NULL);
    dispatch_until(client, c, 4);
    check_change(c, 4, "mine", hold);
    hf_unobserve(observer);
    CF_FREE(hold);
}

/* Async: a callback receives the hold and proclaims. */
typedef struct begun {
    hf_hold *hold;
    hf_result result;
    atomic_int over;
} begun;

static void proclaim_at_once(hf_result result, hf_hold *hold, void *arg) {
    begun *b = arg;
    b->hold = hold;
    b->result = result == HF_OK ? hf_proclaim(hold, "async", 5) : result;
    atomic_store(&b->over, 1);
}

static void check_async(cf *f, hf_client *client, bool loop) {
    begun *b = cf_new(f, sizeof *b);
    CF_IS(HF_OK, hf_acquire_async(client, f->name, &FOREVER, proclaim_at_once, b));
    for (int64_t until = t_now_ms() + t_patience(CF_WATCHDOG_MS); !atomic_load(&b->over);) {
        assert_true(t_now_ms() < until);
        if (loop) CF_IS(HF_OK, hf_dispatch(client));
        t_sleep_ms(1);
    }
    CF_IS(HF_OK, b->result);
    check_leads(f->b, f->name, b->hold, "async");
    CF_FREE(b->hold);
    check_nobody(f->b, f->name);
}

static void B32_a_callback_may_proclaim(cf *f) {
    check_async(f, f->a, false);
    check_async(f, cf_open_url(f, cf_url(), &(hf_client_options){.flags = HF_NO_THREAD}), true);
}

/* ---- Processes ------------------------------------------------------------------------------- */

typedef struct leader_stage {
    cf *f;
    hf_observer *observer;
    _Atomic uint64_t token;
    atomic_int go;
} leader_stage;

static int lead_until_killed(void *arg) {
    leader_stage *s = arg;
    hf_client *client = NULL;
    CF_IS(HF_OK, hf_open(cf_url(), NULL, &client));
    hf_hold *hold = become_leader(client, s->f->name, "child", &(hf_options){.lease_ms = 1000});
    atomic_store(&s->token, hf_fence(hold));
    while (!atomic_load(&s->go)) t_sleep_ms(1000); /* never set: the test kills this process */
    return 1;
}

static void B32_the_death_of_a_leader_is_noticed_and_the_next_leads(cf *f) {
    leader_stage *s = t_shared_new(sizeof *s);
    s->f = f;
    t_proc *child = t_proc_start(lead_until_killed, s);
    CF_UNTIL(atomic_load(&s->token));
    hf_observer *observer;
    changes *c = begin_observing(f, f->b, &observer);
    CF_UNTIL(atomic_load(&c->count) >= 1);
    assert_string_equal(c->values[0], "child");
    assert_true(c->tokens[0] == atomic_load(&s->token));
    hf_leader_info *info = NULL;
    CF_IS(HF_OK, hf_leader(f->a, f->name, &info));
    assert_int_equal(info->pid, t_proc_pid(child));
    hf_leader_free(info);
    t_proc_kill(child, SIGKILL);
    assert_int_equal(t_proc_wait(child, CF_WATCHDOG_MS), 128 + SIGKILL);
    check_change(c, 2, "-", NULL);
    hf_hold *hold = become_leader(f->a, f->name, "parent", &FOREVER);
    assert_true(hf_fence(hold) > atomic_load(&s->token));
    check_change(c, 3, "parent", hold);
    hf_unobserve(observer);
    CF_FREE(hold);
    t_shared_free(s, sizeof *s);
}

static int child_leads_nothing(void *arg) {
    leader_stage *s = arg;
    hf_hold *hold = NULL;
    hf_leader_info *info = NULL;
    hf_observer *observer = NULL;
    CF_IS(HF_FORKED, hf_campaign(s->f->a, s->f->name, "x", 1, NULL, &hold));
    CF_IS(HF_FORKED, hf_leader(s->f->a, s->f->name, &info));
    CF_IS(HF_FORKED, hf_observe(s->f->a, s->f->name, note_change, NULL, &observer));
    hf_unobserve(s->observer);
    return 0;
}

static void F42_a_forked_child_leads_and_observes_nothing(cf *f) {
    leader_stage *s = t_shared_new(sizeof *s);
    s->f = f;
    changes *c = begin_observing(f, f->a, &s->observer);
    check_change(c, 1, "-", NULL);
    assert_int_equal(t_proc_wait(t_proc_start(child_leads_nothing, s), CF_WATCHDOG_MS), 0);
    hf_hold *hold = become_leader(f->a, f->name, "x", NULL);
    check_change(c, 2, "x", hold);
    hf_unobserve(s->observer);
    CF_FREE(hold);
    t_shared_free(s, sizeof *s);
}

/* ---- Stores without leaders ------------------------------------------------------------------ */

static void nobody_leads(const hf_leader_info *info, void *arg) {
    (void)info, (void)arg;
}

static void latches_and_leaders_that_a_store_lacks_are_unsupported(cf *f) {
    if (cf_has(CF_LATCH_LEADER)) return;
    uint32_t left;
    hf_leader_info *info;
    hf_observer *observer;
    hf_hold *led, *hold = CF_TAKE(f->a, f->name, NULL);
    CF_IS(HF_UNSUPPORTED, hf_latch_set(f->a, f->name, 1));
    CF_IS(HF_UNSUPPORTED, hf_latch_count_down(f->a, f->name, 1, &left));
    CF_IS(HF_UNSUPPORTED, hf_latch_left(f->a, f->name, &left));
    CF_IS(HF_UNSUPPORTED, hf_latch_wait(f->a, f->name, &FOREVER));
    CF_IS(HF_UNSUPPORTED, hf_campaign(f->b, f->name, "x", 1, &FOREVER, &led));
    CF_IS(HF_UNSUPPORTED, hf_proclaim(hold, "x", 1));
    CF_IS(HF_UNSUPPORTED, hf_leader(f->a, f->name, &info));
    CF_IS(HF_UNSUPPORTED, hf_observe(f->a, f->name, nobody_leads, NULL, &observer));
    assert_int_equal(hf_held(hold), 1);
    CF_FREE(hold);
}

const cf_case cf_leader[] = {
    CF_CASE(latches_and_leaders_that_a_store_lacks_are_unsupported),
    CF_CASE_NEEDS(B32_a_campaigner_leads_until_it_resigns, CF_LATCH_LEADER),
    CF_CASE_NEEDS(B32_the_next_campaigner_leads_after_a_resignation, CF_LATCH_LEADER),
    CF_CASE_NEEDS(B32_a_campaign_is_cancelled_or_closed_like_a_wait, CF_LATCH_LEADER),
    CF_CASE_NEEDS(B32_a_holder_without_a_value_is_no_leader, CF_LATCH_LEADER),
    CF_CASE_NEEDS(B32_a_leader_may_change_its_value, CF_LATCH_LEADER),
    CF_CASE_NEEDS(B32_a_value_may_have_any_bytes, CF_LATCH_LEADER),
    CF_CASE_NEEDS(B32_arguments_are_checked, CF_LATCH_LEADER),
    CF_CASE_NEEDS(B32_a_broken_leader_no_longer_leads, CF_LATCH_LEADER),
    CF_CASE_NEEDS(B32_a_leader_lasts_as_long_as_its_lease_is_renewed, CF_LATCH_LEADER),
    CF_CASE_NEEDS(B32_a_value_is_never_seen_with_another_token, CF_LATCH_LEADER),
    CF_CASE_NEEDS(B32_an_observer_is_notified_of_every_change_in_order, CF_LATCH_LEADER),
    CF_CASE_NEEDS(B32_a_later_observer_is_notified_of_the_present_leader, CF_LATCH_LEADER),
    CF_CASE_NEEDS(B32_a_leader_whose_lease_ends_is_noticed, CF_LATCH_LEADER),
    CF_CASE_NEEDS(B32_notifications_are_in_order, CF_LATCH_LEADER),
    CF_CASE_NEEDS(B32_a_callback_may_call_back_in, CF_LATCH_LEADER),
    CF_CASE_NEEDS(B32_an_observer_may_end_itself, CF_LATCH_LEADER),
    CF_CASE_NEEDS(B32_an_ended_observer_is_not_called, CF_LATCH_LEADER),
    CF_CASE_NEEDS(B32_a_close_ends_observers, CF_LATCH_LEADER),
    CF_CASE_NEEDS(B32_observers_and_leaders_come_and_go, CF_LATCH_LEADER),
    CF_CASE_NEEDS(B32_a_loop_observes_and_leads, CF_LATCH_LEADER),
    CF_CASE_NEEDS(B32_a_callback_may_proclaim, CF_LATCH_LEADER),
    CF_CASE_NEEDS(B32_the_death_of_a_leader_is_noticed_and_the_next_leads,
                  CF_PROCESSES | CF_LATCH_LEADER),
    CF_CASE_NEEDS(F42_a_forked_child_leads_and_observes_nothing, CF_LATCH_LEADER),
    CF_CASES_END,
};
