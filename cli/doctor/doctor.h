/* SPDX-License-Identifier: Apache-2.0 */
/* `holdfast doctor`: checks whether a store is fit for locks, and says what to change. */
#ifndef CLI_DOCTOR_DOCTOR_H
#define CLI_DOCTOR_DOCTOR_H

#include "base/url.h"
#include "doctor/findings.h"

int doctor_main(int argc, char **argv);

/* The checks of each kind of store. False if the store cannot be used at all. */
bool doctor_redis(findings *all, const hf__url *url);
bool doctor_file(findings *all, const hf__url *url);
void doctor_quorum(findings *all, const hf__url *url);

/* Adds a finding about latencies in microseconds. Sorts `us`. */
void doctor_latency(findings *all, int64_t *us, size_t count, int64_t lease_ms, const char *what);

#endif
