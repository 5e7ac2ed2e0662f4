/*
 * Those of a client who want to know when something of a name has changed: waits for a latch,
 * observers of a leader. The store knows them by a number, which all of one name share, so that one
 * message reaches all.
 */
#ifndef HF_CLIENT_WATCH_H
#define HF_CLIENT_WATCH_H

#include "client/client.h"

typedef struct hf__watch {
    struct hf__watch *next;
    const char *name; /* the watcher's memory */
    size_t length;
    uint64_t watch_id;
    bool notified;          /* of something new, since this was last taken back */
    hf__call *waiting_call; /* finished when something is heard */
    hf__timer *timer;       /* in client->looks, due at once then */
} hf__watch;

/* All with the mutex held. */
void hf__watch_begin(hf_client *client, hf__watch *watch);
void hf__watch_end(hf_client *client, hf__watch *watch);

/* Wait until something is heard (HF__DONE), until then, or until the cancel is fired. The client
   may be closed. */
hf__awaited hf__watch_wait(hf_client *client, hf__watch *watch, hf__time until,
                           const hf_cancel *cancel);

/* The store has heard something. */
void hf__watch_notify(hf_client *client, const hf__notification *notification);

/* The client closes: whoever rests looks up. */
void hf__watch_close(hf_client *client);

#endif
