/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Acquire locks without blocking: the client has its own threads, which run callbacks.
 *
 *     async [URL]
 *
 * It acquires three locks at once. Each callback does some work, and the last one ends the program.
 */
#include <holdfast.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static int left, failed;

static void done(int ok) {
    pthread_mutex_lock(&mutex);
    left--;
    failed |= !ok;
    pthread_cond_signal(&changed);
    pthread_mutex_unlock(&mutex);
}

/* Callbacks run one after another, so a callback should return soon. */
static void on_acquired(hf_result result, hf_hold *hold, void *arg) {
    const char *name = arg;
    if (result != HF_OK) {
        fprintf(stderr, "%s: %s (%s)\n", name, hf_error_detail(), hf_result_name(result));
        done(0);
        return;
    }
    printf("%s is held, token %" PRIu64 "\n", name, hf_fence(hold));
    int held = hf_held(hold); /* check before work that must not be done twice */
    done(hf_release(hold) == HF_OK && held);
}

static int start_acquire(hf_client *client, const char *name) {
    hf_options wait = {.wait_ms = 5000};
    left++;
    if (hf_acquire_async(client, name, &wait, on_acquired, (void *)name) == HF_OK) return 1;
    fprintf(stderr, "cannot acquire %s: %s\n", name, hf_error_detail());
    left--;
    return 0;
}

int main(int argc, char **argv) {
    hf_client *client;
    if (hf_open(argc > 1 ? argv[1] : "memory:", NULL, &client) != HF_OK) {
        fprintf(stderr, "cannot open the store: %s\n", hf_error_detail());
        return 1;
    }
    pthread_mutex_lock(&mutex);
    int started = start_acquire(client, "orders:1");
    started &= start_acquire(client, "orders:2");
    started &= start_acquire(client, "orders:3");
    while (left) pthread_cond_wait(&changed, &mutex);
    pthread_mutex_unlock(&mutex);
    hf_close(client);
    return started && !failed ? 0 : 1;
}
