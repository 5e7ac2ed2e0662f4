#include "run/telling.h"

#include <unistd.h>

#include "common/say.h"
#include "common/show.h"
#include "common/span.h"

bool telling_of_waits(const telling *t) {
    return t->on_wait || t->events.fd >= 0 || say_get() == VERBOSE ||
           (say_get() == NORMAL && isatty(STDERR_FILENO));
}

static void say_who(const hf_info *info, const char *name) {
    char who[SHOW_TEXT], span[SPAN_TEXT];
    if (!info || !info->held) {
        say_more("waiting for %s", name);
        return;
    }
    show_holder(who, sizeof who, info);
    say_more("waiting for %s, held for %s by %s", name, span_text(show_held_ms(info), span), who);
}

void tell_waiting(telling *t, const waiting *w) {
    const char *name = w->names[0];
    int64_t ahead = -1;
    hf_info *info = NULL;
    if (t->events.fd >= 0 || say_get() == VERBOSE) {
        info = waiting_look(w, &name, &ahead);
        /* We are to stand behind all of them. */
        if (info && ahead < 0) ahead = info->waiting;
        say_who(info, name);
        events_waiting(&t->events, info, ahead);
    }
    hf_info_free(info);
    hooks_start(&t->hooks, "--on-wait", t->on_wait, "wait", NULL);
}

void tell_acquired(telling *t, const hf_hold *hold, int names, int64_t waited_ms) {
    events_acquired(&t->events, hold, names, waited_ms);
    hooks_start(&t->hooks, "--on-acquire", t->on_acquire, "acquire", NULL);
}

void tell_lost(telling *t, const char *why) {
    events_lost(&t->events, why);
    hooks_start(&t->hooks, "--on-lost", t->on_lost, "lost", why);
}
