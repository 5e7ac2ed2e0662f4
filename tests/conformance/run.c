/* SPDX-License-Identifier: Apache-2.0 */
#include "run.h"

int cf_run(const char *store, const struct CMUnitTest *tests, size_t count, CMFixtureFunction start,
           CMFixtureFunction stop, const char *pattern) {
    if (pattern) cmocka_set_test_filter(pattern);
    return _cmocka_run_group_tests(store, tests, count, start, stop);
}
