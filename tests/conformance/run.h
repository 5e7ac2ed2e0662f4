/* SPDX-License-Identifier: Apache-2.0 */
/* How the cases run: one after another (run.c), or each many times (tests/oom). */
#ifndef CF_RUN_H
#define CF_RUN_H

#include "conformance.h"

/* Run the cases whose name matches the pattern, or all if it is NULL. Returns main's exit code. */
int cf_run(const char *store, const struct CMUnitTest *tests, size_t count, CMFixtureFunction start,
           CMFixtureFunction stop, const char *pattern);

#endif
