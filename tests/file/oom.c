/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Failing memory, descriptors, threads and files (F45). Each allocation and each system call of a
 * scenario fails once, and then it and all later ones fail. Every call returns an error or works
 * without the resource. No lock is held wrongly or stays held, and no descriptor is left. The asan
 * run checks for leaked memory.
 *
 * The other client is an actor, in a process where nothing fails. Every scenario runs with the
 * mutex, and with other kinds against it and against each other.
 */
#include "kit.h"

#include <dirent.h>
#include <unistd.h>

enum { LEASE_MS = 300, RELEASE_AFTER_US = 3000, CALLS_MAX = 1000 };

typedef struct oom_trial {
    test_dir *dir;
    actor *other;
    char lock[PATH_SIZE];
    hf_client_options options;
    uint32_t ours, theirs; /* kinds that exclude each other */
} oom_trial;

/* ---- True in any case ------------------------------------------------------------------------ */

static int open_descriptors(void) {
    int count = 0;
    t_exempt_begin();
    DIR *dir = opendir("/proc/self/fd");
    if (!dir) t_fail("cannot open /proc/self/fd");
    while (readdir(dir)) count++;
    closedir(dir);
    t_exempt_end();
    return count;
}

/* As seen by the other process. */
static bool is_taken(oom_trial *t) {
    t_exempt_begin();
    actor_result got = TRIES(t->other, 0);
    if (got.result == HF_OK) FREES(t->other);
    t_exempt_end();
    bool entry_locked = got.result == HF_UNREACHABLE; /* it could not be unlocked yet */
    if (got.result != HF_OK && got.result != HF_BUSY && !entry_locked)
        t_fail("the other process got %s: %s", hf_result_name(got.result), got.detail);
    return got.result != HF_OK;
}

/* ---- Calls that may fail --------------------------------------------------------------------- */

static bool went_well(hf_result r, const char *what) {
    return t_hf_did_without(r, what, (const hf_result[]){HF_REFUSED, HF_OK});
}

static hf_client *try_open(oom_trial *t) {
    hf_client *client = NULL;
    bool made = went_well(hf_open(t->dir->url, &t->options, &client), "hf_open");
    T_CHECK(made == (client != NULL));
    return client;
}

static void check_hold(oom_trial *t, hf_result r, const hf_hold *hold) {
    T_CHECK((r == HF_OK) == (hold != NULL));
    if (!hold || !hf_held(hold)) return;
    bool busy = is_taken(t);
    T_CHECK(busy || !hf_held(hold)); /* a valid hold is held on the store too, unless it is over */
}

static hf_hold *try_acquire(oom_trial *t, hf_client *client) {
    hf_hold *hold = NULL;
    hf_result r = hf_acquire(client, LOCK, &(hf_options){.kind = t->ours}, &hold);
    (void)went_well(r, "to try");
    check_hold(t, r, hold);
    return hold;
}

/* A released lock is free immediately, not only after the client is closed. */
static void try_release(oom_trial *t, hf_hold *hold) {
    if (!hold) return;
    hf_result r = hf_release(hold);
    if (r != HF_LOST) (void)went_well(r, "hf_release");
    if (r == HF_OK) T_CHECK(!is_taken(t));
}

static void end_scenario(oom_trial *t, hf_client *client) {
    hf_close(client);
    T_CHECK(!is_taken(t));
    T_CHECK(t_queue_holder(t->lock) == 0);
    T_CHECK(t_queue_length(t->lock) == 0);
}

/* ---- Scenarios ------------------------------------------------------------------------------- */

static void open_and_close(void *arg) {
    hf_close(try_open(arg));
}

static void acquire_and_release(void *arg) {
    oom_trial *t = arg;
    hf_client *client = try_open(t);
    if (client) try_release(t, try_acquire(t, client));
    if (client) try_release(t, try_acquire(t, client)); /* once more, with the file open */
    end_scenario(t, client);
}

static void reenter_and_extend(void *arg) {
    oom_trial *t = arg;
    hf_client *client = try_open(t);
    hf_hold *first = client ? try_acquire(t, client) : NULL;
    hf_hold *second = first && hf_held(first) ? try_acquire(t, client) : NULL;
    if (first) {
        hf_result r = hf_extend(first, LEASE_MS + 50);
        if (r != HF_LOST) (void)went_well(r, "hf_extend");
    }
    if (second) (void)hf_release(second);
    try_release(t, first);
    end_scenario(t, client);
}

