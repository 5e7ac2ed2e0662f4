/* SPDX-License-Identifier: Apache-2.0 */
/* Cancels: a flag, and a descriptor that becomes readable when it is fired. */
#include <stdlib.h>

#include "client/client.h"

hf_cancel *hf_cancel_new(void) {
    hf_cancel *cancel = malloc(sizeof *cancel);
    if (!cancel) return NULL;
    atomic_init(&cancel->fired, false);
    cancel->fd = hf__event_new();
    if (cancel->fd >= 0) return cancel;
    free(cancel);
    return NULL;
}

/* The descriptor is never read, so it stays readable, and serves any number of waits. */
void hf_cancel_fire(hf_cancel *cancel) {
    if (!cancel) return;
    atomic_store(&cancel->fired, true);
    hf__event_set(cancel->fd);
}

void hf_cancel_free(hf_cancel *cancel) {
    if (!cancel) return;
    hf__event_free(cancel->fd);
    free(cancel);
}
