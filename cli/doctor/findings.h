/* What an examination has found: a line for each thing, what it means for locks, what to change. */
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
    char found[FINDING_BYTES]; /* what is the case */
    const char *means;         /* for locks; NULL: nothing to say */
    const char *change;        /* what to do about it; NULL: nothing */
} finding;

/* How long the store took to answer. */
#define LATENCY_BUCKETS 24 /* powers of two, from 1 µs on */

typedef struct latency_stats {
    uint32_t count, bucket[LATENCY_BUCKETS];
    int64_t least_us, median_us, p90_us, p99_us, most_us;
} latency_stats;

typedef struct findings {
    finding list[FINDINGS_MAX];
    size_t count;
    latency_stats latency; /* count 0: not measured */
} findings;

/* Add one; `found` is a printf format, and foreign text in it may be anything. */
void findings_add(findings *all, severity level, const char *check, const char *means,
                  const char *change, const char *found, ...) __attribute__((format(printf, 6, 7)));

severity findings_worst(const findings *all);

/* Write all to the standard output: for people, as wide as the terminal is and with colours if
   it is one, or as one JSON object. False: it cannot be written. */
bool findings_show(const findings *all, const char *store);
bool findings_show_json(const findings *all, const char *store);

#endif
