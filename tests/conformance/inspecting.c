/* SPDX-License-Identifier: Apache-2.0 */
/* hf_inspect and hf_stats: what a client can see from outside. */
#include "conformance.h"

#include <errno.h>
#include <time.h>
#include <unistd.h>

static int64_t wall_clock_ms(void) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static void check_free(hf_client *client, const char *name) {
    hf_info *info = cf_inspect(client, name);
    assert_int_equal(info->held, 0);
    assert_int_equal(info->count, 0);
    assert_int_equal(info->remaining_ms, 0);
    assert_int_equal(info->token, 0);
    assert_int_equal(info->since_unix_ms, 0);
    assert_int_equal(info->pid, 0);
    assert_string_equal(info->client, "");
    assert_string_equal(info->owner, "");
    assert_string_equal(info->host, "");
    assert_string_equal(info->program, "");
    assert_string_equal(info->label, "");
    hf_info_free(info);
}

static void B27_a_free_lock_is_reported_as_free(cf *f) {
    check_free(f->a, f->name);
    CF_FREE(CF_TAKE(f->a, f->name, NULL));
    check_free(f->a, f->name);
    check_free(f->b, f->name);
}

static void check_holder(const hf_info *info, const hf_hold *hold) {
    char host[256] = "";
    gethostname(host, sizeof host - 1);
    assert_int_equal(info->held, 1);
    assert_int_equal(info->kind, HF_MUTEX);
    assert_true(info->token == hf_fence(hold));
    assert_in_range(info->remaining_ms, 1, 30000);
    assert_int_equal(info->pid, getpid());
    assert_string_equal(info->host, host);
    assert_string_equal(info->program, program_invocation_short_name);
    assert_int_equal(strlen(info->client), 36);
}

static void B27_inspect_names_the_holder(cf *f) {
    enum { CLOCK_SLACK_MS = 1000 };
    hf_client *labelled = cf_open_url(f, cf_url(), &(hf_client_options){.label = "night shift"});
    int64_t before = wall_clock_ms();
    hf_hold *hold = CF_TAKE(labelled, f->name, NULL);
    int64_t after = wall_clock_ms();
    hf_client *const lookers[] = {labelled, f->b};
    for (int i = 0; i < 2; i++) {
        hf_info *info = cf_inspect(lookers[i], f->name);
        check_holder(info, hold);
        assert_int_equal(info->count, 1);
        assert_string_equal(info->label, "night shift");
        assert_int_equal(info->owner[0], 't');
        assert_in_range(info->since_unix_ms, before - CLOCK_SLACK_MS, after + CLOCK_SLACK_MS);
        hf_info_free(info);
    }
    CF_FREE(hold);
}

static void B27_inspect_names_a_logical_owner(cf *f) {
    hf_hold *hold = CF_TAKE(f->a, f->name, &(hf_options){.owner = 7});
    hf_info *info = cf_inspect(f->b, f->name);
    check_holder(info, hold);
    assert_string_equal(info->owner, "o7");
    assert_string_equal(info->label, "");
    hf_info_free(info);
    CF_FREE(hold);

    hold = CF_TAKE(f->a, f->name, &(hf_options){.owner = UINT64_MAX});
    info = cf_inspect(f->b, f->name);
    assert_string_equal(info->owner, "o18446744073709551615");
    hf_info_free(info);
    CF_FREE(hold);
}

static void B27_threads_and_clients_are_distinguished(cf *f) {
    hf_hold *mine = CF_TAKE(f->a, cf_name(f, "-1"), NULL);
    hf_hold *other_thread;
    CF_IS(HF_OK, cf_acquire_in_thread(f, f->a, cf_name(f, "-2"), NULL, &other_thread));
    hf_hold *other_client = CF_TAKE(f->b, cf_name(f, "-3"), NULL);
    hf_info *first = cf_inspect(f->b, cf_name(f, "-1"));
    hf_info *second = cf_inspect(f->b, cf_name(f, "-2"));
    hf_info *third = cf_inspect(f->b, cf_name(f, "-3"));
    assert_string_equal(first->client, second->client);
    assert_string_not_equal(first->owner, second->owner);
    assert_string_not_equal(first->client, third->client);
    hf_info_free(first);
    hf_info_free(second);
    hf_info_free(third);
    CF_FREE(mine);
    CF_FREE(other_thread);
    CF_FREE(other_client);
}

static void B27_a_label_may_come_with_the_url(cf *f) {
    hf_client *client = cf_open_url(f, cf_url_with(f, "label=day%20shift"),
                                    &(hf_client_options){.label = "night shift"});
    hf_hold *hold = CF_TAKE(client, f->name, NULL);
    hf_info *info = cf_inspect(f->a, f->name);
    assert_string_equal(info->label, "day shift");
    hf_info_free(info);
    CF_FREE(hold);
}

static void B27_inspecting_changes_nothing(cf *f) {
    hf_hold *hold = CF_TAKE(f->a, f->name, NULL);
    uint64_t token = hf_fence(hold);
    for (int i = 0; i < 10; i++) assert_true(cf_token(f->b, f->name) == token);
    CF_FREE(hold);
    for (int i = 0; i < 10; i++) check_free(f->b, f->name);
    assert_int_equal(cf_stats(f->b).acquired, 0);
    assert_int_equal(cf_stats(f->b).refused, 0);
}

/* ---- Counters -------------------------------------------------------------------------------- */

