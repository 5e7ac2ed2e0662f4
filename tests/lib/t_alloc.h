/*
 * Allocations that fail (F45), in the code under test and, where there is a static one, hiredis.
 *
 * A test that uses this names hf_testalloc among its LIBS: the linker then leads malloc and its kin
 * here. Only what is linked statically is reached; cmocka and libc's own calls are not, but
 * getaddrinfo, open_memstream and fopen fail as if theirs had.
 *
 * Calls are counted over all threads since the last fail_at or reset, the first being 1. Memory
 * that the test itself takes meanwhile: between t_exempt_begin and t_exempt_end.
 */
#ifndef T_ALLOC_H
#define T_ALLOC_H

#include <stdbool.h>
#include <stdint.h>

#include "t_inject.h"

/* Fail call n, counted from now; with `forever` all those after it too. */
void t_alloc_fail_at(int64_t n, bool forever);
void t_alloc_reset(void); /* none fails; call it in a teardown */
int64_t t_alloc_count(void);
int64_t t_alloc_failed(void);

/*
 * Run fn once without failures; then with call 1 failing, call 2, … until it runs without meeting
 * one; then the same with all from that call on failing. fn must leave nothing behind, and check
 * for itself that an operation either worked or said HF_NOMEM. The test fails beyond max calls (0:
 * 100,000). Returns the number of calls in the run without failures.
 *
 * With threads the n-th call is not the same one in every run: what is sure is that each run but
 * the last met a failure.
 */
int64_t t_alloc_each(t_inject_fn *fn, void *arg, int64_t max);

#endif
