/* SPDX-License-Identifier: Apache-2.0 */
#include "hold/acquire_wait.h"

#include "common/exit_codes.h"
#include "common/message.h"
#include "common/show.h"
#include "common/signals.h"

static int fail_acquire(const store *s, const char *name, hf_result r, int conflict_code) {
    char status[SHOW_TEXT];
    show_command(status, sizeof status, "status", s, name);
    if (r == HF_BUSY)
        return fail(conflict_code,
                    "%s is held by another, or others wait for it; to see them, run: %s", name,
                    status);
    if (r == HF_TIMEOUT)
        return fail(conflict_code, "%s was not free in time; to see who holds it, run: %s", name,
                    status);
    return fail(exit_code_of(r), "cannot lock %s: %s", *name ? name : "''", hf_error_detail());
}

int acquire_wait(hf_client *client, const store *s, const char *name, const hf_options *options,
                 int conflict_code, hf_hold **hold) {
    hf_options o = *options;
    signals_begin();
    o.cancel = hf_cancel_new();
    if (!o.cancel) return fail(EXIT_SYSTEM, "out of memory or descriptors");
    signals_cancel(o.cancel);
    hf_result r = hf_acquire(client, name, &o, hold);
    int caught = signals_block();
    hf_cancel_free(o.cancel);
    if (caught && !r) (void)hf_release(*hold);
    if (caught) return EXIT_SIGNAL + caught;
    return r ? fail_acquire(s, name, r, conflict_code) : 0;
}
