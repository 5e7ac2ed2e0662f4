/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes allocations fail (F45): in the code under test and, if hiredis is linked statically, in
 * hiredis.
 *
 * A test that uses this names hf_testalloc among its LIBS; the linker then redirects malloc and its
 * variants to this code. Only statically linked code is reached. Calls of cmocka and libc are not;
 * but getaddrinfo, open_memstream and fopen fail as if their own allocations had failed.
 *
 * Calls are counted over all threads since the last fail_at or reset; the first is 1. Put a test's
 * own allocations between t_exempt_begin and t_exempt_end.
 */
#ifndef T_ALLOC_H
#define T_ALLOC_H

#include <stdbool.h>
#include <stdint.h>

#include "t_inject.h"

/* Fail call n, counted from now. With `forever`, fail all later calls too. */
void t_alloc_fail_at(int64_t n, bool forever);
void t_alloc_reset(void); /* no call fails any more; call it in a teardown */
int64_t t_alloc_count(void);
int64_t t_alloc_failed(void);

/*
 * Run fn once without failures. Then fail call 1, call 2, … in one run each, until a run meets no
 * failure. Then repeat this with all calls from n on failing. fn must leave nothing behind. It must
 * check that each operation either worked or returned HF_NOMEM. The test fails beyond max calls (0:
 * 100,000). Returns the number of calls in the run without failures.
 *
 * With threads, the n-th call differs from run to run. But each run except the last meets a
 * failure.
 */
int64_t t_alloc_each(t_inject_fn *fn, void *arg, int64_t max);

#endif
