/* SPDX-License-Identifier: Apache-2.0 */
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

#define QUEUE "hf:{lock}:q"

/* Connections of the proxy, if its first client is a bed_listener_through. */
enum { COMMAND_CONNECTION = 1, NOTIFICATION_CONNECTION = 2 };

extern const hf_options FOREVER; /* waits that long */

/* ---- Clients --------------------------------------------------------------------------------- */

/* A client that is already subscribed, so that one acquire is enough to enqueue. */
hf_client *bed_subscriber(bed *b);
hf_client *bed_subscriber_through(bed *b, const hf_client_options *options);

/* Withholds all bytes of one direction on one of the proxy's connections; ends that again. */
void withhold_bytes(bed *b, uint64_t connection, t_dir dir);
void stop_withholding(bed *b, uint64_t connection, t_dir dir);

/* Resets one of the proxy's connections. */
void cut_connection(bed *b, uint64_t connection);

/* ---- Waiting --------------------------------------------------------------------------------- */

/* Begins to wait for LOCK. Returns when it is queued behind all others. */
attempt *enqueue(bed *b, hf_client *client, const hf_options *options);
attempt *enqueue_against(bed *b, hf_client *client, const hf_options *options,
                         const hf_hold *rival);

/* It was granted, sooner than it would have acquired by itself. */
hf_hold *await_grant(attempt *a);

/* Whether it still waits. */
bool is_waiting(attempt *a);

/* All attempts have ended: their slots can be used again. */
void attempts_over(bed *b);

/* Holds a lock by hand, as a client that does not exist; drops it without a hand-over. */
void hold_by_hand(bed *b, const char *name, int64_t ms);
void drop_by_hand(bed *b, const char *name);

/* ---- The server's side ----------------------------------------------------------------------- */

void run_command(bed *b, const char *command);

int64_t queue_length(bed *b);
int64_t subscriber_count(bed *b); /* number of clients that are subscribed */

/* A queued acquire: its client and its acquire id. */
typedef struct queued_id {
    char client[40];
    uint64_t acquire_id;
} queued_id;

queued_id queued_at(bed *b, int place); /* 0 is the first */
queued_id id_of_holder(bed *b);
bool same_id(queued_id a, queued_id b);

/* The notification of the current hold, as part/queue.lua writes it. */
void grant_message(bed *b, char text[128]);
void publish_bytes(bed *b, const queued_id *to, const char *bytes, size_t length);
void publish_text(bed *b, const queued_id *to, const char *text);

#endif