/* The other client holds the lock and releases it a moment later. */
static void wait_and_release(void *arg) {
    oom_trial *t = arg;
    hf_hold *hold = NULL;
    hf_client *client = try_open(t);
    if (client) {
        t_exempt_begin();
        TAKES(t->other, .kind = t->theirs);
        actor_begin(t->other, &(actor_request){.action = do_release, .number = RELEASE_AFTER_US});
        t_exempt_end();
        hf_result r =
            hf_acquire(client, LOCK, &(hf_options){.wait_ms = 5000, .kind = t->ours}, &hold);
        t_exempt_begin();
        IS(HF_OK, actor_end(t->other));
        t_exempt_end();
        (void)went_well(r, "a wait");
        check_hold(t, r, hold);
        try_release(t, hold);
    }
    end_scenario(t, client);
}

/* The other client holds the lock and does not release it. */
static void wait_until_timeout(void *arg) {
    oom_trial *t = arg;
    hf_hold *hold = NULL;
    hf_client *client = try_open(t);
    if (client) {
        t_exempt_begin();
        TAKES(t->other, .kind = t->theirs);
        t_exempt_end();
        hf_options options = {.wait_ms = 5, .kind = t->ours};
        hf_result r = hf_acquire(client, LOCK, &options, &hold);
        T_CHECK(r != HF_OK && !hold);
        if (r != HF_TIMEOUT) (void)went_well(r, "a wait for a held lock");
        T_CHECK(t_queue_length(t->lock) == 0);
        t_exempt_begin();
        FREES(t->other);
        t_exempt_end();
    }
    end_scenario(t, client);
}

/* A break that returns HF_OK has ended the hold. */
static void inspect_and_break(void *arg) {
    oom_trial *t = arg;
    hf_info *info = NULL;
    hf_client *client = try_open(t);
    if (client) {
        t_exempt_begin();
        TAKES(t->other, .lease_ms = 60000, .kind = t->theirs);
        t_exempt_end();
        hf_result r = hf_inspect(client, LOCK, &info);
        T_CHECK(went_well(r, "hf_inspect") == (info != NULL));
        if (info) T_CHECK(info->held);
        hf_info_free(info);
        r = hf_break(client, LOCK, 0);
        (void)went_well(r, "hf_break");
        t_exempt_begin();
        if (r == HF_OK) T_CHECK(!actor_holds(t->other));
        hf_result released = DO(t->other, do_release).result;
        T_CHECK(released == HF_LOST || (released == HF_OK && r != HF_OK));
        t_exempt_end();
    }
    end_scenario(t, client);
}

static void close_while_holding(void *arg) {
    oom_trial *t = arg;
    hf_client *client = try_open(t);
    hf_hold *hold = client ? try_acquire(t, client) : NULL;
    end_scenario(t, client);
    if (hold) {
        T_CHECK(!hf_held(hold));
        hf_unref(hold);
    }
}

/* Renewals fail. The lock is held or lost, and a lost lock is free. */
static void try_renew(void *arg) {
    oom_trial *t = arg;
    hf_client *client = try_open(t);
    hf_hold *hold = NULL;
    if (client) {
        hf_options options = {.lease_ms = 60, .kind = t->ours};
        hf_result r = hf_acquire(client, LOCK, &options, &hold);
        (void)went_well(r, "hf_acquire");
        check_hold(t, r, hold);
    }
    if (hold) {
        t_sleep_ms(50); /* long enough for a renewal or two */
        check_hold(t, HF_OK, hold);
        try_release(t, hold);
    }
    end_scenario(t, client);
}

/* The count-downs that succeeded are in the file when calls work again. */
static void count_a_latch(void *arg) {
    oom_trial *t = arg;
    uint32_t left = 0;
    hf_client *client = try_open(t);
    if (client && went_well(hf_latch_set(client, LOCK, 2), "hf_latch_set")) {
        if (went_well(hf_latch_count_down(client, LOCK, 1, &left), "hf_latch_count_down"))
            T_CHECK(left == 1);
        hf_result r = hf_latch_wait(client, LOCK, &(hf_options){.wait_ms = 5});
        if (r != HF_TIMEOUT) T_CHECK(!went_well(r, "hf_latch_wait"));
        if (went_well(hf_latch_left(client, LOCK, &left), "hf_latch_left")) T_CHECK(left != 0);
    }
    end_scenario(t, client);
}

