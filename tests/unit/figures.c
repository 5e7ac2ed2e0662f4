/* SPDX-License-Identifier: Apache-2.0 */
/* B29: the cost of 10,000 locks held by one client. The figure is printed, the counters are
   checked. */
#include "t.h"

#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>

#include "client/hold.h"
#include "core/core_internal.h"

enum { HOLDS = 10000 };

static hf_hold *holds[HOLDS];

static size_t in_use(void) {
    return mallinfo2().uordblks; /* 0 with a sanitizer, which has its own heap */
}

static hf_stats stats_of(hf_client *client) {
    hf_stats stats;
    T_HF(HF_OK, hf_stats_get(client, &stats));
    return stats;
}

static void test_B29_ten_thousand_holds(void **state) {
    (void)state;
    hf_client *client;
    char name[32];
    T_HF(HF_OK, hf_open("memory:figures", NULL, &client));
    size_t before = in_use();
    for (int i = 0; i < HOLDS; i++) {
        snprintf(name, sizeof name, "lock-%d", i);
        T_HF(HF_OK, hf_try_lock(client, name, &holds[i]));
    }
    size_t each = (in_use() - before) / HOLDS;
    print_message("%zu bytes per held lock, with its part in the store (entry %zu, ownership %zu, "
                  "handle %zu)\n",
                  each, sizeof(hf__entry), sizeof(hf__ownership), sizeof(hf_hold));
    assert_int_equal(stats_of(client).held, HOLDS);
    for (int i = 0; i < HOLDS; i++) T_HF(HF_OK, hf_release(holds[i]));
    hf_stats stats = stats_of(client);
    assert_int_equal(stats.held, 0);
    assert_int_equal(stats.acquired, HOLDS);
    assert_int_equal(stats.released, HOLDS);
    assert_int_equal(stats.lost, 0);
    hf_close(client);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_B29_ten_thousand_holds)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
