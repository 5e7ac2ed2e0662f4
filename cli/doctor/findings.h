/* SPDX-License-Identifier: Apache-2.0 */
/* The findings of a check: what was found, what it means for locks, and what to change. */
#ifndef CLI_DOCTOR_FINDINGS_H
#define CLI_DOCTOR_FINDINGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum severity { LEVEL_OK, LEVEL_NOTE, LEVEL_WARNING, LEVEL_ERROR } severity;

#define FINDINGS_MAX  64
#define FINDING_BYTES 1024

typedef struct finding {
    severity level;
    const char *check;         /* a word: "version" */
    char found[FINDING_BYTES]; /* what was found */
    const char *means;         /* what it means for locks; NULL: nothing */
    const char *change;        /* what to do about it; NULL: nothing */
} finding;

/* Response times of the store. */
#define LATENCY_BUCKETS 24 /* powers of two, starting at 1 µs */

typedef struct latency_stats {
    uint32_t count, bucket[LATENCY_BUCKETS];
    int64_t least_us, median_us, p90_us, p99_us, most_us;
} latency_stats;

typedef struct findings {
    finding list[FINDINGS_MAX];
    size_t count;
    latency_stats latency; /* count 0: not measured */
} findings;

/* Adds a finding. `found` is a printf format; its arguments may contain any bytes. */
void findings_add(findings *all, severity level, const char *check, const char *means,
                  const char *change, const char *found, ...) __attribute__((format(printf, 6, 7)));

severity findings_worst(const findings *all);

/* Writes all findings to stdout: for people, wrapped and coloured on a terminal, or as one JSON
   object. False if stdout cannot be written. */
bool findings_show(const findings *all, const char *store);
bool findings_show_json(const findings *all, const char *store);

#endif
