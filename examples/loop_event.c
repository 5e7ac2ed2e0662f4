/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A client in libevent's event loop.
 *
 *     loop_event [URL [NAME]]
 */
#include <event2/event.h>
#include <holdfast.h>
#include <inttypes.h>
#include <stdio.h>

typedef struct app {
    struct event_base *base;
    struct event *watch, *work;
    hf_client *client;
    hf_hold *hold;
    int status;
} app;

static void fail(app *a, const char *what) {
    fprintf(stderr, "%s: %s\n", what, hf_error_detail());
    event_base_loopbreak(a->base);
}

static void on_released(hf_result result, void *arg) {
    app *a = arg;
    printf("released: %s\n", hf_result_name(result));
    a->status = result == HF_OK ? 0 : 1;
    event_base_loopbreak(a->base);
}

static void on_work_done(evutil_socket_t fd, short events, void *arg) {
    app *a = arg;
    (void)fd;
    (void)events;
    if (!hf_held(a->hold)) fprintf(stderr, "lost while working\n"); /* the release is HF_LOST */
    if (hf_release_async(a->hold, on_released, a) != HF_OK) fail(a, "cannot release");
}

static void on_acquired(hf_result result, hf_hold *hold, void *arg) {
    app *a = arg;
    if (result != HF_OK) {
        fprintf(stderr, "not acquired: %s (%s)\n", hf_error_detail(), hf_result_name(result));
        event_base_loopbreak(a->base);
        return;
    }
    printf("held, token %" PRIu64 "\n", hf_fence(hold));
    a->hold = hold;
    evtimer_add(a->work, &(struct timeval){.tv_usec = 20000}); /* the loop continues, and renews */
}

static void on_readable(evutil_socket_t fd, short events, void *arg) {
    app *a = arg;
    (void)fd;
    (void)events;
    if (hf_dispatch(a->client) != HF_OK) fail(a, "cannot dispatch");
}

int main(int argc, char **argv) {
    app a = {.status = 1};
    hf_client_options options = {.flags = HF_NO_THREAD};
    if (hf_open(argc > 1 ? argv[1] : "memory:", &options, &a.client) != HF_OK) {
        fprintf(stderr, "cannot open the store: %s\n", hf_error_detail());
        return 1;
    }
    a.base = event_base_new();
    a.watch = event_new(a.base, hf_fd(a.client), EV_READ | EV_PERSIST, on_readable, &a);
    a.work = evtimer_new(a.base, on_work_done, &a);
    event_add(a.watch, NULL);
    hf_options wait = {.wait_ms = 5000};
    const char *name = argc > 2 ? argv[2] : "example";
    if (hf_acquire_async(a.client, name, &wait, on_acquired, &a) == HF_OK)
        event_base_dispatch(a.base);
    else
        fail(&a, "cannot acquire");
    event_free(a.work);
    event_free(a.watch);
    event_base_free(a.base);
    hf_close(a.client);
    return a.status;
}
