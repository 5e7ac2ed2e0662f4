/* SPDX-License-Identifier: Apache-2.0 */
/* Lease arithmetic: a holder's deadline is never after the store's, with any rounding. */
#include "t.h"

#include "core/lease.h"
#include "holdfast.h"

static const int64_t leases[] = {1,
                                 2,
                                 49,
                                 50,
                                 51,
                                 99,
                                 100,
                                 101,
                                 333,
                                 1000,
                                 1001,
                                 29999,
                                 30000,
                                 30001,
                                 3600000,
                                 HF_LEASE_MAX_MS - 1,
                                 HF_LEASE_MAX_MS};

#define EACH_LEASE(i) for (size_t i = 0; i < sizeof leases / sizeof *leases; i++)

static void test_margin(void **state) {
    (void)state;
    assert_int_equal(hf__lease_margin(50), 500000 + 2 * HF__MS);
    assert_int_equal(hf__lease_margin(1000), 12 * HF__MS);
    assert_int_equal(hf__lease_margin(30000), 302 * HF__MS);
    EACH_LEASE(i) assert_true(hf__lease_margin(leases[i]) * 100 >= leases[i] * HF__MS);
}

/* The store counts whole milliseconds from the time of execution, which is not before the
   request. Its clock may run fast by one percent. */
static void test_deadline_is_before_the_stores(void **state) {
    (void)state;
    hf__rand rand = {1};
    EACH_LEASE(i) {
        for (int n = 0; n < 1000; n++) {
            hf__time sent_at = (hf__time)(hf__rand_next(&rand) % (uint64_t)(1000 * HF__SEC));
            hf__time lease = leases[i] * HF__MS;
            hf__time store = (sent_at + lease - lease / 100) / HF__MS * HF__MS;
            assert_true(hf__lease_deadline(sent_at, leases[i]) <= store);
        }
    }
    assert_int_equal(hf__lease_deadline(7, 1000), 7 + 988 * HF__MS);
}

static void test_shortest_lease_is_usable(void **state) {
    (void)state;
    assert_true(hf__lease_deadline(0, HF_LEASE_MIN_MS) > HF_LEASE_MIN_MS * HF__MS * 9 / 10);
}

static void test_lapse_and_cover(void **state) {
    (void)state;
    EACH_LEASE(i) {
        hf__time lease = leases[i] * HF__MS;
        assert_int_equal(hf__lease_lapse(7, leases[i]), 7 + lease + hf__lease_margin(leases[i]));
        int64_t covering = hf__lease_covering(leases[i]);
        assert_true(hf__lease_deadline(0, covering) >= lease);
        assert_true(covering <= leases[i] + leases[i] / 40 + 6);
    }
}

static void test_renewal_is_due_at_a_third(void **state) {
    (void)state;
    hf__rand rand = {2};
    EACH_LEASE(i) {
        hf__time third = leases[i] * HF__MS / 3;
        for (int n = 0; n < 1000; n++) {
            hf__time due = hf__lease_renew_at(100, leases[i], &rand) - 100;
            assert_true(due <= third && due >= third - third / 4);
        }
    }
}

static void test_renewals_are_due_together(void **state) {
    (void)state;
    hf__rand rand = {4};
    EACH_LEASE(i) {
        hf__time lease = leases[i] * HF__MS, grain = lease / 128;
        hf__time last = 0;
        int instants = 0;
        uint64_t phase = hf__rand_next(&rand);
        for (hf__time at = lease; at < 2 * lease; at += lease / 1000) {
            hf__time due = hf__lease_align(at, leases[i], phase);
            assert_true(due <= at && due > at - grain && due >= last);
            instants += due != last;
            last = due;
        }
        assert_in_range(instants, 128, 129);
    }
}

static void test_retry_intervals_grow(void **state) {
    (void)state;
    hf__rand rand = {3};
    EACH_LEASE(i) {
        hf__time longest = hf__sooner(leases[i] * HF__MS / 10, HF__SEC);
        for (uint32_t n = 0; n < 100; n++) {
            hf__time most = n < 7 ? hf__sooner((10 * HF__MS) << n, longest) : longest;
            hf__time wait = hf__lease_retry_at(5, leases[i], n, &rand) - 5;
            assert_true(wait <= most && wait >= most - most / 4);
        }
        assert_true(hf__lease_retry_at(5, leases[i], UINT32_MAX, &rand) - 5 <= longest);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_margin),
        cmocka_unit_test(test_deadline_is_before_the_stores),
        cmocka_unit_test(test_shortest_lease_is_usable),
        cmocka_unit_test(test_lapse_and_cover),
        cmocka_unit_test(test_renewal_is_due_at_a_third),
        cmocka_unit_test(test_renewals_are_due_together),
        cmocka_unit_test(test_retry_intervals_grow),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