static void try_lead(void *arg) {
    oom_trial *t = arg;
    hf_hold *hold = NULL;
    hf_leader_info *info = NULL;
    hf_client *client = try_open(t);
    if (client) {
        hf_result r = hf_campaign(client, LOCK, "here", 4, NULL, &hold);
        if (r != HF_LOST) (void)went_well(r, "hf_campaign");
        check_hold(t, r, hold);
        r = hf_leader(client, LOCK, &info);
        if (r != HF_NOT_HELD) T_CHECK(went_well(r, "hf_leader") == (info != NULL));
        if (info) T_CHECK(info->value_length == 4 && !strcmp(info->value, "here"));
        hf_leader_free(info);
        try_release(t, hold);
    }
    end_scenario(t, client);
}

/* A failed renewal is retried before the deadline, so one failure loses nothing. */
static void F14_a_call_that_fails_once_in_a_renewal_loses_nothing(void **state) {
    enum { CALLS = 8 };
    test_dir *p = *state;
    hf_client *client = NULL;
    hf_hold *hold = NULL;
    T_HF(HF_OK, hf_open(p->url, NULL, &client));
    T_HF(HF_OK, hf_acquire(client, LOCK, &(hf_options){.lease_ms = 1200}, &hold));
    for (int n = 1; n <= CALLS; n++) {
        hf_stats before = {0}, now = {0};
        T_HF(HF_OK, hf_stats_get(client, &before));
        t_files_fail_at(n, false);
        UNTIL(hf_stats_get(client, &now) == HF_OK &&
              (now.renewed >= before.renewed + 2 || !hf_held(hold)));
        t_files_reset();
        if (!hf_held(hold)) t_fail("lost when call %d failed: %s", n, hf_why_lost(hold));
    }
    T_HF(HF_OK, hf_release(hold));
    hf_close(client);
}

/* A reader upgrades and downgrades again. Whatever fails, the lock is held as long as hf_held says
   so. */
static void upgrade_and_downgrade(void *arg) {
    oom_trial *t = arg;
    hf_client *client = try_open(t);
    hf_hold *hold = NULL;
    if (client) {
        hf_result r = hf_acquire(client, LOCK, &(hf_options){.kind = HF_UPGRADABLE}, &hold);
        (void)went_well(r, "hf_acquire");
        check_hold(t, r, hold);
    }
    if (hold) {
        hf_result r = hf_upgrade(hold, 100);
        bool upgraded = r != HF_LOST && r != HF_TIMEOUT && went_well(r, "hf_upgrade");
        check_hold(t, HF_OK, hold);
        r = upgraded ? hf_downgrade(hold) : HF_LOST;
        if (r != HF_LOST) (void)went_well(r, "hf_downgrade");
        check_hold(t, HF_OK, hold);
        try_release(t, hold);
    }
    end_scenario(t, client);
}

/* A failed upgrade or downgrade leaves the hold unchanged. */
static void F14_a_call_that_fails_once_in_an_upgrade_loses_nothing(void **state) {
    enum { CALLS = 14 };
    test_dir *p = *state;
    hf_client *client = NULL;
    hf_hold *hold = NULL;
    T_HF(HF_OK, hf_open(p->url, NULL, &client));
    T_HF(HF_OK, hf_acquire(client, LOCK, &(hf_options){.kind = HF_UPGRADABLE}, &hold));
    for (int n = 1; n <= CALLS; n++) {
        t_files_fail_at(n, false);
        hf_result r = hf_upgrade(hold, 100);
        t_files_reset();
        if (r != HF_OK) T_CHECK(*hf_error_detail());
        if (r != HF_OK) T_HF(HF_OK, hf_upgrade(hold, SOON_MS));
        t_files_fail_at(n, false);
        r = hf_downgrade(hold);
        t_files_reset();
        T_HF(HF_OK, hf_extend(hold, 31000));
        if (!hf_held(hold)) t_fail("lost when call %d failed: %s", n, hf_why_lost(hold));
    }
    T_HF(HF_OK, hf_release(hold));
    hf_close(client);
}

static t_inject_fn *const scenarios[] = {open_and_close,      acquire_and_release,
                                         reenter_and_extend,  wait_and_release,
                                         wait_until_timeout,  inspect_and_break,
                                         close_while_holding, upgrade_and_downgrade,
                                         count_a_latch,       try_lead};

