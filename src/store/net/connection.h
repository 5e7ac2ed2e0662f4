/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A connection to a server, made again whenever it breaks: sockets, DNS, TLS, deadlines, back-off.
 * It carries bytes and knows no protocol. Its owner speaks the protocol, and asks for all progress:
 * nothing here calls the owner.
 *
 *   IDLE --retry_at--> RESOLVING --> CONNECTING --> [TLS] --> LOGIN --hf__connection_up--> UP
 *    ^  \--unix socket, IP address-------^             |         |                          |
 *    +------------------- any failure -----------------+---------+--------------------------+
 *                                                   (BREAKING while a thread still uses the socket)
 *
 * Invariants
 *  0. The socket blocks only in a read that may sleep; all other calls use MSG_DONTWAIT.
 *  1. At most one thread reads and at most one writes, each without the mutex. `reading` and
 *     `writing` say so, and the socket is closed only when both are false.
 *  2. Bytes that were read are consumed by the protocol before another thread may read.
 *  3. A connection that is given up is closed by a reset, so that as few of the sent bytes as
 *     possible are still delivered. The protocol must be able to bear the rest.
 *
 * The owner's mutex protects the connection and is locked in every call. Only hf__connection_read
 * and hf__connection_send unlock it, during the system call. No call blocks, except a read that may
 * sleep, reading certificates and loading OpenSSL.
 *
 * Any call that takes the mutex or the time may find that the connection broke. Then `state` is
 * neither LOGIN nor UP, and `down_result` and `down_detail` say why. The owner looks at `state`
 * after each call, before it unlocks the mutex: on LOGIN it begins its protocol, on a failure it
 * ends what was in flight.
 */
#ifndef HF_STORE_NET_CONNECTION_H
#define HF_STORE_NET_CONNECTION_H

#include <poll.h>
#include <pthread.h>

#include "base/log.h"
#include "base/rand.h"
#include "base/time.h"
#include "store/net/resolve.h"
#include "store/net/tls.h"

typedef enum hf__net_state {
    HF__NET_IDLE,
    HF__NET_RESOLVING,
    HF__NET_CONNECTING,
    HF__NET_TLS,
    HF__NET_LOGIN, /* bytes flow; the protocol's login must end within the time for connecting */
    HF__NET_UP,
    HF__NET_BREAKING,
    HF__NET_SHUT
} hf__net_state;

typedef enum hf__transport { HF__TCP, HF__TCP_TLS, HF__UNIX_SOCKET } hf__transport;

#define HF__WHERE_MAX 300
#define HF__READ_SIZE 16384

/* The owner reads any field, and writes those of the first group after hf__connection_init. */
typedef struct hf__connection {
    const char *alpn;       /* TLS: the server must speak one of these: see hf__tls_new; or NULL */
    const char *plain_hint; /* added to the reason if a server ends a plain login; or NULL */
    bool quiet;             /* the owner reports failures */
    hf__time retry_at;      /* IDLE: when to connect */

    hf__net_state state;
    hf__transport transport;
    const hf__url *url;
    hf__log *log;
    hf__rand rand;
    char where[HF__WHERE_MAX]; /* "host:port" or the socket's path, for messages */

    int fd;
    hf__resolve *resolve;
    struct addrinfo *addresses, *address; /* of the host name; the one being tried */
    hf__time attempt_until, address_until;
    unsigned failures; /* since it was last up */
    bool warned;       /* tls_verify=none was reported */

    bool reading, writing, want_write;
    /* the reader's: how often in a row polling for bytes found nothing */
    unsigned empty_polls;
    unsigned sleeps;    /* the reader's: how many of the next reads sleep without polling */
    hf__buffer sending; /* the writer's, while `writing` */
    size_t sent;
    hf__time fed_at; /* when bytes last arrived */

    hf__tls *tls;             /* while connected by TLS */
    hf__buffer sealed, plain; /* TLS records to send; decrypted bytes received */

    hf_result down_result; /* why the last attempt failed; HF_OK: unknown, or up */
    char *down_detail;     /* one line without secrets, owned by the connection; or NULL */

    /* Reader's, while `reading`. Last, so that it is not between fields that other threads use. */
    char incoming[HF__READ_SIZE];
} hf__connection;

