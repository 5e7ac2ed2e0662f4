/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Drives a connection of src/store/net as a store would, with a protocol that has no content: the
 * login is complete at once, and every byte is for the owner. The peer is a real socket.
 */
#ifndef NET_RIG_H
#define NET_RIG_H

#include "t.h"

#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/error.h"
#include "store/net/connection.h"

#define OUT_MAX ((size_t)64 << 10)
#define SECRET  "s3cr-t"

typedef struct rig {
    hf__connection c;
    hf__url url;
    hf__log log;
    pthread_mutex_t mutex; /* locked, except in rig_turn */
    hf__buffer out, got;   /* bytes to send, and received bytes */
    bool stays_out;        /* the login never ends */
    bool ignores;          /* reads nothing, and polls only for the end of the connection */
    size_t longest;        /* the most bytes that one read returned */
    int peer;              /* the other end, or -1 */
} rig;

/* A connection to HOST:PORT, or to the path of a unix socket; options as in a URL. */
rig *rig_new(hf__transport transport, const char *host, uint16_t port, const char *options);
void rig_free(rig *r);

/* One turn of a store's loop: tick, write, poll for at most a millisecond, read. */
void rig_turn(rig *r);

/* Takes turns until the condition is true. */
#define RIG_UNTIL(r, condition)                                                              \
    do {                                                                                     \
        const int64_t rig_until_ = t_now_ms() + t_patience(5000);                            \
        while (!(condition)) {                                                               \
            if (t_now_ms() > rig_until_)                                                     \
                t_fail_at(__FILE__, __LINE__, "not in time: %s (state %d, %s)", #condition,  \
                          (int)(r)->c.state, (r)->c.down_detail ? (r)->c.down_detail : "-"); \
            rig_turn(r);                                                                     \
        }                                                                                    \
    } while (0)

/* Takes turns until the connection is up, and accepts it from the listener if that is not -1. */
void rig_up(rig *r, int listener);

/* Takes turns until an attempt has failed. Its result and its line must be these; the line has no
   secret. */
void rig_fails(rig *r, hf_result result, const char *says);

/* Waits until the peer can be read or written. Returns what recv returned, with errno. */
ssize_t rig_peer_recv(rig *r, void *bytes, size_t size);

/* The byte at that place of the stream that the tests send. */
static inline char rig_byte(size_t at) {
    return (char)(at * 31 + at / 251);
}

void rig_check_stream(const char *bytes, size_t length, size_t from);

/* Appends bytes of the stream until the buffer is full; it must take no more. Returns the new end
   of the stream. */
size_t rig_fill(rig *r, size_t from);

#endif