enum { SCENARIOS = sizeof scenarios / sizeof *scenarios };

/* ---- Running the scenarios ------------------------------------------------------------------- */

typedef int64_t each_fn(t_inject_fn *fn, void *arg, int64_t max);

static t_inject_fn *current;

static void live_without_leaving_descriptors(void *arg) {
    int before = open_descriptors();
    current(arg);
    int after = open_descriptors();
    if (after != before) t_fail("%d descriptors before, %d after", before, after);
}

static const uint32_t pairs[][2] = {
    {HF_MUTEX, HF_MUTEX}, {HF_READ, HF_MUTEX}, {HF_WRITE, HF_READ}, {HF_MUTEX, HF_WRITE}};

/* Whether a scenario depends on both kinds of the pair. */
static bool depends_on_kinds(t_inject_fn *scenario, size_t pair) {
    if (scenario == open_and_close || scenario == upgrade_and_downgrade) return pair == 0;
    if (scenario == wait_and_release || scenario == wait_until_timeout) return true;
    return scenario == inspect_and_break ? pair % 2 == 0 : pair < 2;
}

static void run_scenario(test_dir *p, each_fn *each, t_inject_fn *scenario) {
    oom_trial t = {.dir = p, .other = p->actors[0]};
    t.options =
        (hf_client_options){.lease_ms = LEASE_MS, .command_timeout_ms = 300, .outage_ms = 100};
    snprintf(t.lock, sizeof t.lock, "%s", lock_path(p, LOCK));
    current = scenario;
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        if (!depends_on_kinds(scenario, i)) continue;
        t.ours = pairs[i][0];
        t.theirs = pairs[i][1];
        each(live_without_leaving_descriptors, &t, CALLS_MAX);
    }
}

static int trial_up(void **state) {
    int rc = test_dir_set_up(state);
    if (rc) return rc;
    test_dir *p = *state;
    (void)actor_new(p, NULL);
    return 0;
}

static int trial_down(void **state) {
    t_alloc_reset();
    t_sys_reset();
    t_files_reset();
    return test_dir_tear_down(state);
}

static void F45_memory(void **state) {
    for (size_t i = 0; i < SCENARIOS; i++) run_scenario(*state, t_alloc_each, scenarios[i]);
}

/* Opening needs neither: the directory is a file, which t_files counts. */
static void F45_descriptors_and_threads(void **state) {
    for (size_t i = 0; i < SCENARIOS; i++)
        if (scenarios[i] != open_and_close) run_scenario(*state, t_sys_each, scenarios[i]);
}

static void F45_files_while_opening(void **state) {
    run_scenario(*state, t_files_each, open_and_close);
}

static void F45_files_while_acquiring(void **state) {
    run_scenario(*state, t_files_each, acquire_and_release);
    run_scenario(*state, t_files_each, reenter_and_extend);
    run_scenario(*state, t_files_each, close_while_holding);
}

static void F45_files_while_waiting(void **state) {
    run_scenario(*state, t_files_each, wait_and_release);
    run_scenario(*state, t_files_each, wait_until_timeout);
}

static void F45_files_while_upgrading(void **state) {
    run_scenario(*state, t_files_each, upgrade_and_downgrade);
}

static void F45_files_while_inspecting_and_breaking(void **state) {
    run_scenario(*state, t_files_each, inspect_and_break);
}

static void F45_files_while_counting_and_leading(void **state) {
    run_scenario(*state, t_files_each, count_a_latch);
    run_scenario(*state, t_files_each, try_lead);
}

static void F45_files_while_renewing(void **state) {
    run_scenario(*state, t_files_each, try_renew);
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, trial_up, trial_down)

static const struct CMUnitTest tests[] = {
    TEST(F45_memory),
    TEST(F45_descriptors_and_threads),
    TEST(F45_files_while_opening),
    TEST(F45_files_while_acquiring),
    TEST(F45_files_while_waiting),
    TEST(F45_files_while_upgrading),
    TEST(F45_files_while_inspecting_and_breaking),
    TEST(F45_files_while_counting_and_leading),
    TEST(F45_files_while_renewing),
    TEST(F14_a_call_that_fails_once_in_a_renewal_loses_nothing),
    TEST(F14_a_call_that_fails_once_in_an_upgrade_loses_nothing),
};

FILE_MAIN(tests)