/* Sets up an idle connection, which the first hf__connection_tick begins to connect. Borrows `url`
   and `log`. Used of the URL are host, port, path, connect_timeout_ms, command_timeout_ms (sent
   bytes that stay unconfirmed for so long break the connection) and the TLS options. Both times
   must be set. All may change if hf__connection_move follows. `out_max` is the maximum of the
   buffers that are passed to hf__connection_take. Cannot fail: memory is allocated when it is
   needed. */
void hf__connection_init(hf__connection *c, const hf__url *url, hf__transport transport,
                         size_t out_max, hf__log *log);

/* Frees everything, with a reset if it is connected. No thread may still read or write. `forked`:
   in a child the parent still uses the socket, so only this process's descriptor is closed. */
void hf__connection_fini(hf__connection *c, bool forked);

/* Begins to connect if it is idle and `retry_at` has come, and gives up what has taken too long.
   Each address of the host gets its share of connect_timeout, which also covers lookup, TLS
   and login. After a failure it waits: 20 ms, doubling up to 2 s, with jitter. */
void hf__connection_tick(hf__connection *c, hf__time now);

/* When the next tick is due; HF__NEVER while it is up. */
hf__time hf__connection_due(const hf__connection *c);

/* What to poll for; the descriptor is -1 if there is nothing. `reading`: once it is up, bytes from
   the server; otherwise only the end of the connection. */
struct pollfd hf__connection_poll(const hf__connection *c, bool reading);

/* Acts on what poll reported. True: there are bytes to read, so call hf__connection_read. */
bool hf__connection_ready(hf__connection *c, short events);

/* The protocol's login is complete: ends the deadline and the back-off, and forgets why it was
   down. `again`: log that. */
void hf__connection_up(hf__connection *c, bool again);

/* Gives the connection up, or the attempt at one, for a reason that the owner knows: HF_REFUSED,
   HF_PROTOCOL, no answer in time … Takes `detail`, on the heap; NULL: the result's text. It
   connects again after a pause, as after failures of its own. */
void hf__connection_fail(hf__connection *c, hf_result result, char *detail, hf__time now);

/* Gives it up and connects again at once. */
void hf__connection_renew(hf__connection *c, hf__time now);

/* The URL has a new address: gives up the old one, which is no failure, and connects there, not
   before `when`. */
void hf__connection_move(hf__connection *c, hf__time when);

typedef enum hf__read_mode {
    HF__READ_AT_ONCE,
    HF__READ_SLEEP,     /* until bytes arrive, or another thread gives the connection up */
    HF__READ_POLL_FIRST /* the same, but poll for a moment before sleeping: uses CPU, saves time */
} hf__read_mode;

/* Reads once, at most HF__READ_SIZE bytes from the socket. Returns how many bytes are for the
   protocol, and where they are: valid until the mutex is unlocked. 0: none (another thread reads,
   they belonged to TLS, or there were none), or the connection broke. Modes that sleep sleep only
   in the states LOGIN and UP. */
size_t hf__connection_read(hf__connection *c, hf__read_mode mode, pthread_mutex_t *mutex,
                           const char **bytes);

/* Bytes have arrived that nobody has read and nobody is reading. */
bool hf__connection_unread(const hf__connection *c);

/* Nobody reads or writes, and everything taken was sent. */
bool hf__connection_quiet(const hf__connection *c);

/* Takes all bytes of `out`, if all that was taken before is sent. True: `out` is empty now. Without
   TLS the two exchange their buffers and copy nothing. Each of the two holds at most out_max bytes
   of the owner. To write, call this and hf__connection_send in turn, until that returns false. */
bool hf__connection_take(hf__connection *c, hf__buffer *out);

/* Sends taken bytes, as many as the socket accepts now. True: take more. False: everything is sent,
   another thread writes, or the rest must wait until poll says that the socket is writable. */
bool hf__connection_send(hf__connection *c, pthread_mutex_t *mutex);

/* Closes for good. With `last`, closes in order, after an attempt to send these bytes; the
   connection must be up and quiet. Otherwise resets. */
void hf__connection_shut(hf__connection *c, hf__buffer *last);

#endif
