/* What happens in a run is told to whoever wants to know: to programs as events, to hooks. */
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

/* Somebody wants to hear of the wait before it ends. */
bool notify_wants_waits(const notifier *n);

/* We have to wait. Looks at who is in the way, if that is to be said. */
void notify_waiting(notifier *n, const wait_progress *w);
void notify_acquired(notifier *n, const hf_hold *hold, int names, int64_t waited_ms);
void notify_lost(notifier *n, const char *why);

#endif
