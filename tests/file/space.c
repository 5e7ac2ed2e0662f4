/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A directory on a full filesystem (B30). Idle files are removed for new ones, files in use stay,
 * and tokens still grow (B28). If there is no space, the error says what to do (F27).
 *
 * The filesystem is a tmpfs of a few pages that only the test's child sees. Needs root.
 */
#include "kit.h"

#include <time.h>
#include <unistd.h>

enum { PAGES = 64, NAMES = 5 * PAGES, HELD = 10, HOUR = 3600 };

#define SMALL "mode=0700,size=256k"

/* ---- The clock ------------------------------------------------------------------------------- */

static _Atomic int64_t back_s;

int __real_clock_gettime(clockid_t clock, struct timespec *now);
int __wrap_clock_gettime(clockid_t clock, struct timespec *now);
int __wrap_clock_gettime(clockid_t clock, struct timespec *now) {
    int rc = __real_clock_gettime(clock, now);
    if (clock == CLOCK_REALTIME) now->tv_sec -= atomic_load(&back_s);
    return rc;
}

/* ---- A small directory ----------------------------------------------------------------------- */

static hf_client *open_small(const test_dir *p, const char *options) {
    hf_client *client = NULL;
    own_mounts();
    mount_tmpfs(p->directory, options);
    T_HF(HF_OK, hf_open(p->url, NULL, &client));
    return client;
}

static void in_a_child(t_proc_fn *fn, test_dir *p) {
    needs_mounts();
    assert_int_equal(t_proc_wait(t_proc_start(fn, p), 2 * SOON_MS), 0);
}

static const char *nth_name(const char *start, int i) {
    static char name[32];
    snprintf(name, sizeof name, "%s%d", start, i);
    return name;
}

/* Uses many names, one after the other. */
static void use_names(hf_client *client, const char *start, int count, uint32_t kind) {
    for (int i = 0; i < count; i++) {
        hf_hold *hold = NULL;
        hf_options options = {.kind = kind};
        T_HF(HF_OK, hf_acquire(client, nth_name(start, i), &options, &hold));
        T_HF(HF_OK, hf_release(hold));
    }
}

static bool file_exists(const test_dir *p, const char *name) {
    return access(lock_path(p, name), F_OK) == 0;
}

/* ---- Idle files are removed ------------------------------------------------------------------ */

static int use_many_names(void *arg) {
    hf_client *client = open_small(arg, SMALL);
    use_names(client, "mutex", NAMES, HF_MUTEX);
    use_names(client, "read", NAMES, HF_READ);
    use_names(client, "mutex", NAMES, HF_MUTEX);
    hf_close(client);
    return 0;
}

static void B30_idle_files_are_removed_for_new_names(void **state) {
    in_a_child(use_many_names, *state);
}

static int use_many_inodes(void *arg) {
    hf_client *client = open_small(arg, "mode=0700,size=1m,nr_inodes=40");
    use_names(client, "mutex", NAMES, HF_MUTEX);
    hf_close(client);
    return 0;
}

static void B30_idle_files_are_removed_when_inodes_run_out(void **state) {
    in_a_child(use_many_inodes, *state);
}

static int lead_and_latch(void *arg) {
    uint32_t left = 0;
    hf_client *client = open_small(arg, SMALL);
    T_HF(HF_OK, hf_latch_set(client, "gate", 3));
    use_names(client, "mutex", NAMES, HF_MUTEX);
    for (int i = 0; i < PAGES; i++) {
        hf_hold *hold = NULL;
        T_HF(HF_OK, hf_campaign(client, nth_name("leader", i), "x", 1, NULL, &hold));
        T_HF(HF_OK, hf_release(hold));
    }
    for (int i = 0; i < PAGES / 2; i++) T_HF(HF_OK, hf_latch_set(client, nth_name("gate", i), 1));
    T_HF(HF_OK, hf_latch_left(client, "gate", &left));
    assert_int_equal(left, 3);
    hf_close(client);
    return 0;
}

/* A latch records work that is left to do, so it is never an idle file. */
static void B30_latches_stay_when_space_runs_out(void **state) {
    in_a_child(lead_and_latch, *state);
}

typedef struct space_crowd {
    char url[PATH_SIZE];
    atomic_int inside, collisions, members;
} space_crowd;

/* One lock that all clients want, and many that only one client uses. */
static int use_names_in_a_crowd(void *arg) {
    space_crowd *c = arg;
    hf_client *client = NULL;
    char start[16];
    snprintf(start, sizeof start, "m%d-", atomic_fetch_add(&c->members, 1));
    T_HF(HF_OK, hf_open(c->url, NULL, &client));
    for (int i = 0; i < NAMES; i++) {
        hf_hold *common = NULL, *hold = NULL;
        T_HF(HF_OK, hf_acquire(client, LOCK, &(hf_options){.wait_ms = SOON_MS}, &common));
        if (atomic_fetch_add(&c->inside, 1)) atomic_fetch_add(&c->collisions, 1);
        T_HF(HF_OK, hf_try_lock(client, nth_name(start, i), &hold));
        T_HF(HF_OK, hf_release(hold));
        atomic_fetch_sub(&c->inside, 1);
        T_HF(HF_OK, hf_release(common));
        T_HF(HF_OK, hf_try_lock(client, nth_name(start, NAMES + i), &hold));
        T_HF(HF_OK, hf_release(hold));
    }
    hf_close(client);
    return 0;
}