static void check_nothing_done(hf_client *client) {
    hf_stats stats = cf_stats(client);
    assert_int_equal(stats.acquired + stats.reentered + stats.released + stats.refused, 0);
    assert_int_equal(stats.lost + stats.renewed + stats.reconnects, 0);
    assert_int_equal(stats.held + stats.waiting, 0);
}

static void stats_count_acquires_and_releases(cf *f) {
    check_nothing_done(f->a);
    hf_hold *first = CF_TAKE(f->a, cf_name(f, "-1"), NULL);
    hf_hold *again = CF_TAKE(f->a, cf_name(f, "-1"), NULL);
    hf_hold *second = CF_TAKE(f->a, cf_name(f, "-2"), NULL);
    hf_stats stats = cf_stats(f->a);
    assert_int_equal(stats.acquired, 2);
    assert_int_equal(stats.reentered, 1);
    assert_int_equal(stats.released, 0);
    assert_int_equal(stats.held, 2);

    CF_FREE(first);
    assert_int_equal(cf_stats(f->a).released, 0);
    CF_FREE(again);
    CF_FREE(second);
    stats = cf_stats(f->a);
    assert_int_equal(stats.acquired, 2);
    assert_int_equal(stats.released, 2);
    assert_int_equal(stats.held, 0);
    assert_int_equal(stats.lost + stats.refused + stats.waiting + stats.reconnects, 0);
    check_nothing_done(f->b);
}

static void stats_count_refusals_and_losses(cf *f) {
    hf_cancel *cancel = cf_cancel();
    hf_cancel_fire(cancel);
    hf_hold *hold =
        CF_TAKE(f->a, f->name, &(hf_options){.lease_ms = CF_KEPT_LEASE_MS, .flags = HF_NO_RENEW});
    CF_REFUSED(HF_BUSY, f->b, f->name, NULL);
    CF_REFUSED(HF_TIMEOUT, f->b, f->name, &(hf_options){.wait_ms = 300});
    CF_REFUSED(HF_CANCELLED, f->b, f->name, &(hf_options){.cancel = cancel});
    assert_int_equal(cf_stats(f->b).refused, 3);
    assert_int_equal(cf_stats(f->b).acquired + cf_stats(f->b).waiting, 0);

    CF_UNTIL(cf_stats(f->a).lost == 1);
    CF_IS(HF_LOST, hf_release(hold));
    hf_stats stats = cf_stats(f->a);
    assert_int_equal(stats.acquired, 1);
    assert_int_equal(stats.released, 0);
    assert_int_equal(stats.held + stats.refused + stats.renewed, 0);
    hf_cancel_free(cancel);
}

static void stats_fill_only_the_given_size(cf *f) {
    struct {
        uint64_t acquired, reentered, untouched;
    } few = {1, 1, 0x5a5a};
    hf_hold *hold = CF_TAKE(f->a, f->name, NULL);
    CF_IS(HF_OK, hf_stats_get_v(f->a, (hf_stats *)(void *)&few, offsetof(hf_stats, released)));
    assert_int_equal(few.acquired, 1);
    assert_int_equal(few.reentered, 0);
    assert_int_equal(few.untouched, 0x5a5a);
    CF_FREE(hold);
}

/* One waiter for each client, in order of arrival. */
static void B27_waiters_are_reported_in_order(cf *f) {
    enum { CLIENTS = 5 };
    cf_attempt *waiters[CLIENTS];
    hf_hold *hold = CF_TAKE(f->a, f->name, NULL);
    for (uint32_t i = 0; i < CLIENTS; i++) {
        char label[16];
        snprintf(label, sizeof label, "label=w%u", i);
        hf_client *client = cf_open_url(f, cf_url_with(f, label), NULL);
        waiters[i] = cf_queue(f, client, f->name, &(hf_options){.wait_ms = HF_FOREVER});
        CF_UNTIL(cf_queue_length(f->name) == (int)i + 1);
    }
    hf_info *info = cf_inspect(f->b, f->name);
    assert_int_equal(info->held, 1);
    assert_int_equal(info->waiting, CLIENTS);
    for (int i = 0; i < CLIENTS; i++) {
        char label[16];
        snprintf(label, sizeof label, "w%d", i);
        assert_string_equal(info->waiters[i].label, label);
        assert_int_equal(info->waiters[i].pid, getpid());
        assert_true(*info->waiters[i].client && *info->waiters[i].host);
    }
    hf_info_free(info);
    CF_FREE(hold);
    for (int i = 0; i < CLIENTS; i++) CF_FREE(cf_granted(waiters[i]));
    assert_int_equal(cf_queue_length(f->name), 0);
}

const cf_case cf_inspecting[] = {
    CF_CASE_NEEDS(B27_waiters_are_reported_in_order, CF_QUEUE),
    CF_CASE(B27_a_free_lock_is_reported_as_free),
    CF_CASE(B27_inspect_names_the_holder),
    CF_CASE(B27_inspect_names_a_logical_owner),
    CF_CASE(B27_threads_and_clients_are_distinguished),
    CF_CASE(B27_a_label_may_come_with_the_url),
    CF_CASE(B27_inspecting_changes_nothing),
    CF_CASE(stats_count_acquires_and_releases),
    CF_CASE(stats_count_refusals_and_losses),
    CF_CASE(stats_fill_only_the_given_size),
    CF_CASES_END,
};
