/* SPDX-License-Identifier: Apache-2.0 */
/* Waiting: how a wait ends, by timeout, by cancel and by grant. */
#include "conformance.h"

#include <signal.h>

static const hf_options FOREVER = {.wait_ms = HF_FOREVER};

/* ---- The end of a wait ----------------------------------------------------------------------- */

static void B06_a_wait_ends_when_its_time_is_up(cf *f) {
    hf_hold *hold = CF_TAKE(f->a, f->name, NULL);
    cf_attempt *local = cf_start(f, f->a, f->name, &(hf_options){.wait_ms = 200});
    cf_attempt *remote = cf_start(f, f->b, f->name, &(hf_options){.wait_ms = 200});
    CF_ENDED(HF_TIMEOUT, local);
    CF_ENDED(HF_TIMEOUT, remote);
    assert_true(local->took_ms >= 200);
    assert_true(remote->took_ms >= 200);
    assert_null(local->hold);
    assert_true(*local->detail && *remote->detail);
    assert_int_equal(hf_held(hold), 1);
    CF_FREE(hold);
}

static void B06_a_wait_that_is_served_in_time_is_a_hold(cf *f) {
    hf_hold *hold = CF_TAKE(f->a, f->name, NULL);
    cf_attempt *waiter = cf_queue(f, f->b, f->name, &(hf_options){.wait_ms = CF_WATCHDOG_MS});
    CF_FREE(hold);
    hold = cf_granted(waiter);
    assert_int_equal(hf_held(hold), 1);
    CF_FREE(hold);
}

/* One waiter gives up, and another one behind it in the same client does not. Each round has a new
   client, because the reading thread is chosen when the client starts. */
static void B06_a_waiter_that_gives_up_does_not_delay_those_behind(cf *f) {
    enum { ROUNDS = 8 };
    for (int i = 0; i < ROUNDS; i++) {
        hf_client *client = cf_open(f);
        hf_hold *hold = CF_TAKE(f->a, f->name, NULL);
        cf_attempt *impatient = cf_queue(f, client, f->name, &(hf_options){.wait_ms = 300});
        cf_attempt *patient = cf_start(f, client, f->name, &FOREVER);
        CF_ENDED(HF_TIMEOUT, impatient);
        CF_UNTIL(cf_stats(client).waiting == 1);
        CF_FREE(hold);
        CF_FREE(cf_granted(patient));
        cf_close(f, client);
    }
}

/* Each waiter becomes the first of its client's queue when the one before gives up. It then sends
   its acquire at about the time its own wait ends: the result must be a timeout. */
static void B06_a_wait_that_ends_during_its_acquire_is_a_timeout(cf *f) {
    enum { WAITERS = 60 };
    hf_hold *hold = CF_TAKE(f->a, f->name, NULL);
    cf_attempt *waiters[WAITERS];
    for (int i = 0; i < WAITERS; i++) {
        waiters[i] = cf_start(f, f->b, f->name, &(hf_options){.wait_ms = 200 + 5 * i});
    }
    for (int i = 0; i < WAITERS; i++) {
        CF_ENDED(HF_TIMEOUT, waiters[i]);
        assert_true(waiters[i]->took_ms >= waiters[i]->options.wait_ms);
    }
    CF_FREE(hold);
}

static void B06_a_wait_of_any_length_is_understood(cf *f) {
    hf_hold *hold = CF_TAKE(f->a, f->name, &(hf_options){.wait_ms = INT64_MAX});
    cf_attempt *longest = cf_queue(f, f->b, f->name, &(hf_options){.wait_ms = INT64_MAX});
    CF_REFUSED(HF_TIMEOUT, f->b, f->name, &(hf_options){.wait_ms = 1});
    assert_int_equal(cf_stats(f->b).waiting, 1);
    CF_FREE(hold);
    CF_FREE(cf_granted(longest));
}

/* ---- Cancelling ------------------------------------------------------------------------------ */

static void B07_cancel_wakes_a_waiter(cf *f) {
    hf_hold *hold = CF_TAKE(f->a, f->name, NULL);
    hf_client *const waiting[] = {f->a, f->b};
    for (int i = 0; i < 2; i++) {
        hf_cancel *cancel = cf_cancel();
        cf_attempt *waiter = cf_queue(f, waiting[i], f->name,
                                      &(hf_options){.wait_ms = HF_FOREVER, .cancel = cancel});
        hf_cancel_fire(cancel);
        CF_ENDED(HF_CANCELLED, waiter);
        assert_null(waiter->hold);
        hf_cancel_free(cancel);
    }
    assert_int_equal(hf_held(hold), 1);
    CF_FREE(hold);
}

/* hf_cancel_fire is safe in a signal handler; the case below shows it. */
static hf_cancel *volatile cancel_on_signal;

static void fire_on_signal(int number) {
    (void)number;
    hf_cancel_fire(cancel_on_signal);
}

static void do_nothing_on_signal(int number) {
    (void)number;
}

static void handle_signals(void (*handler)(int)) {
    struct sigaction action = {.sa_handler = handler};
    assert_int_equal(sigaction(SIGUSR1, &action, NULL), 0);
}

static void B07_cancel_may_be_fired_in_a_signal_handler(cf *f) {
    hf_hold *hold = CF_TAKE(f->a, f->name, NULL);
    hf_client *const waiting[] = {f->a, f->b};
    handle_signals(fire_on_signal);
    for (int i = 0; i < 2; i++) {
        hf_cancel *cancel = cf_cancel();
        cancel_on_signal = cancel;
        cf_attempt *waiter = cf_queue(f, waiting[i], f->name,
                                      &(hf_options){.wait_ms = HF_FOREVER, .cancel = cancel});
        uint64_t waited = cf_stats(waiting[i]).waiting;
        /* Repeated, because the thread sanitizer delays a signal that comes just before poll. */
        CF_UNTIL((pthread_kill(cf_thread_id(waiter->thread), SIGUSR1),
                  cf_stats(waiting[i]).waiting < waited));
        CF_ENDED(HF_CANCELLED, waiter);
        hf_cancel_free(cancel);
    }
    handle_signals(SIG_DFL);
    CF_FREE(hold);
}

