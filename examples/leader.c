/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One of several candidates leads, and publishes its address. An observer is notified of changes.
 *
 *     leader [URL [NAME]]         leader redis://localhost scheduler
 */
#include <holdfast.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

typedef struct watcher {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    int changes;
} watcher;

/* Runs on the client's callback thread. It may take long, and may call the library. */
static void on_change(const hf_leader_info *leader, void *arg) {
    watcher *w = arg;
    if (leader)
        printf("  observed: %s leads\n", leader->value);
    else
        printf("  observed: nobody leads\n");
    pthread_mutex_lock(&w->mutex);
    w->changes++;
    pthread_cond_signal(&w->changed);
    pthread_mutex_unlock(&w->mutex);
}

/* This program waits so that it can show each change. A real leader does not wait for observers. */
static int await_changes(watcher *w, int count) {
    struct timespec until;
    int error = 0;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += 10;
    pthread_mutex_lock(&w->mutex);
    while (w->changes < count && !error)
        error = pthread_cond_timedwait(&w->changed, &w->mutex, &until);
    pthread_mutex_unlock(&w->mutex);
    return error;
}

/* One term as the leader: every write in it must carry the token. */
static int lead(hf_client *client, const char *name, const char *address, watcher *w, int change) {
    hf_hold *hold;
    hf_options options = {.wait_ms = 5000};
    if (hf_campaign(client, name, address, strlen(address), &options, &hold) != HF_OK) {
        fprintf(stderr, "leader: %s\n", hf_error_detail());
        return 1;
    }
    printf("%s leads, with token %" PRIu64 "\n", address, hf_fence(hold));
    int late = await_changes(w, change);
    /* Resign. HF_LOST would mean that another may have led meanwhile. */
    return hf_release(hold) != HF_OK || late || await_changes(w, change + 1);
}

static int run(hf_client *client, const char *name) {
    watcher w = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0};
    hf_observer *observer;
    if (hf_observe(client, name, on_change, &w, &observer) != HF_OK) return 1;
    int status = await_changes(&w, 1) || lead(client, name, "host-1:8080", &w, 2) ||
                 lead(client, name, "host-2:8080", &w, 4);
    hf_unobserve(observer); /* no callback runs any more */
    return status;
}

int main(int argc, char **argv) {
    hf_client *client;
    if (hf_open(argc > 1 ? argv[1] : "memory:", NULL, &client) != HF_OK) {
        fprintf(stderr, "leader: cannot open: %s\n", hf_error_detail());
        return 1;
    }
    int status = run(client, argc > 2 ? argv[2] : "scheduler");
    hf_close(client);
    return status;
}
