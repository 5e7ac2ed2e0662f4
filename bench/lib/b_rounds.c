/* SPDX-License-Identifier: Apache-2.0 */
#include "b_rounds.h"

#include "b_time.h"

#define WARM_UP 2

void b_rounds_run(b_side *sides, size_t count, size_t rounds) {
    for (size_t round = 0; round < WARM_UP + rounds; round++) {
        if (round == WARM_UP)
            for (size_t i = 0; i < count; i++) b_series_clear(&sides[i].each);
        for (size_t i = 0; i < count; i++) {
            b_side *side = &sides[(round + i) % count];
            double figure = side->round(side->arg, &side->each);
            if (round >= WARM_UP) b_series_add(&side->rounds, figure);
        }
    }
}

void b_rounds_fini(b_side *sides, size_t count) {
    for (size_t i = 0; i < count; i++) {
        b_series_fini(&sides[i].rounds);
        b_series_fini(&sides[i].each);
    }
}

b_ratio b_rounds_ratio(const b_side *ours, const b_side *theirs) {
    b_series ratios = {0};
    for (size_t i = 0; i < ours->rounds.count; i++)
        b_series_add(&ratios, ours->rounds.values[i] / theirs->rounds.values[i]);
    b_ratio row = {.ours = b_series_median(&ours->rounds),
                   .theirs = b_series_median(&theirs->rounds),
                   .low = b_series_quantile(&ratios, 0.25),
                   .high = b_series_quantile(&ratios, 0.75),
                   .ours_p50 = b_series_median(&ours->each),
                   .ours_p99 = b_series_quantile(&ours->each, 0.99),
                   .theirs_p50 = b_series_median(&theirs->each),
                   .theirs_p99 = b_series_quantile(&theirs->each, 0.99)};
    b_series_fini(&ratios);
    return row;
}

double b_repeat(b_repeat_fn *fn, void *arg, size_t count, b_series *each) {
    int64_t began = b_now(), before = began;
    for (size_t i = 0; i < count; i++) {
        fn(arg);
        if (!each) continue;
        int64_t now = b_now();
        b_series_add(each, (double)(now - before));
        before = now;
    }
    return (double)(b_now() - began) / (double)count;
}
