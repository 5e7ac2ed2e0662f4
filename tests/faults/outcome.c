/* See outcome.h. */
#include "outcome.h"

#include <poll.h>

void note(outcome *o, hf_result result, hf_hold *hold) {
    o->result = result;
    o->hold = hold;
    atomic_fetch_add(&o->calls, 1);
}

void acquired(hf_result result, hf_hold *hold, void *arg) {
    note(arg, result, hold);
}

void released(hf_result result, void *arg) {
    note(arg, result, NULL);
}

void begin(hf_client *client, const hf_options *options, outcome *o) {
    *o = (outcome){.hold = NULL};
    T_HF(HF_OK, hf_acquire_async(client, LOCK, options, acquired, o));
}

void begin_release(hf_hold *hold, outcome *o) {
    *o = (outcome){.hold = NULL};
    T_HF(HF_OK, hf_release_async(hold, released, o));
}

hf_hold *told(outcome *o, hf_result result) {
    UNTIL(atomic_load(&o->calls) > 0);
    if (o->result != result)
        t_fail("told %s, not %s", hf_result_name(o->result), hf_result_name(result));
    assert_int_equal(atomic_load(&o->calls), 1);
    return o->hold;
}

/* ---- Client loop ----------------------------------------------------------------------------- */

hf_client *open_loop(bed *b, const char *url, hf_client_options options) {
    options.flags = HF_NO_THREAD;
    return bed_open(b, url, &options);
}

void turn(hf_client *client) {
    struct pollfd fd = {.fd = hf_fd(client), .events = POLLIN};
    if (poll(&fd, 1, 10) > 0) T_HF(HF_OK, hf_dispatch(client));
}

hf_hold *turn_and_told(hf_client *client, outcome *o, hf_result result) {
    TURN_UNTIL(client, atomic_load(&o->calls) > 0);
    return told(o, result);
}

/* Runs the loop until the client has nothing more to send. */
static void turn_until_quiet(hf_client *client) {
    uint64_t before;
    do {
        before = stats_of(client).commands;
        for (int i = 0; i < 3; i++) turn(client);
    } while (stats_of(client).commands != before);
}

void stand_in_loop(bed *b, hf_client *client, const hf_options *options, outcome *o) {
    int64_t before = listening(b);
    begin(client, options, o);
    TURN_UNTIL(client, in_line(b) == 1 && listening(b) == before + 1);
    turn_until_quiet(client);
}
