/* SPDX-License-Identifier: Apache-2.0 */
/* hf_close: waits end, holds are released, and handles stay valid. */
#include "conformance.h"

#include <sched.h>

static const hf_options FOREVER = {.wait_ms = HF_FOREVER};

static void F47_close_ends_every_wait(cf *f) {
    enum { WAITERS = 4 };
    hf_client *client = cf_open(f);
    hf_hold *hold = CF_TAKE(f->a, f->name, NULL);
    hf_hold *own = CF_TAKE(client, cf_name(f, "-own"), NULL);
    cf_attempt *waiters[WAITERS];
    for (int i = 0; i < WAITERS; i++) {
        waiters[i] = cf_queue(f, client, i % 2 ? f->name : cf_name(f, "-own"),
                              i < 2 ? &FOREVER : &(hf_options){.wait_ms = 60000});
    }
    cf_close(f, client);
    for (int i = 0; i < WAITERS; i++) {
        CF_ENDED(HF_CLOSED, waiters[i]);
        assert_null(waiters[i]->hold);
    }
    assert_int_equal(hf_held(hold), 1);
    CF_FREE(hold);
    CF_FREE(CF_TAKE(f->b, f->name, NULL));
    hf_unref(own);
}

/* Everything that a hold reports once its client is closed. */
static void check_closed(hf_hold *hold, uint64_t token, int fd) {
    assert_int_equal(hf_held(hold), 0);
    assert_int_equal(hf_remaining_ms(hold), 0);
    assert_true(hf_fence(hold) == token);
    assert_null(hf_why_lost(hold));
    assert_int_equal(cf_readable(fd), 0);
    CF_IS(HF_CLOSED, hf_extend(hold, 30000));
    CF_IS(HF_CLOSED, hf_release(hold));
}

static void F47_close_releases_all_holds(cf *f) {
    enum { HOLDS = 3 };
    cf_lost *lost = cf_new(f, sizeof *lost);
    const hf_options with_on_lost = {.on_lost = cf_on_lost, .arg = lost};
    hf_client *client = cf_open(f);
    const char *const names[HOLDS] = {f->name, f->name, cf_name(f, "-2")};
    hf_hold *holds[HOLDS];
    int fds[HOLDS];
    uint64_t tokens[HOLDS];
    for (int i = 0; i < HOLDS; i++) {
        holds[i] = CF_TAKE(client, names[i], &with_on_lost);
        fds[i] = hf_lost_fd(holds[i]);
        tokens[i] = hf_fence(holds[i]);
    }
    cf_close(f, client);
    CF_FREE(CF_TAKE(f->b, names[0], NULL));
    CF_FREE(CF_TAKE(f->b, names[2], NULL));
    for (int i = 0; i < HOLDS; i++) check_closed(holds[i], tokens[i], fds[i]);
    assert_int_equal(atomic_load(&lost->calls), 0);
}

static void F47_close_serves_waiters_of_other_clients(cf *f) {
    hf_client *client = cf_open(f);
    hf_hold *hold = CF_TAKE(client, f->name, NULL);
    cf_attempt *waiter = cf_queue(f, f->b, f->name, &(hf_options){.wait_ms = CF_WATCHDOG_MS});
    cf_close(f, client);
    CF_FREE(cf_granted(waiter));
    hf_unref(hold);
}

static void F47_a_handle_dropped_after_close_is_only_freed(cf *f) {
    hf_client *client = cf_open(f);
    hf_hold *hold = CF_TAKE(client, f->name, NULL);
    hf_hold *ref = hf_ref(hold);
    cf_close(f, client);
    hf_hold *next = CF_TAKE(f->b, f->name, NULL);
    hf_unref(hold);
    hf_unref(ref);
    assert_int_equal(hf_held(next), 1);
    assert_true(cf_token(f->a, f->name) == hf_fence(next));
    CF_FREE(next);
}

static void F47_close_of_nothing(cf *f) {
    hf_close(NULL);
    cf_close(f, cf_open(f));
}

/* ---- Close against a grant ------------------------------------------------------------------- */

typedef struct close_race {
    hf_hold *hold;
    atomic_int go;
    hf_result result;
} close_race;

static void release_on_go(void *arg) {
    close_race *r = arg;
    while (!atomic_load(&r->go) && !cf_over()) sched_yield();
    r->result = hf_release(r->hold);
}

/* A waiter is granted the lock while its client closes: the grant must not outlive the client. */
static void race_close_with_grant(cf *f) {
    hf_client *client = cf_open(f);
    close_race *r = cf_new(f, sizeof *r);
    r->hold = CF_TAKE(f->a, f->name, NULL);
    cf_attempt *waiters[2];
    for (int i = 0; i < 2; i++) waiters[i] = cf_queue(f, client, f->name, &FOREVER);
    cf_thread *releasing = cf_spawn(f, release_on_go, r);
    atomic_store(&r->go, 1);
    cf_close(f, client);
    cf_join(releasing);
    CF_IS(HF_OK, r->result);
    for (int i = 0; i < 2; i++) {
        cf_join(waiters[i]->thread);
        if (waiters[i]->result == HF_OK) {
            CF_IS(HF_CLOSED, hf_release(waiters[i]->hold));
        } else {
            CF_ENDED(HF_CLOSED, waiters[i]);
        }
    }
    CF_FREE(CF_TAKE(f->b, f->name, &(hf_options){.wait_ms = CF_WATCHDOG_MS}));
}

static void F47_close_racing_a_grant_leaves_nothing_held(cf *f) {
    for (int i = 0; i < 60; i++) race_close_with_grant(f);
}

const cf_case cf_closing[] = {
    CF_CASE(F47_close_ends_every_wait),
    CF_CASE(F47_close_releases_all_holds),
    CF_CASE(F47_close_serves_waiters_of_other_clients),
    CF_CASE(F47_a_handle_dropped_after_close_is_only_freed),
    CF_CASE(F47_close_of_nothing),
    CF_CASE(F47_close_racing_a_grant_leaves_nothing_held),
    CF_CASES_END,
};
