/* SPDX-License-Identifier: Apache-2.0 */
/* Non-blocking calls, and clients without threads that the test runs itself; built on waiters.h. */
#ifndef HF_FAULT_OUTCOME_H
#define HF_FAULT_OUTCOME_H

#include "waiters.h"

/* The result that a callback was given. Must be static in a test: the callback may run after the
   test has failed. */
typedef struct async_outcome {
    atomic_int calls;
    hf_result result;
    hf_hold *hold;
} async_outcome;

void note_outcome(async_outcome *o, hf_result result, hf_hold *hold);

/* Callbacks that take an outcome. */
void on_acquired(hf_result result, hf_hold *hold, void *arg);
void on_released(hf_result result, void *arg);

/* Begin to acquire LOCK, or to release a hold. */
void begin_acquire(hf_client *client, const hf_options *options, async_outcome *o);
void begin_release(hf_hold *hold, async_outcome *o);

/* Waits for the callback, which must run once and with this result. Returns the hold. */
hf_hold *await_outcome(async_outcome *o, hf_result result);

/* ---- Client loop ----------------------------------------------------------------------------- */

hf_client *open_loop(bed *b, const char *url, hf_client_options options);

/* Dispatches the events that are there, or that arrive within a moment. */
void run_loop(hf_client *client);

#define RUN_LOOP_UNTIL(client, condition) T_WAIT_UNTIL((run_loop(client), (condition)), SOON_MS)

hf_hold *run_loop_until_outcome(hf_client *client, async_outcome *o, hf_result result);

/* Begins to acquire LOCK. Returns when the client is first in the queue and subscribed. */
void enqueue_in_loop(bed *b, hf_client *client, const hf_options *options, async_outcome *o);

#endif