static void F43_other_signals_do_not_shorten_a_wait(cf *f) {
    enum { WAIT_MS = 250 };
    hf_hold *hold = CF_TAKE(f->a, f->name, NULL);
    hf_client *const waiting[] = {f->a, f->b};
    cf_attempt *waiters[2];
    handle_signals(do_nothing_on_signal);
    for (int i = 0; i < 2; i++) {
        waiters[i] = cf_queue(f, waiting[i], f->name, &(hf_options){.wait_ms = WAIT_MS});
    }
    while (cf_stats(f->a).waiting + cf_stats(f->b).waiting > 0) {
        for (int i = 0; i < 2; i++) pthread_kill(cf_thread_id(waiters[i]->thread), SIGUSR1);
        t_sleep_ms(5);
    }
    for (int i = 0; i < 2; i++) {
        CF_ENDED(HF_TIMEOUT, waiters[i]);
        assert_true(waiters[i]->took_ms >= WAIT_MS);
    }
    handle_signals(SIG_DFL);
    CF_FREE(hold);
}

static void B07_one_cancel_ends_many_waits(cf *f) {
    enum { WAITERS = 6 };
    hf_cancel *cancel = cf_cancel();
    const hf_options until_cancelled = {.wait_ms = HF_FOREVER, .cancel = cancel};
    hf_hold *hold = CF_TAKE(f->a, f->name, NULL);
    hf_hold *other = CF_TAKE(f->a, cf_name(f, "-2"), NULL);
    cf_attempt *waiters[WAITERS];
    for (int i = 0; i < WAITERS; i++) {
        waiters[i] =
            cf_queue(f, i % 2 ? f->a : f->b, i % 3 ? f->name : cf_name(f, "-2"), &until_cancelled);
    }
    hf_cancel_fire(cancel);
    for (int i = 0; i < WAITERS; i++) CF_ENDED(HF_CANCELLED, waiters[i]);
    hf_cancel_free(cancel);
    CF_FREE(hold);
    CF_FREE(other);
}

static void B07_a_cancel_ends_only_the_waits_that_carry_it(cf *f) {
    hf_cancel *cancel = cf_cancel();
    const hf_options until_cancelled = {.wait_ms = HF_FOREVER, .cancel = cancel};
    hf_hold *hold = CF_TAKE(f->a, f->name, NULL);
    cf_attempt *cancelled = cf_queue(f, f->b, f->name, &until_cancelled);
    cf_attempt *behind = cf_queue(f, f->b, f->name, &FOREVER);
    hf_cancel_fire(cancel);
    CF_ENDED(HF_CANCELLED, cancelled);
    assert_int_equal(cf_stats(f->b).waiting, 1);
    CF_FREE(hold);
    CF_FREE(cf_granted(behind));
    hf_cancel_free(cancel);
}

static void B07_already_cancelled_fails_at_once(cf *f) {
    hf_cancel *cancel = cf_cancel();
    hf_cancel_fire(cancel);
    hf_cancel_fire(cancel);
    int64_t started = t_now_ms();
    CF_REFUSED(HF_CANCELLED, f->a, f->name, &(hf_options){.cancel = cancel});
    CF_REFUSED(HF_CANCELLED, f->a, f->name, &(hf_options){.wait_ms = HF_FOREVER, .cancel = cancel});

    hf_hold *hold = CF_TAKE(f->a, f->name, NULL);
    CF_REFUSED(HF_CANCELLED, f->b, f->name, &(hf_options){.wait_ms = HF_FOREVER, .cancel = cancel});
    CF_REFUSED(HF_CANCELLED, f->a, f->name, &(hf_options){.cancel = cancel});
    CF_AT_ONCE(started);
    CF_FREE(hold);
    hf_cancel_free(cancel);
}

static void B07_a_cancel_does_not_affect_holds(cf *f) {
    hf_cancel *cancel = cf_cancel();
    hf_hold *hold = CF_TAKE(f->a, f->name, &(hf_options){.cancel = cancel});
    hf_cancel_fire(cancel);
    hf_cancel_free(cancel);
    assert_int_equal(hf_held(hold), 1);
    CF_IS(HF_OK, hf_extend(hold, 40000));
    CF_FREE(hold);
}

const cf_case cf_waiting[] = {
    CF_CASE(B06_a_wait_ends_when_its_time_is_up),
    CF_CASE(B06_a_wait_that_is_served_in_time_is_a_hold),
    CF_CASE(B06_a_waiter_that_gives_up_does_not_delay_those_behind),
    CF_CASE(B06_a_wait_that_ends_during_its_acquire_is_a_timeout),
    CF_CASE(B06_a_wait_of_any_length_is_understood),
    CF_CASE(B07_cancel_wakes_a_waiter),
    CF_CASE(B07_cancel_may_be_fired_in_a_signal_handler),
    CF_CASE(F43_other_signals_do_not_shorten_a_wait),
    CF_CASE(B07_one_cancel_ends_many_waits),
    CF_CASE(B07_a_cancel_ends_only_the_waits_that_carry_it),
    CF_CASE(B07_already_cancelled_fails_at_once),
    CF_CASE(B07_a_cancel_does_not_affect_holds),
    CF_CASES_END,
};
