/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A latch: several parts work in parallel, and one thread continues when all of them are done.
 *
 *     latch [URL [NAME]]          latch redis://localhost import:2026-11-16
 */
#include <holdfast.h>
#include <pthread.h>
#include <stdio.h>

#define PARTS 3

typedef struct part {
    hf_client *client;
    const char *name;
} part;

/* A process on another machine would do the same after its part. */
static void *work(void *arg) {
    const part *p = arg;
    uint32_t left;
    if (hf_latch_count_down(p->client, p->name, 1, &left) != HF_OK)
        fprintf(stderr, "latch: cannot count down: %s\n", hf_error_detail());
    else
        printf("a part is done, %u left\n", left);
    return NULL;
}

static int run(hf_client *client, const char *name) {
    part p = {client, name};
    pthread_t threads[PARTS];
    if (hf_latch_set(client, name, PARTS) != HF_OK) return 1; /* before the parts begin */
    hf_result result = hf_latch_wait(client, name, NULL);
    printf("before the parts begin, hf_latch_wait returns %s\n", hf_result_name(result));
    for (int i = 0; i < PARTS; i++)
        if (pthread_create(&threads[i], NULL, work, &p) != 0) return 1;
    result = hf_latch_wait(client, name, &(hf_options){.wait_ms = 10000});
    for (int i = 0; i < PARTS; i++) pthread_join(threads[i], NULL);
    if (result != HF_OK) {
        fprintf(stderr, "latch: %s\n", hf_error_detail());
        return 1;
    }
    printf("all parts are done\n");
    return 0;
}

int main(int argc, char **argv) {
    hf_client *client;
    if (hf_open(argc > 1 ? argv[1] : "memory:", NULL, &client) != HF_OK) {
        fprintf(stderr, "latch: cannot open: %s\n", hf_error_detail());
        return 1;
    }
    int status = run(client, argc > 2 ? argv[2] : "parts");
    hf_close(client);
    return status;
}
