/* SPDX-License-Identifier: Apache-2.0 */
/* One client holds ten thousand locks. All are renewed, at proportional cost, and all are released
   (B29). */
#include "fault.h"

enum { LOCKS = 10000, HOLD_MS = 9000 };

static void name_of(int i, char name[32]) {
    snprintf(name, 32, "many-%d", i);
}

static void take_all(hf_client *client, hf_hold **holds, int64_t lease_ms) {
    char name[32];
    for (int i = 0; i < LOCKS; i++) {
        name_of(i, name);
        holds[i] =
            acquire_or_fail(client, name, &(hf_options){.lease_ms = lease_ms}, __FILE__, __LINE__);
    }
}

static void check_all_held(hf_client *client, hf_hold *const *holds) {
    for (int i = 0; i < LOCKS; i++) assert_int_equal(hf_held(holds[i]), 1);
    assert_int_equal(stats_of(client).held, LOCKS);
    assert_int_equal(stats_of(client).lost, 0);
}

static void B29_ten_thousand_locks_are_kept_and_released(void **state) {
    static hf_hold *holds[LOCKS];
    bed *b = *state;
    hf_client *client = bed_direct(b);
    int64_t lease_ms = t_patience(3000), leases = HOLD_MS / lease_ms + 1;
    take_all(client, holds, lease_ms);
    calls_reset(b);
    t_sleep_ms(HOLD_MS); /* three leases, if times are not stretched */
    check_all_held(client, holds);
    assert_in_range(call_count(b, "evalsha"), HOLD_MS / lease_ms * LOCKS, leases * 4 * LOCKS);
    /* the fences, and the client's registration */
    assert_int_equal(t_redis_int(b->redis, "DBSIZE"), 2 * LOCKS + 1);
    for (int i = 0; i < LOCKS; i++) FREE(holds[i]);
    assert_int_equal(t_redis_int(b->redis, "DBSIZE"), LOCKS + 1);
    assert_int_equal(stats_of(client).held, 0);
}

static const struct CMUnitTest tests[] = {
    FAULT_TEST(B29_ten_thousand_locks_are_kept_and_released),
};

FAULT_MAIN(tests)
