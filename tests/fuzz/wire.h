/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A server at the other end of every connection that the library makes. It is correct: the
 * simulator's model of Redis with the shipped scripts. The input changes its answers on their way.
 *
 * With --wrap the library's connect, send and close come here. A connection is a pair of sockets.
 * Commands run at once, and the answers, or some of them, are readable when the library polls.
 */
#ifndef FUZZ_WIRE_H
#define FUZZ_WIRE_H

#include "base/buffer.h"
#include "fuzz.h"
#include "model/model.h"

enum { WIRE_CLIENTS = 2 };

typedef struct wire_state {
    rm_server server;
    input control; /* for each answer a byte that selects the change, and its arguments */
    int client;    /* set by the caller: the client that connects now */
    hf__buffer past[WIRE_CLIENTS]; /* what a client has read on closed connections */
    bool lied;                     /* a client was given something that the server did not send */
    bool forgetful;                /* the server lost data, or its clock was set */
    int64_t skew_us;
} wire_state;

extern wire_state wire;

void wire_begin(input control);
void wire_end(void);

/* Whether the client was given this text to read. */
bool wire_gave(int client, const char *text);

/* Other failures of a server: see wire.c. */
void wire_mishap(uint8_t which);

#endif
