/*
 * Calls that do not block, and clients without threads, whose loop is the test's; on top of
 * waiters.h.
 */
#ifndef HF_FAULT_OUTCOME_H
#define HF_FAULT_OUTCOME_H

#include "waiters.h"

/* What a callback was told. Static in a test: it may be told after the test has failed. */
typedef struct outcome {
    atomic_int calls;
    hf_result result;
    hf_hold *hold;
} outcome;

void note(outcome *o, hf_result result, hf_hold *hold);

/* Callbacks, with an outcome. */
void acquired(hf_result result, hf_hold *hold, void *arg);
void released(hf_result result, void *arg);

/* Begin to acquire LOCK, or to release. */
void begin(hf_client *client, const hf_options *options, outcome *o);
void begin_release(hf_hold *hold, outcome *o);

/* Wait until it is told, which must be so and once. Returns the hold. */
hf_hold *told(outcome *o, hf_result result);

/* ---- A loop of ours -------------------------------------------------------------------------- */

hf_client *open_loop(bed *b, const char *url, hf_client_options options);

/* Dispatch what there is, or comes within a moment. */
void turn(hf_client *client);

#define TURN_UNTIL(client, condition) T_WAIT_UNTIL((turn(client), (condition)), SOON_MS)

hf_hold *turn_and_told(hf_client *client, outcome *o, hf_result result);

/* Begin to acquire LOCK, as the first in line, and listening. */
void stand_in_loop(bed *b, hf_client *client, const hf_options *options, outcome *o);

#endif
