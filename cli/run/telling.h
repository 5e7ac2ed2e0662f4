/* What happens in a run is told to whoever wants to know: to programs as events, to hooks. */
#ifndef CLI_RUN_TELLING_H
#define CLI_RUN_TELLING_H

#include <stdint.h>

#include "holdfast.h"
#include "run/events.h"
#include "run/hooks.h"
#include "run/waiting.h"

typedef struct telling {
    events events;
    hooks hooks;
    const char *on_wait, *on_acquire, *on_lost; /* the hooks; NULL: none */
} telling;

/* Somebody wants to hear of the wait before it ends. */
bool telling_of_waits(const telling *t);

/* We have to wait. Looks at who is in the way, if that is to be said. */
void tell_waiting(telling *t, const waiting *w);
void tell_acquired(telling *t, const hf_hold *hold, int names, int64_t waited_ms);
void tell_lost(telling *t, const char *why);

#endif
