/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Readers share a lock and a writer has it alone. One reader may become the writer without
 * releasing the lock.
 *
 *     readers [URL [NAME]]        readers redis://localhost prices
 */
#include <holdfast.h>
#include <inttypes.h>
#include <stdio.h>

static hf_hold *take(hf_client *client, const char *name, uint32_t kind) {
    hf_hold *hold = NULL;
    /* Each hold has its own owner, as if each belonged to a thread of its own. */
    static uint64_t last_owner;
    hf_options options = {.wait_ms = 5000, .kind = kind};
    options.owner = ++last_owner;
    if (hf_acquire(client, name, &options, &hold) != HF_OK)
        fprintf(stderr, "readers: cannot acquire: %s\n", hf_error_detail());
    return hold;
}

/* Read, decide, and write only if necessary. No other client can write in between. */
static int refresh(hf_client *client, const char *name) {
    hf_hold *reader = take(client, name, HF_READ);
    hf_hold *updater = take(client, name, HF_UPGRADABLE);
    if (!reader || !updater) return 1;
    printf("two readers hold %s\n", name);

    hf_result result = hf_upgrade(updater, 0);
    printf("while another reader holds it, an upgrade returns %s\n", hf_result_name(result));
    if (hf_release(reader) != HF_OK) return 1;
    if (hf_upgrade(updater, 5000) != HF_OK) return 1;
    printf("the only holder writes, with token %" PRIu64 "\n", hf_fence(updater));

    if (hf_downgrade(updater) != HF_OK) return 1;
    reader = take(client, name, HF_READ);
    if (!reader) return 1;
    printf("after the downgrade, others can read again\n");
    return hf_release(reader) != HF_OK || hf_release(updater) != HF_OK;
}

int main(int argc, char **argv) {
    hf_client *client;
    if (hf_open(argc > 1 ? argv[1] : "memory:", NULL, &client) != HF_OK) {
        fprintf(stderr, "readers: cannot open: %s\n", hf_error_detail());
        return 1;
    }
    int status = refresh(client, argc > 2 ? argv[2] : "prices");
    hf_close(client);
    return status;
}