static int fill_directory(void *arg) {
    const test_dir *p = arg;
    t_proc *members[4];
    space_crowd *c = t_shared_new(sizeof *c);
    own_mounts();
    mount_tmpfs(p->directory, SMALL);
    snprintf(c->url, sizeof c->url, "%s", p->url);
    for (int i = 0; i < 4; i++) members[i] = t_proc_start(use_names_in_a_crowd, c);
    for (int i = 0; i < 4; i++) assert_int_equal(t_proc_wait(members[i], 2 * SOON_MS), 0);
    assert_int_equal(atomic_load(&c->collisions), 0);
    t_shared_free(c, sizeof *c);
    return 0;
}

static void B08_many_clients_that_free_space_at_once_exclude_each_other(void **state) {
    in_a_child(fill_directory, *state);
}

/* ---- Files in use stay ----------------------------------------------------------------------- */

static int hold_some(void *arg) {
    test_dir *p = arg;
    hf_client *client = open_small(p, SMALL), *other = NULL;
    hf_hold *held[HELD], *hold = NULL;
    T_HF(HF_OK, hf_open(p->url, NULL, &other));
    for (int i = 0; i < HELD; i++) {
        hf_options options = {.kind = i % 2 ? HF_READ : HF_MUTEX};
        T_HF(HF_OK, hf_acquire(client, nth_name("held", i), &options, &held[i]));
    }
    use_names(other, "mutex", NAMES, HF_MUTEX);
    for (int i = 0; i < HELD; i++) {
        assert_true(file_exists(p, nth_name("held", i)));
        T_HF(HF_BUSY, hf_try_lock(other, nth_name("held", i), &hold));
        assert_true(hf_held(held[i]));
        T_HF(HF_OK, hf_extend(held[i], SOON_MS));
        T_HF(HF_OK, hf_release(held[i]));
    }
    hf_close(other);
    hf_close(client);
    return 0;
}

static void B30_held_locks_stay_when_space_runs_out(void **state) {
    in_a_child(hold_some, *state);
}

static int hold_all(void *arg) {
    hf_client *client = open_small(arg, SMALL);
    hf_hold *held[NAMES], *hold = NULL;
    hf_result r = HF_OK;
    int count = 0;
    while (!r && count < NAMES) {
        r = hf_try_lock(client, nth_name("held", count), &held[count]);
        if (!r) count++;
    }
    T_HF(HF_REFUSED, r);
    assert_true(count > PAGES / 2);
    check_detail(hf_error_detail(), "No space left on device");
    check_detail(hf_error_detail(), "HOLDFAST_URL=file:///");
    for (int i = 0; i < count; i++) assert_true(hf_held(held[i]));
    T_HF(HF_OK, hf_release(held[0]));
    UNTIL(hf_try_lock(client, "another", &hold) == HF_OK);
    T_HF(HF_OK, hf_release(hold));
    for (int i = 1; i < count; i++) T_HF(HF_OK, hf_release(held[i]));
    hf_close(client);
    return 0;
}

static void F27_a_full_filesystem_is_reported_with_advice(void **state) {
    in_a_child(hold_all, *state);
}

/* ---- Tokens ---------------------------------------------------------------------------------- */

static int set_the_clock_back(void *arg) {
    test_dir *p = arg;
    hf_client *client = open_small(p, SMALL), *later = NULL;
    hf_hold *hold = NULL;
    T_HF(HF_OK, hf_try_lock(client, LOCK, &hold));
    uint64_t token = hf_fence(hold);
    T_HF(HF_OK, hf_release(hold));
    for (char start[] = "a"; *start <= 'z' && file_exists(p, LOCK); ++*start)
        use_names(client, start, PAGES, HF_MUTEX);
    assert_false(file_exists(p, LOCK));
    hf_close(client);
    atomic_store(&back_s, HOUR);
    T_HF(HF_OK, hf_open(p->url, NULL, &later)); /* a client that has seen no token */
    T_HF(HF_OK, hf_try_lock(later, LOCK, &hold));
    assert_true(hf_fence(hold) > token);
    token = hf_fence(hold);
    T_HF(HF_OK, hf_release(hold));
    /* the clock does not prevent the removal of files either */
    use_names(later, "later", NAMES, HF_MUTEX);
    T_HF(HF_OK, hf_try_lock(later, LOCK, &hold));
    assert_true(hf_fence(hold) > token);
    T_HF(HF_OK, hf_release(hold));
    hf_close(later);
    return 0;
}

static void B28_tokens_grow_after_files_are_removed_and_the_clock_is_set_back(void **state) {
    in_a_child(set_the_clock_back, *state);
}

static const struct CMUnitTest tests[] = {
    FILE_TEST(B30_idle_files_are_removed_for_new_names),
    FILE_TEST(B30_idle_files_are_removed_when_inodes_run_out),
    FILE_TEST(B08_many_clients_that_free_space_at_once_exclude_each_other),
    FILE_TEST(B30_latches_stay_when_space_runs_out),
    FILE_TEST(B30_held_locks_stay_when_space_runs_out),
    FILE_TEST(F27_a_full_filesystem_is_reported_with_advice),
    FILE_TEST(B28_tokens_grow_after_files_are_removed_and_the_clock_is_set_back),
};

FILE_MAIN(tests)
