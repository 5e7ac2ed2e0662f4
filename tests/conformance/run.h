/* How the cases are run: one after another (run.c), or each many times over (tests/oom). */
#ifndef CF_RUN_H
#define CF_RUN_H

#include "conformance.h"

/* Those whose name matches, all if the pattern is NULL. What main returns. */
int cf_run(const char *store, const struct CMUnitTest *tests, size_t count, CMFixtureFunction start,
           CMFixtureFunction stop, const char *pattern);

#endif
