/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lock two accounts together, in any order. Two transfers in opposite directions cannot deadlock,
 * and each resource gets the token of its own lock.
 *
 *     transfer [URL [FROM TO]]        transfer redis://localhost alice bob
 */
#include <holdfast.h>
#include <inttypes.h>
#include <stdio.h>

static int transfer(hf_client *client, const char *from, const char *to) {
    const hf_request accounts[] = {{.name = from, .kind = HF_WRITE},
                                   {.name = to, .kind = HF_WRITE},
                                   {.name = "rates", .kind = HF_READ}};
    hf_hold *hold;
    hf_result result = hf_acquire_all(client, accounts, 3, &(hf_options){.wait_ms = 5000}, &hold);
    if (result != HF_OK) {
        fprintf(stderr, "transfer: %s: %s\n", hf_result_name(result), hf_error_detail());
        return 1;
    }
    printf("%s is written with token %" PRIu64 "\n", from, hf_fence_of(hold, 0));
    printf("%s is written with token %" PRIu64 "\n", to, hf_fence_of(hold, 1));
    printf("%s\n", hf_held(hold) ? "all of it was held" : "some of it was lost");
    return hf_release(hold) != HF_OK;
}

int main(int argc, char **argv) {
    hf_client *client;
    const char *from = argc > 3 ? argv[2] : "alice", *to = argc > 3 ? argv[3] : "bob";
    if (hf_open(argc > 1 ? argv[1] : "memory:", NULL, &client) != HF_OK) {
        fprintf(stderr, "transfer: cannot open: %s\n", hf_error_detail());
        return 1;
    }
    int status = transfer(client, from, to);
    if (!status) status = transfer(client, to, from);
    hf_close(client);
    return status;
}
