/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Permits limit the number of holders at the same time. They are granted in order of arrival.
 *
 *     permits [URL [NAME]]        permits redis://localhost downloads
 */
#include <holdfast.h>
#include <stdio.h>

#define CAPACITY 4

static hf_hold *take(hf_client *client, const char *name, uint32_t permits) {
    hf_hold *hold = NULL;
    hf_options options = {.kind = HF_PERMITS, .permits = permits, .capacity = CAPACITY};
    hf_result result = hf_acquire(client, name, &options, &hold);
    printf("%u of %d: %s\n", permits, CAPACITY, hf_result_name(result));
    return hold;
}

int main(int argc, char **argv) {
    const char *name = argc > 2 ? argv[2] : "downloads";
    hf_client *client;
    if (hf_open(argc > 1 ? argv[1] : "memory:", NULL, &client) != HF_OK) {
        fprintf(stderr, "permits: cannot open: %s\n", hf_error_detail());
        return 1;
    }
    hf_hold *large = take(client, name, 3), *small = take(client, name, 1);
    hf_hold *more = take(client, name, 1); /* HF_BUSY: all are in use */
    int failed = !large || !small || more;
    if (large) failed |= hf_release(large) != HF_OK;
    more = take(client, name, 1);
    failed |= !more;
    if (more) failed |= hf_release(more) != HF_OK;
    if (small) failed |= hf_release(small) != HF_OK;
    hf_close(client);
    return failed;
}
