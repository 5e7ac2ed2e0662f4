/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared by t_alloc, t_sys and t_files: counts calls over all threads, fails the n-th or all from
 * it on, and runs a function once for every call it makes. Calls of the test library itself are
 * neither counted nor failed (t_exempt.h).
 */
#ifndef T_INJECT_H
#define T_INJECT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

typedef void t_inject_fn(void *arg);

struct t_inject {
    const char *what; /* "allocation" */
    atomic_llong calls, fail_at, failed;
    atomic_bool forever, running;
};

/* Count a call; true if it must fail. */
bool t_inject_hit(struct t_inject *inject);

/* Count from 0 again, and fail call n (0: none), or all from n on. */
void t_inject_arm(struct t_inject *inject, int64_t n, bool forever);

int64_t t_inject_each(struct t_inject *inject, t_inject_fn *fn, void *arg, int64_t max);

#endif
