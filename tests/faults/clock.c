/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A wall clock that jumps (F6): the linker redirects every read of the wall clock to this file.
 * Here it is set hours ahead or back, and reads are counted. The library must not read it. Also a
 * machine that was asleep (F7): the clock used for leases keeps running during sleep.
 */
#include "fault.h"

#include <sys/time.h>
#include <time.h>

enum { HOURS = 3600 };

static atomic_llong jump_s, slept_s;
static atomic_int clock_reads;

int __real_clock_gettime(clockid_t clock, struct timespec *now);
int __wrap_clock_gettime(clockid_t clock, struct timespec *now);
int __real_gettimeofday(struct timeval *now, void *zone);
int __wrap_gettimeofday(struct timeval *now, void *zone);
time_t __real_time(time_t *now);
time_t __wrap_time(time_t *now);

int __wrap_clock_gettime(clockid_t clock, struct timespec *now) {
    int rc = __real_clock_gettime(clock, now);
    if (clock == CLOCK_BOOTTIME) now->tv_sec += (time_t)atomic_load(&slept_s);
    if (clock != CLOCK_REALTIME && clock != CLOCK_REALTIME_COARSE) return rc;
    atomic_fetch_add(&clock_reads, 1);
    now->tv_sec += (time_t)atomic_load(&jump_s);
    return rc;
}

int __wrap_gettimeofday(struct timeval *now, void *zone) {
    int rc = __real_gettimeofday(now, zone);
    atomic_fetch_add(&clock_reads, 1);
    now->tv_sec += (time_t)atomic_load(&jump_s);
    return rc;
}

time_t __wrap_time(time_t *now) {
    time_t t = __real_time(NULL) + (time_t)atomic_load(&jump_s);
    atomic_fetch_add(&clock_reads, 1);
    if (now) *now = t;
    return t;
}

static void F06_the_clock_of_these_tests_jumps(void **state) {
    struct timespec before, after;
    (void)state;
    clock_gettime(CLOCK_REALTIME, &before);
    atomic_store(&jump_s, 5 * HOURS);
    clock_gettime(CLOCK_REALTIME, &after);
    assert_true(after.tv_sec - before.tv_sec >= 5 * HOURS);
    assert_true(atomic_load(&clock_reads) >= 2);
    atomic_store(&jump_s, 0);
}

/* A hold is renewed, its remaining time counts on, and a wait ends when it should. */
static void check_after_jump(bed *b, hf_hold *hold, hf_client *holder, hf_client *waiter) {
    uint64_t renewed = stats_of(holder).renewed;
    UNTIL(stats_of(holder).renewed >= renewed + 2);
    check_held(b, hold);
    assert_in_range(hf_remaining_ms(hold), 1, t_patience(900));
    int64_t began = t_now_ms();
    REFUSED(HF_TIMEOUT, waiter, .wait_ms = 200);
    assert_true(t_now_ms() - began >= 200);
}

static void F06_jumps_of_the_wall_clock_have_no_effect(void **state) {
    bed *b = *state;
    atomic_store(&clock_reads, 0);
    hf_client *holder = bed_direct(b), *waiter = bed_direct(b);
    hf_hold *hold = TAKE(holder, .lease_ms = t_patience(900));
    atomic_store(&jump_s, 5 * HOURS);
    check_after_jump(b, hold, holder, waiter);
    atomic_store(&jump_s, -5 * HOURS);
    check_after_jump(b, hold, holder, waiter);
    T_HF(HF_OK, hf_extend(hold, t_patience(60000)));
    FREE(hold);
    FREE(TAKE(waiter, .wait_ms = t_patience(SOON_MS)));
    bed_close(b, holder);
    bed_close(b, waiter);
    atomic_store(&jump_s, 0);
    /* only the first test of this program reads it */
    assert_int_equal(atomic_load(&clock_reads), 0);
}

/* The background thread's timer has not fired yet. hf_held must already return the truth, and
   writes carry the old token. */
static void F07_time_asleep_counts(void **state) {
    bed *b = *state;
    hf_client *client = bed_direct(b);
    hf_hold *hold = TAKE(client, .lease_ms = 60000);
    assert_true(hf_held(hold) && hf_remaining_ms(hold) > 0);
    atomic_fetch_add(&slept_s, 61);
    assert_int_equal(hf_held(hold), 0);
    assert_int_equal(hf_remaining_ms(hold), 0);
    T_HF(HF_LOST, hf_extend(hold, 60000));
    T_HF(HF_LOST, hf_release(hold));
    bed_close(b, client);
}

static void F07_a_sleep_shorter_than_the_lease_shortens_what_remains(void **state) {
    bed *b = *state;
    hf_client *client = bed_direct(b);
    hf_hold *hold = TAKE(client, .lease_ms = 600000);
    int64_t before = hf_remaining_ms(hold);
    atomic_fetch_add(&slept_s, 300);
    assert_int_equal(hf_held(hold), 1);
    assert_true(hf_remaining_ms(hold) <= before - 300000);
    FREE(hold);
    bed_close(b, client);
}

static const struct CMUnitTest tests[] = {
    FAULT_TEST_ON(F06_the_clock_of_these_tests_jumps, &BED_BARE),
    FAULT_TEST(F06_jumps_of_the_wall_clock_have_no_effect),
    FAULT_TEST(F07_time_asleep_counts),
    FAULT_TEST(F07_a_sleep_shorter_than_the_lease_shortens_what_remains),
};

FAULT_MAIN(tests)
