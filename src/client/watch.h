/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A watch is a wait for a latch, or an observer of a leader. It is notified when its name has
 * changed. The store identifies a watch by an acquire id. All watches of a name share one id, so
 * one notification reaches all.
 */
#ifndef HF_CLIENT_WATCH_H
#define HF_CLIENT_WATCH_H

#include "client/client.h"

typedef struct hf__watch {
    HF__LINK(struct hf__watch) link;
    const char *name; /* memory of the watch's owner */
    size_t length;
    uint64_t watch_id;
    bool notified;          /* something has changed since this was last cleared */
    hf__call *waiting_call; /* finished by a notification */
    hf__timer *timer;       /* in client->observer_timers; due at once on a notification */
} hf__watch;

/* All functions need the mutex. */
void hf__watch_begin(hf_client *client, hf__watch *watch);
void hf__watch_end(hf_client *client, hf__watch *watch);

/* Wait for a notification (HF__DONE), until `until`, or until `cancel` is fired. HF__DONE also if
   the client is closed. */
hf__awaited hf__watch_wait(hf_client *client, hf__watch *watch, hf__time until,
                           const hf_cancel *cancel);

/* A notification from the store. */
void hf__watch_notify(hf_client *client, const hf__notification *notification);

/* The client closes: wake all that wait. */
void hf__watch_close(hf_client *client);

#endif
