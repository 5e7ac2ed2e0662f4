/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A client in libuv's event loop.
 *
 *     loop_uv [URL [NAME]]
 */
#include <holdfast.h>
#include <inttypes.h>
#include <stdio.h>
#include <uv.h>

typedef struct uv_app {
    uv_poll_t watch;
    uv_timer_t work;
    hf_client *client;
    hf_hold *hold;
    int status;
} uv_app;

static void stop(uv_app *a) {
    uv_close((uv_handle_t *)&a->watch, NULL); /* the loop ends when both are closed */
    uv_close((uv_handle_t *)&a->work, NULL);
}

static void fail(uv_app *a, const char *what) {
    fprintf(stderr, "%s: %s\n", what, hf_error_detail());
    stop(a);
}

static void on_released(hf_result result, void *arg) {
    uv_app *a = arg;
    printf("released: %s\n", hf_result_name(result));
    a->status = result == HF_OK ? 0 : 1;
    stop(a);
}

static void on_work_done(uv_timer_t *timer) {
    uv_app *a = timer->data;
    if (!hf_held(a->hold)) fprintf(stderr, "lost while working\n"); /* the release is HF_LOST */
    if (hf_release_async(a->hold, on_released, a) != HF_OK) fail(a, "cannot release");
}

static void on_acquired(hf_result result, hf_hold *hold, void *arg) {
    uv_app *a = arg;
    if (result != HF_OK) {
        fprintf(stderr, "not acquired: %s (%s)\n", hf_error_detail(), hf_result_name(result));
        stop(a);
        return;
    }
    printf("held, token %" PRIu64 "\n", hf_fence(hold));
    a->hold = hold;
    uv_timer_start(&a->work, on_work_done, 20, 0); /* the loop continues, and renews */
}

static void on_readable(uv_poll_t *watch, int error, int events) {
    uv_app *a = watch->data;
    (void)events;
    if (error || hf_dispatch(a->client) != HF_OK) fail(a, "cannot dispatch");
}

int main(int argc, char **argv) {
    uv_app a = {.status = 1};
    hf_client_options options = {.flags = HF_NO_THREAD};
    if (hf_open(argc > 1 ? argv[1] : "memory:", &options, &a.client) != HF_OK) {
        fprintf(stderr, "cannot open the store: %s\n", hf_error_detail());
        return 1;
    }
    uv_loop_t *loop = uv_default_loop();
    uv_poll_init(loop, &a.watch, hf_fd(a.client));
    uv_timer_init(loop, &a.work);
    a.watch.data = a.work.data = &a;
    uv_poll_start(&a.watch, UV_READABLE, on_readable);
    hf_options wait = {.wait_ms = 5000};
    const char *name = argc > 2 ? argv[2] : "example";
    if (hf_acquire_async(a.client, name, &wait, on_acquired, &a) != HF_OK)
        fail(&a, "cannot acquire");
    uv_run(loop, UV_RUN_DEFAULT);
    uv_loop_close(loop);
    hf_close(a.client);
    return a.status;
}
