/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A client in your own event loop, here poll(2): it starts no threads, and nothing blocks.
 *
 *     loop_poll [URL [NAME]]
 *
 * It acquires a lock, releases it, and ends. loop_uv.c and loop_event.c also do some work.
 */
#include <holdfast.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>

static int running = 1, status = 1;

static void fail(const char *what) {
    fprintf(stderr, "%s: %s\n", what, hf_error_detail());
    running = 0;
}

static void on_released(hf_result result, void *arg) {
    (void)arg;
    printf("released: %s\n", hf_result_name(result));
    status = result == HF_OK ? 0 : 1;
    running = 0;
}

static void on_acquired(hf_result result, hf_hold *hold, void *arg) {
    (void)arg;
    if (result != HF_OK) {
        fprintf(stderr, "not acquired: %s (%s)\n", hf_error_detail(), hf_result_name(result));
        running = 0;
        return;
    }
    printf("held, token %" PRIu64 "\n", hf_fence(hold));
    if (hf_release_async(hold, on_released, NULL) != HF_OK) fail("cannot release");
}

int main(int argc, char **argv) {
    hf_client *client;
    hf_client_options options = {.flags = HF_NO_THREAD};
    if (hf_open(argc > 1 ? argv[1] : "memory:", &options, &client) != HF_OK) {
        fprintf(stderr, "cannot open the store: %s\n", hf_error_detail());
        return 1;
    }
    hf_options wait = {.wait_ms = 5000};
    const char *name = argc > 2 ? argv[2] : "example";
    if (hf_acquire_async(client, name, &wait, on_acquired, NULL) != HF_OK) fail("cannot acquire");
    while (running) {
        struct pollfd fd = {.fd = hf_fd(client), .events = POLLIN};
        if (poll(&fd, 1, -1) > 0 && hf_dispatch(client) != HF_OK) fail("cannot dispatch");
    }
    hf_close(client);
    return status;
}
