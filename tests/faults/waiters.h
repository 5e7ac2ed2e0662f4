/*
 * Waiters in line, for the tests of handing over; on top of fault.h.
 *
 * A wait that nobody tells anything asks by itself when the holder's lease is over, and after 10 s
 * at the latest. So where a test wants to see that somebody was told, leases are long and `served`
 * gives up before that.
 */
#ifndef HF_FAULT_WAITERS_H
#define HF_FAULT_WAITERS_H

#include "fault.h"

#define LINE "hf:{lock}:q"

/* Connections of the proxy, if its first client is a bed_listener_through. */
enum { ASKS = 1, LISTENS = 2 };

extern const hf_options FOREVER; /* waits so long */

/* ---- Clients --------------------------------------------------------------------------------- */

/* A client that listens already, so that it asks once and stands in line. */
hf_client *bed_listener(bed *b);
hf_client *bed_listener_through(bed *b, const hf_client_options *options);

/* Nothing of this direction comes through on one of the proxy's connections; all is well again. */
void withhold(bed *b, uint64_t connection, t_dir dir);
void withhold_no_more(bed *b, uint64_t connection, t_dir dir);

/* Reset one of the proxy's connections. */
void cut(bed *b, uint64_t connection);

/* ---- Waiting --------------------------------------------------------------------------------- */

/* Begin to wait for LOCK, and stand in line behind all others. */
attempt *stand(bed *b, hf_client *client, const hf_options *options);
attempt *stand_against(bed *b, hf_client *client, const hf_options *options, const hf_hold *rival);

/* It was granted, sooner than it would have asked by itself. */
hf_hold *served(attempt *a);

/* It waits still. */
bool waits(attempt *a);

/* All have ended: there is room for others. */
void attempts_over(bed *b);

/* Hold LOCK or another by hand, as a client that is not there; and let go without handing it on. */
void hold_by_hand(bed *b, const char *name, int64_t ms);
void drop_by_hand(bed *b, const char *name);

/* ---- The server's side ----------------------------------------------------------------------- */

void run(bed *b, const char *command);

int64_t in_line(bed *b);
int64_t listening(bed *b); /* clients whose channel somebody listens on */

/* An ask: of which client, under which number. */
typedef struct ask {
    char client[40];
    uint64_t number;
} ask;

ask ask_in_line(bed *b, int place); /* 0 the first */
ask ask_that_holds(bed *b);
bool same_ask(ask a, ask b);

/* The message that told of the hold there is now, as part/queue.lua writes it. */
void grant_message(bed *b, char text[128]);
void publish(bed *b, const ask *to, const char *bytes, size_t length);
void publish_text(bed *b, const ask *to, const char *text);

#endif
