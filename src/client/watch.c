/* SPDX-License-Identifier: Apache-2.0 */
/* Watches of a name: see watch.h. */
#include "client/watch.h"

static bool same_name(const hf__watch *w, const char *name, size_t length) {
    return w->length == length && !memcmp(w->name, name, length);
}

/* While there is a watch, notifications must be read: see lead_blocking_read in scheduler.c. */
void hf__watch_begin(hf_client *c, hf__watch *w) {
    w->watch_id = 0;
    for (const hf__watch *it = c->watches.first; it && !w->watch_id; it = it->link.next)
        if (same_name(it, w->name, w->length)) w->watch_id = it->watch_id;
    if (!w->watch_id) w->watch_id = hf__core_new_acquire_id(c->core);
    hf__list_append(&c->watches, w, link);
}

void hf__watch_end(hf_client *c, hf__watch *w) {
    if (!hf__list_linked(w, link)) return;
    hf__list_remove(&c->watches, w, link);
}

static void notify_watch(hf_client *c, hf__watch *w) {
    w->notified = true;
    if (w->timer && hf__timer_armed(w->timer)) hf__heap_set(&c->observer_timers, w->timer, 0);
    if (!w->waiting_call) return;
    hf__call *call = w->waiting_call;
    w->waiting_call = NULL;
    hf__call_finish(c->core, call, HF_OK, NULL);
}

hf__awaited hf__watch_wait(hf_client *c, hf__watch *w, hf__time until, const hf_cancel *cancel) {
    if (w->notified || c->closed) return HF__DONE;
    hf__call call = {0};
    w->waiting_call = &call;
    hf__awaited how = hf__await(c, &call, until, cancel);
    w->waiting_call = NULL;
    return how;
}

static bool matches_watch(const hf_client *c, const hf__notification *notification,
                          const hf__watch *w) {
    switch (notification->type) {
    case HF__NAME_CHANGED: return same_name(w, notification->name, notification->length);
    case HF__NAMES_CHANGED: return notification->matches(c->store, w->name, w->length);
    case HF__GRANTED: return notification->acquire_id == w->watch_id;
    default: return true;
    }
}

void hf__watch_notify(hf_client *c, const hf__notification *notification) {
    for (hf__watch *w = c->watches.first; w; w = w->link.next)
        if (matches_watch(c, notification, w)) notify_watch(c, w);
}

void hf__watch_close(hf_client *c) {
    for (hf__watch *w = c->watches.first; w; w = w->link.next) notify_watch(c, w);
    hf__calls_finish(c->core, &c->up_calls, HF_CLOSED, NULL);
}
