/* SPDX-License-Identifier: Apache-2.0 */
#include "run/notify.h"

#include <unistd.h>

#include "common/duration.h"
#include "common/message.h"
#include "common/show.h"

bool notify_wants_waits(const notifier *n) {
    return n->on_wait || n->events.fd >= 0 || get_verbosity() == VERBOSE ||
           (get_verbosity() == NORMAL && isatty(STDERR_FILENO));
}

static void print_waiting(const hf_info *info, const char *name) {
    char who[SHOW_TEXT], duration[DURATION_TEXT];
    if (!info || !info->held) {
        print_verbose("waiting for %s", name);
        return;
    }
    show_holder(who, sizeof who, info);
    print_verbose("waiting for %s, held for %s by %s", name,
                  duration_text(show_held_ms(info), duration), who);
}

void notify_waiting(notifier *n, const wait_progress *w) {
    const char *name = w->names[0];
    int64_t ahead = -1;
    hf_info *info = NULL;
    if (n->events.fd >= 0 || get_verbosity() == VERBOSE) {
        info = wait_progress_inspect(w, &name, &ahead);
        /* The new waiter goes to the end of the queue. */
        if (info && ahead < 0) ahead = info->waiting;
        print_waiting(info, name);
        events_waiting(&n->events, info, ahead);
    }
    hf_info_free(info);
    hooks_start(&n->hooks, "--on-wait", n->on_wait, "wait", NULL);
}

void notify_acquired(notifier *n, const hf_hold *hold, int names, int64_t waited_ms) {
    events_acquired(&n->events, hold, names, waited_ms);
    hooks_start(&n->hooks, "--on-acquire", n->on_acquire, "acquire", NULL);
}

void notify_lost(notifier *n, const char *why) {
    events_lost(&n->events, why);
    hooks_start(&n->hooks, "--on-lost", n->on_lost, "lost", why);
}
