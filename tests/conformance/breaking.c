/* SPDX-License-Identifier: Apache-2.0 */
/* hf_break, which takes a lock from its holder. loss.c tests that the holder is notified. */
#include "conformance.h"

static void B26_break_ends_the_ownership_of_any_client(cf *f) {
    hf_hold *hold = CF_TAKE(f->a, f->name, NULL);
    CF_IS(HF_OK, hf_break(f->b, f->name, 0));
    hf_hold *next = CF_TAKE(f->b, f->name, NULL);
    assert_true(hf_fence(next) > hf_fence(hold));

    /* The old holder's release reports the loss, and leaves the new holder alone. */
    CF_IS(HF_LOST, hf_release(hold));
    assert_true(cf_token(f->a, f->name) == hf_fence(next));
    CF_FREE(next);
}

static void B26_break_with_a_token_ends_only_that_ownership(cf *f) {
    hf_hold *hold = CF_TAKE(f->a, f->name, &(hf_options){.lease_ms = CF_KEPT_LEASE_MS});
    uint64_t token = hf_fence(hold);
    uint64_t const wrong[] = {token - 1, token + 1, 1, UINT64_MAX};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        CF_IS(HF_NOT_HELD, hf_break(f->b, f->name, wrong[i]));
    }
    uint64_t renewed = cf_stats(f->a).renewed;
    CF_UNTIL(cf_stats(f->a).renewed >= renewed + 2);
    assert_int_equal(hf_held(hold), 1);
    assert_true(cf_token(f->b, f->name) == token);

    CF_IS(HF_OK, hf_break(f->b, f->name, token));
    CF_IS(HF_NOT_HELD, hf_break(f->b, f->name, token));
    CF_UNTIL(!hf_held(hold));
    CF_IS(HF_LOST, hf_release(hold));
}

static void B26_break_reports_why_nothing_was_broken(cf *f) {
    char free_lock[256], other_token[256];
    CF_IS(HF_NOT_HELD, hf_break(f->b, f->name, 0));
    snprintf(free_lock, sizeof free_lock, "%s", hf_error_detail());
    assert_string_not_equal(free_lock, "");

    hf_hold *hold = CF_TAKE(f->a, f->name, NULL);
    CF_IS(HF_NOT_HELD, hf_break(f->b, f->name, hf_fence(hold) - 1));
    snprintf(other_token, sizeof other_token, "%s", hf_error_detail());
    assert_string_not_equal(other_token, "");
    assert_string_not_equal(other_token, free_lock);
    CF_FREE(hold);
    CF_IS(HF_NOT_HELD, hf_break(f->b, f->name, 0));
}

/* A break grants the lock to the next waiter as a release does: the lease alone would take 30 s. */
static void check_next_is_served(cf *f, hf_client *waiting, hf_client *breaking) {
    hf_hold *hold = CF_TAKE(f->a, f->name, NULL);
    cf_attempt *waiter = cf_queue(f, waiting, f->name, &(hf_options){.wait_ms = CF_WATCHDOG_MS});
    CF_IS(HF_OK, hf_break(breaking, f->name, hf_fence(hold)));
    hf_hold *next = cf_granted(waiter);
    assert_true(hf_fence(next) > hf_fence(hold));
    CF_IS(HF_LOST, hf_release(hold));
    assert_int_equal(hf_held(next), 1);
    CF_FREE(next);
}

static void B26_after_a_break_the_next_waiter_is_served(cf *f) {
    check_next_is_served(f, f->b, cf_open(f));
    check_next_is_served(f, f->b, f->b);
    check_next_is_served(f, f->b, f->a);
}

/* The log callback sleeps in the client's own thread. Work that was due before the sleep must not
   wait until the sleep is over. */
static void log_slowly(int32_t level, const char *line, void *arg) {
    (void)level;
    (void)line;
    atomic_store((atomic_bool *)arg, true);
    t_sleep_ms(100);
}

static void a_break_ends_while_the_log_is_slow(cf *f) {
    atomic_bool *logged = cf_new(f, sizeof *logged);
    hf_client *client = NULL;
    CF_IS(HF_OK,
          hf_open(cf_url(), &(hf_client_options){.log = log_slowly, .log_arg = logged}, &client));
    hf_hold *hold = CF_TAKE(client, f->name, &(hf_options){.lease_ms = CF_KEPT_LEASE_MS});
    CF_IS(HF_OK, hf_break(client, f->name, 0));
    CF_UNTIL(!hf_held(hold));
    CF_IS(HF_LOST, hf_release(hold));
    hf_close(client);
    assert_true(atomic_load(logged));
}

const cf_case cf_breaking[] = {
    CF_CASE(B26_break_ends_the_ownership_of_any_client),
    CF_CASE(B26_break_with_a_token_ends_only_that_ownership),
    CF_CASE(B26_break_reports_why_nothing_was_broken),
    CF_CASE(B26_after_a_break_the_next_waiter_is_served),
    CF_CASE(a_break_ends_while_the_log_is_slow),
    CF_CASES_END,
};
