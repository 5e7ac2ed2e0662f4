/*
 * Queued waiters, for the tests of hand-over; built on fault.h.
 *
 * A wait that gets no notification acquires by itself when the holder's lease is over, and after 10
 * s at the latest. So a test that needs a notification uses long leases, and `served` gives up
 * before 10 s.
 */
#ifndef HF_FAULT_WAITERS_H
#define HF_FAULT_WAITERS_H

#include "fault.h"

#define LINE "hf:{lock}:q"

/* Connections of the proxy, if its first client is a bed_listener_through. */
enum { ASKS = 1, LISTENS = 2 };

extern const hf_options FOREVER; /* waits that long */

/* ---- Clients --------------------------------------------------------------------------------- */

/* A client that is already subscribed, so that one acquire is enough to enqueue. */
hf_client *bed_listener(bed *b);
hf_client *bed_listener_through(bed *b, const hf_client_options *options);

/* Withholds all bytes of one direction on one of the proxy's connections; ends that again. */
void withhold(bed *b, uint64_t connection, t_dir dir);
void withhold_no_more(bed *b, uint64_t connection, t_dir dir);

/* Resets one of the proxy's connections. */
void cut(bed *b, uint64_t connection);

/* ---- Waiting --------------------------------------------------------------------------------- */

/* Begins to wait for LOCK. Returns when it is queued behind all others. */
attempt *stand(bed *b, hf_client *client, const hf_options *options);
attempt *stand_against(bed *b, hf_client *client, const hf_options *options, const hf_hold *rival);

/* It was granted, sooner than it would have acquired by itself. */
hf_hold *served(attempt *a);

/* Whether it still waits. */
bool waits(attempt *a);

/* All attempts have ended: their slots can be used again. */
void attempts_over(bed *b);

/* Holds a lock by hand, as a client that does not exist; drops it without a hand-over. */
void hold_by_hand(bed *b, const char *name, int64_t ms);
void drop_by_hand(bed *b, const char *name);

/* ---- The server's side ----------------------------------------------------------------------- */

void run(bed *b, const char *command);

int64_t in_line(bed *b);
int64_t listening(bed *b); /* number of clients that are subscribed */

/* A queued acquire: its client and its acquire id. */
typedef struct ask {
    char client[40];
    uint64_t number;
} ask;

ask ask_in_line(bed *b, int place); /* 0 is the first */
ask ask_that_holds(bed *b);
bool same_ask(ask a, ask b);

/* The notification of the current hold, as part/queue.lua writes it. */
void grant_message(bed *b, char text[128]);
void publish(bed *b, const ask *to, const char *bytes, size_t length);
void publish_text(bed *b, const ask *to, const char *text);

#endif
