/* Non-blocking calls, and clients without threads that the test runs itself; built on waiters.h. */
#ifndef HF_FAULT_OUTCOME_H
#define HF_FAULT_OUTCOME_H

#include "waiters.h"

/* The result that a callback was given. Must be static in a test: the callback may run after the
   test has failed. */
typedef struct outcome {
    atomic_int calls;
    hf_result result;
    hf_hold *hold;
} outcome;

void note(outcome *o, hf_result result, hf_hold *hold);

/* Callbacks that take an outcome. */
void acquired(hf_result result, hf_hold *hold, void *arg);
void released(hf_result result, void *arg);

/* Begin to acquire LOCK, or to release a hold. */
void begin(hf_client *client, const hf_options *options, outcome *o);
void begin_release(hf_hold *hold, outcome *o);

/* Waits for the callback, which must run once and with this result. Returns the hold. */
hf_hold *told(outcome *o, hf_result result);

/* ---- Client loop ----------------------------------------------------------------------------- */

hf_client *open_loop(bed *b, const char *url, hf_client_options options);

/* Dispatches the events that are there, or that arrive within a moment. */
void turn(hf_client *client);

#define TURN_UNTIL(client, condition) T_WAIT_UNTIL((turn(client), (condition)), SOON_MS)

hf_hold *turn_and_told(hf_client *client, outcome *o, hf_result result);

/* Begins to acquire LOCK. Returns when the client is first in the queue and subscribed. */
void stand_in_loop(bed *b, hf_client *client, const hf_options *options, outcome *o);

#endif
