/*
 * A server at the other end of every connection that the library makes: a good one, the simulator's
 * model of Redis with the shipped scripts, whose answers are changed on their way as the input says.
 *
 * With --wrap the library's connect, send and close come here. A connection is a pair of sockets; what is sent is
 * executed at once, and the answers are there to be read, or some of them, when the library looks.
 */
#ifndef FUZZ_WIRE_H
#define FUZZ_WIRE_H

#include "base/buffer.h"
#include "fuzz.h"
#include "model/model.h"

enum { WIRE_CLIENTS = 2 };

typedef struct wire_state {
    rm_server server;
    input control; /* a byte for each answer on its way, and what that byte asks for */
    int client;    /* whose connections are being made: the caller says */
    hf__buffer
        past[WIRE_CLIENTS]; /* what a client was given to read on connections that are over */
    bool lied;              /* it was given what the server had not said */
    bool forgetful;         /* the server lost what it was told, or its clock was set */
    int64_t skew_us;
} wire_state;

extern wire_state wire;

void wire_begin(input control);
void wire_end(void);

/* A client was given this to read. */
bool wire_told(int client, const char *text);

/* What else may happen to a server: see wire.c. */
void wire_mishap(uint8_t which);

#endif
