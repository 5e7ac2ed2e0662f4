/* SPDX-License-Identifier: Apache-2.0 */
/* Reports what happens in a run: as JSON events, to hooks, and as verbose messages. */
#ifndef CLI_RUN_NOTIFY_H
#define CLI_RUN_NOTIFY_H

#include <stdint.h>

#include "holdfast.h"
#include "run/hooks.h"
#include "run/json_events.h"
#include "run/wait_progress.h"

typedef struct notifier {
    events events;
    hooks hooks;
    const char *on_wait, *on_acquire, *on_lost; /* the hooks; NULL: none */
} notifier;

/* True if the start of a wait must be reported. */
bool notify_wants_waits(const notifier *n);

/* Reports that the wait begins. Inspects the lock if the holder must be shown. */
void notify_waiting(notifier *n, const wait_progress *w);
void notify_acquired(notifier *n, const hf_hold *hold, int names, int64_t waited_ms);
void notify_lost(notifier *n, const char *why);

#endif
