/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Acquire a lock, print its token, release it.
 *
 *     first [URL [NAME]]        first redis://localhost orders:42
 */
#include <holdfast.h>
#include <inttypes.h>
#include <stdio.h>

static int fail(const char *what, hf_result result) {
    fprintf(stderr, "first: cannot %s: %s (%s)\n", what, hf_error_detail(), hf_result_name(result));
    return 1;
}

static int work_under_lock(hf_client *client, const char *name) {
    hf_hold *hold;
    hf_result result = hf_acquire(client, name, &(hf_options){.wait_ms = 5000}, &hold);
    if (result != HF_OK) return fail("acquire", result);

    printf("holding %s, token %" PRIu64 ", %" PRId64 " ms left unless renewed\n", name,
           hf_fence(hold), hf_remaining_ms(hold));

    result = hf_release(hold);
    if (result != HF_OK) return fail("release", result);
    return 0;
}

int main(int argc, char **argv) {
    const char *url = argc > 1 ? argv[1] : "memory:";
    const char *name = argc > 2 ? argv[2] : "orders:42";

    hf_client *client;
    hf_result result = hf_open(url, NULL, &client);
    if (result != HF_OK) return fail("open", result);

    int status = work_under_lock(client, name);
    hf_close(client);
    return status;
}
