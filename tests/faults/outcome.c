/* SPDX-License-Identifier: Apache-2.0 */
/* See outcome.h. */
#include "outcome.h"

#include <poll.h>

void note_outcome(async_outcome *o, hf_result result, hf_hold *hold) {
    o->result = result;
    o->hold = hold;
    atomic_fetch_add(&o->calls, 1);
}

void on_acquired(hf_result result, hf_hold *hold, void *arg) {
    note_outcome(arg, result, hold);
}

void on_released(hf_result result, void *arg) {
    note_outcome(arg, result, NULL);
}

void begin_acquire(hf_client *client, const hf_options *options, async_outcome *o) {
    *o = (async_outcome){.hold = NULL};
    T_HF(HF_OK, hf_acquire_async(client, LOCK, options, on_acquired, o));
}

void begin_release(hf_hold *hold, async_outcome *o) {
    *o = (async_outcome){.hold = NULL};
    T_HF(HF_OK, hf_release_async(hold, on_released, o));
}

hf_hold *await_outcome(async_outcome *o, hf_result result) {
    UNTIL(atomic_load(&o->calls) > 0);
    if (o->result != result)
        t_fail("the callback got %s, not %s", hf_result_name(o->result), hf_result_name(result));
    assert_int_equal(atomic_load(&o->calls), 1);
    return o->hold;
}

/* ---- Client loop ----------------------------------------------------------------------------- */

hf_client *open_loop(bed *b, const char *url, hf_client_options options) {
    options.flags = HF_NO_THREAD;
    return bed_open(b, url, &options);
}

void run_loop(hf_client *client) {
    struct pollfd fd = {.fd = hf_fd(client), .events = POLLIN};
    if (poll(&fd, 1, 10) > 0) T_HF(HF_OK, hf_dispatch(client));
}

hf_hold *run_loop_until_outcome(hf_client *client, async_outcome *o, hf_result result) {
    RUN_LOOP_UNTIL(client, atomic_load(&o->calls) > 0);
    return await_outcome(o, result);
}

/* Runs the loop until the client has nothing more to send. */
static void run_loop_until_idle(hf_client *client) {
    uint64_t before;
    do {
        before = stats_of(client).commands;
        for (int i = 0; i < 3; i++) run_loop(client);
    } while (stats_of(client).commands != before);
}

void enqueue_in_loop(bed *b, hf_client *client, const hf_options *options, async_outcome *o) {
    int64_t before = subscriber_count(b);
    begin_acquire(client, options, o);
    RUN_LOOP_UNTIL(client, queue_length(b) == 1 && subscriber_count(b) == before + 1);
    run_loop_until_idle(client);
}
