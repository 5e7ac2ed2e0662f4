/* `holdfast doctor`: whether a store is fit for locks, and what to change. */
#ifndef CLI_DOCTOR_DOCTOR_H
#define CLI_DOCTOR_DOCTOR_H

#include "base/url.h"
#include "doctor/findings.h"

int doctor_main(int argc, char **argv);

/* What each kind of store is asked, as far as that goes. False: it is not to be had at all. */
bool doctor_redis(findings *all, const hf__url *url);
bool doctor_file(findings *all, const hf__url *url);
void doctor_quorum(findings *all, const hf__url *url);

/* Count spans in; `us` is sorted by it. */
void doctor_latency(findings *all, int64_t *us, size_t count, int64_t lease_ms, const char *what);

#endif
