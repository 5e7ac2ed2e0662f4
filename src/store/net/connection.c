/* SPDX-License-Identifier: Apache-2.0 */
#include "store/net/connection.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/error.h"

#define PLAIN_MAX        65536 /* a read may complete a TLS record that began before */
#define POLL_TRIES       100   /* tries to read before sleeping: about 100 µs */
#define SLEEPS_DOUBLING  8
#define RETRY_FIRST      (20 * HF__MS)
#define RETRY_MOST       (2 * HF__SEC)
#define KEEPALIVE_IDLE_S 15
#define KEEPALIVE_GAP_S  5
#define KEEPALIVE_TRIES  3

static void format_where(hf__connection *c) {
    const hf__url *url = c->url;
    if (c->transport == HF__UNIX_SOCKET)
        snprintf(c->where, sizeof c->where, "%s", url->path);
    else
        snprintf(c->where, sizeof c->where, strchr(url->host, ':') ? "[%s]:%d" : "%s:%d", url->host,
                 url->port);
}

void hf__connection_init(hf__connection *c, const hf__url *url, hf__transport transport,
                         size_t out_max, hf__log *log) {
    *c = (hf__connection){
        .transport = transport, .url = url, .log = log, .rand = {hf__rand_seed()}, .fd = -1};
    /* records are longer than what is in them: by at most 256 bytes each */
    size_t max = transport == HF__TCP_TLS ? out_max + out_max / 64 + 1024 : out_max;
    hf__buffer_init(&c->sending, max);
    hf__buffer_init(&c->sealed, max);
    hf__buffer_init(&c->plain, PLAIN_MAX);
    format_where(c);
}

/* ---- Closing a connection ---- */

static void forget_addresses(hf__connection *c) {
    hf__resolve_free(c->resolve);
    c->resolve = NULL;
    if (c->addresses) freeaddrinfo(c->addresses);
    c->addresses = c->address = NULL;
}

/* If another thread is reading or polling the socket, close alone would not end the connection.
   Connecting the socket to AF_UNSPEC resets the connection at once and wakes that thread. A unix
   socket has no reset and is shut down. */
static void reset_socket(const hf__connection *c) {
    struct sockaddr nothing = {.sa_family = AF_UNSPEC};
    if (connect(c->fd, &nothing, sizeof nothing) != 0) shutdown(c->fd, SHUT_RDWR);
}

static void close_reset(hf__connection *c) {
    if (c->fd < 0) return;
    reset_socket(c);
    close(c->fd);
    c->fd = -1;
}

static void clear_socket(hf__connection *c) {
    close_reset(c);
    hf__tls_free(c->tls);
    c->tls = NULL;
    hf__buffer_cut(&c->sealed, 0);
    hf__buffer_cut(&c->sending, 0);
    c->sent = 0;
    c->want_write = false;
}

static void note_down(hf__connection *c, hf_result result, char *detail) {
    bool new = c->state == HF__NET_UP || c->failures == 0;
    hf__log_add(c->log, new && !c->quiet ? HF_LOG_WARNING : HF_LOG_DEBUG, "%s",
                detail ? detail : hf_result_text(result));
    free(c->down_detail);
    c->down_detail = detail;
    c->down_result = result;
}

static void give_up_connection(hf__connection *c) {
    forget_addresses(c);
    if (c->reading || c->writing) {
        /* ends a blocking read; the thread that has the socket then resets it */
        shutdown(c->fd, SHUT_RDWR);
        c->state = HF__NET_BREAKING;
        return;
    }
    clear_socket(c);
    c->state = HF__NET_IDLE;
}

void hf__connection_fail(hf__connection *c, hf_result result, char *detail, hf__time now) {
    note_down(c, result, detail);
    hf__time wait = c->failures < 10 ? RETRY_FIRST << c->failures : RETRY_MOST;
    c->failures++;
    c->retry_at = now + hf__jitter(&c->rand, hf__sooner(wait, RETRY_MOST));
    give_up_connection(c);
}

/* A thread is done with the socket. If the connection was given up meanwhile, close it now. */
static bool release_socket(hf__connection *c) {
    if (c->state != HF__NET_BREAKING && c->state != HF__NET_SHUT) return true;
    if (c->reading || c->writing) return false;
    clear_socket(c);
    if (c->state == HF__NET_BREAKING) c->state = HF__NET_IDLE;
    return false;
}

/* ---- Connecting ---- */

static void set_option(int fd, int level, int name, int value) {
    setsockopt(fd, level, name, &value, sizeof value);
}

static void set_socket_options(const hf__connection *c, int fd) {
    set_option(fd, IPPROTO_TCP, TCP_NODELAY, 1);
    set_option(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
    set_option(fd, IPPROTO_TCP, TCP_KEEPIDLE, KEEPALIVE_IDLE_S);
    set_option(fd, IPPROTO_TCP, TCP_KEEPINTVL, KEEPALIVE_GAP_S);
    set_option(fd, IPPROTO_TCP, TCP_KEEPCNT, KEEPALIVE_TRIES);
    set_option(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, (int)c->url->command_timeout_ms);
}

/* Bytes of the protocol may flow. From now on the socket may block: see hf__connection_read. */
static void begin_login(hf__connection *c) {
    int flags = fcntl(c->fd, F_GETFL);
    if (flags >= 0) fcntl(c->fd, F_SETFL, flags & ~O_NONBLOCK);
    c->state = HF__NET_LOGIN;
}

static void start_tls(hf__connection *c, hf__time now) {
    char *detail;
    hf__buffer_cut(&c->sealed, 0);
    hf_result r = hf__tls_new(c->url, c->alpn, &c->sealed, &c->tls, &detail);
    if (r) {
        hf__connection_fail(c, r, detail, now);
        return;
    }
    if (c->url->tls_verify_none)
        hf__log_add(c->log, c->quiet && c->warned ? HF_LOG_DEBUG : HF_LOG_WARNING,
                    "tls_verify=none: the certificate of %s is not verified, so another host could "
                    "pose as the server",
                    c->where);
    c->warned = true;
    c->state = HF__NET_TLS;
}

/* Begins to connect. Returns 0 or errno; EINPROGRESS is not a failure. */
static int open_socket(hf__connection *c, int family, const struct sockaddr *address,
                       socklen_t length) {
    c->fd = socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (c->fd < 0) return errno;
    if (family != AF_UNIX) set_socket_options(c, c->fd);
    return connect(c->fd, address, length) == 0 ? 0 : errno;
}

static hf_result result_of_errno(int error) {
    return error == EMFILE || error == ENFILE || error == ENOMEM || error == ENOBUFS
               ? HF_NOMEM
               : HF_UNREACHABLE;
}

static void fail_connect(hf__connection *c, int error, hf__time now) {
    hf__connection_fail(c, result_of_errno(error),
                        hf__line("cannot connect to %s: %s%s", c->where, strerror(error),
                                 error == ECONNREFUSED ? " (is a server running there?)" : ""),
                        now);
}

/* Handles the result of connect, immediate or later. False if it failed. */
static bool note_connect_result(hf__connection *c, int error, hf__time now) {
    if (error == EINPROGRESS)
        c->state = HF__NET_CONNECTING;
    else if (error)
        close_reset(c);
    else if (c->transport == HF__TCP_TLS)
        start_tls(c, now);
    else
        begin_login(c);
    return error == EINPROGRESS || error == 0;
}

/* Each address gets its share of the remaining time, so that a dead one does not use it all. */
static int open_address(hf__connection *c, hf__time now) {
    int64_t left = 1;
    for (const struct addrinfo *a = c->address->ai_next; a; a = a->ai_next) left++;
    c->address_until = now + (c->attempt_until - now) / left;
    const struct addrinfo *a = c->address;
    return open_socket(c, a->ai_family, a->ai_addr, a->ai_addrlen);
}

/* Continues after the address whose connect returned `error`, with the remaining addresses. */
static void try_addresses(hf__connection *c, int error, hf__time now) {
    while (!note_connect_result(c, error, now)) {
        if (!c->address || !c->address->ai_next) {
            fail_connect(c, error, now);
            return;
        }
        c->address = c->address->ai_next;
        error = open_address(c, now);
    }
}

static void connect_unix(hf__connection *c, hf__time now) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    size_t length = strlen(c->url->path);
    if (length >= sizeof address.sun_path) {
        hf__connection_fail(
            c, HF_INVALID,
            hf__line("the socket's path is longer than %zu bytes; use a shorter one: %s",
                     sizeof address.sun_path - 1, c->url->path),
            now);
        return;
    }
    memcpy(address.sun_path, c->url->path, length);
    c->address_until = c->attempt_until;
    try_addresses(c, open_socket(c, AF_UNIX, (struct sockaddr *)&address, sizeof address), now);
}

static void take_addresses(hf__connection *c, hf__time now) {
    const char *error;
    if (!hf__resolve_done(c->resolve, &c->addresses, &error)) return;
    hf__resolve_free(c->resolve);
    c->resolve = NULL;
    if (!c->addresses) {
        hf__connection_fail(c, HF_UNREACHABLE,
                            hf__line("cannot look up the host name of %s: %s", c->where, error),
                            now);
        return;
    }
    c->address = c->addresses;
    try_addresses(c, open_address(c, now), now);
}

static void start_attempt(hf__connection *c, hf__time now) {
    c->attempt_until = hf__after_ms(now, c->url->connect_timeout_ms);
    if (c->transport == HF__UNIX_SOCKET) {
        connect_unix(c, now);
        return;
    }
    char *detail;
    hf_result r = c->transport == HF__TCP_TLS ? hf__tls_check(&detail) : HF_OK;
    if (r) {
        hf__connection_fail(c, r, detail, now);
        return;
    }
    c->resolve = hf__resolve_start(c->url->host, c->url->port);
    if (!c->resolve) {
        hf__connection_fail(
            c, HF_NOMEM,
            hf__line("cannot look up %s: out of memory, threads or file descriptors", c->where),
            now);
        return;
    }
    c->state = HF__NET_RESOLVING;
    take_addresses(c, now);
}

/* The socket is writable, or broken. */
static void finish_connect(hf__connection *c, hf__time now) {
    int error = 0;
    socklen_t length = sizeof error;
    if (getsockopt(c->fd, SOL_SOCKET, SO_ERROR, &error, &length) < 0) error = errno;
    try_addresses(c, error, now);
}

/* ---- Reading and writing ---- */

void hf__connection_up(hf__connection *c, bool again) {
    if (!c->quiet && (c->failures || again))
        hf__log_add(c->log, HF_LOG_INFO, "connected to %s again", c->where);
    c->state = HF__NET_UP;
    c->failures = 0;
    c->down_result = HF_OK;
    free(c->down_detail);
    c->down_detail = NULL;
    forget_addresses(c);
}

static void note_broken(hf__connection *c, const char *why, hf__time now) {
    const char *hint = c->transport == HF__TCP && c->plain_hint ? c->plain_hint : "";
    char *detail = c->state == HF__NET_UP
                       ? hf__line("the connection to %s broke: %s", c->where, why)
                       : hf__line("%s closed the connection at login: %s%s", c->where, why, hint);
    hf__connection_fail(c, HF_UNREACHABLE, detail, now);
}

/* Decrypts what was received. Returns how many bytes are for the protocol. */
static size_t open_records(hf__connection *c, size_t length, const char **bytes) {
    char *detail = NULL;
    hf__buffer_cut(&c->plain, 0);
    hf_result r = hf__tls_feed(c->tls, c->incoming, length, &c->plain, &c->sealed, &detail);
    if (r) {
        char *line = hf__line("%s: %s", c->where, detail ? detail : hf_result_text(r));
        free(detail);
        hf__connection_fail(c, r, line, c->fed_at);
        return 0;
    }
    if (c->state == HF__NET_TLS && hf__tls_ready(c->tls)) begin_login(c);
    *bytes = c->plain.data;
    return c->plain.length;
}

/* Waking a sleeping thread may take longer than the server's answer. So the thread first polls for
   a moment and yields the CPU between two tries. If polling finds nothing, the next reads sleep at
   once. The number of these reads doubles each time. */
static ssize_t poll_then_sleep(hf__connection *c) {
    if (c->sleeps) {
        c->sleeps--;
        return recv(c->fd, c->incoming, sizeof c->incoming, 0);
    }
    for (int i = 0; i < POLL_TRIES; i++) {
        ssize_t n = recv(c->fd, c->incoming, sizeof c->incoming, MSG_DONTWAIT);
        if (n >= 0 || errno != EAGAIN) {
            c->empty_polls = 0;
            return n;
        }
        sched_yield();
    }
    if (c->empty_polls < SLEEPS_DOUBLING) c->empty_polls++;
    c->sleeps = 1U << c->empty_polls;
    return recv(c->fd, c->incoming, sizeof c->incoming, 0);
}

static ssize_t receive_bytes(hf__connection *c, hf__read_mode mode) {
    if (mode == HF__READ_POLL_FIRST) return poll_then_sleep(c);
    return recv(c->fd, c->incoming, sizeof c->incoming,
                mode == HF__READ_AT_ONCE ? MSG_DONTWAIT : 0);
}

static bool is_connected(const hf__connection *c) {
    return c->state == HF__NET_UP || c->state == HF__NET_LOGIN || c->state == HF__NET_TLS;
}

size_t hf__connection_read(hf__connection *c, hf__read_mode mode, pthread_mutex_t *mutex,
                           const char **bytes) {
    if (c->reading || !is_connected(c)) return 0;
    c->reading = true;
    pthread_mutex_unlock(mutex);
    ssize_t n = receive_bytes(c, mode);
    int error = errno;
    pthread_mutex_lock(mutex);
    c->reading = false;
    if (!release_socket(c)) return 0;
    if (n > 0) {
        c->fed_at = hf__now();
        *bytes = c->incoming;
        return c->tls ? open_records(c, (size_t)n, bytes) : (size_t)n;
    }
    if (n == 0)
        note_broken(c, "closed by the server", hf__now());
    else if (error != EAGAIN && error != EINTR)
        note_broken(c, strerror(error), hf__now());
    return 0;
}

bool hf__connection_unread(const hf__connection *c) {
    char byte;
    return !c->reading && recv(c->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) > 0;
}

bool hf__connection_quiet(const hf__connection *c) {
    return !c->reading && !c->writing && c->sent == c->sending.length;
}

static bool can_send(const hf__connection *c) {
    return is_connected(c) && !c->writing && !c->want_write;
}

/* Before the TLS handshake is complete there are only its own bytes to send. */
bool hf__connection_take(hf__connection *c, hf__buffer *out) {
    if (!can_send(c) || c->sent < c->sending.length) return false;
    hf__buffer_empty(&c->sending);
    c->sent = 0;
    hf__buffer *next = out;
    if (c->tls) {
        next = &c->sealed;
        if (hf__tls_ready(c->tls) && out->length) {
            hf__tls_seal(c->tls, out->data, out->length, &c->sealed);
            hf__buffer_empty(out);
        }
    }
    /* both buffers are used in turn, so that both shrink */
    if (next->length || next->failed) {
        hf__buffer swap = c->sending;
        c->sending = *next;
        *next = swap;
    }
    return !out->length;
}

bool hf__connection_send(hf__connection *c, pthread_mutex_t *mutex) {
    if (!can_send(c) || c->sent == c->sending.length) return false;
    if (c->sending.failed) {
        note_broken(c, "out of memory while encrypting", hf__now());
        return false;
    }
    c->writing = true;
    pthread_mutex_unlock(mutex);
    ssize_t n = send(c->fd, c->sending.data + c->sent, c->sending.length - c->sent,
                     MSG_DONTWAIT | MSG_NOSIGNAL);
    int error = errno;
    pthread_mutex_lock(mutex);
    c->writing = false;
    if (!release_socket(c)) return false;
    if (n >= 0)
        c->sent += (size_t)n;
    else if (error == EAGAIN)
        c->want_write = true;
    else if (error != EINTR)
        note_broken(c, strerror(error), hf__now());
    return !c->want_write;
}

void hf__connection_renew(hf__connection *c, hf__time now) {
    hf__connection_fail(c, HF_UNREACHABLE, hf__line("reconnecting to %s", c->where), now);
    c->retry_at = now;
    c->failures = 0;
}

void hf__connection_move(hf__connection *c, hf__time when) {
    if (c->state == HF__NET_SHUT) return;
    if (c->state != HF__NET_BREAKING) give_up_connection(c);
    format_where(c);
    c->retry_at = when;
    c->failures = 0;
}

/* ---- Progress ---- */

struct pollfd hf__connection_poll(const hf__connection *c, bool reading) {
    struct pollfd p = {.fd = c->fd};
    switch (c->state) {
    case HF__NET_RESOLVING:
        return (struct pollfd){.fd = hf__resolve_fd(c->resolve), .events = POLLIN};
    case HF__NET_CONNECTING: p.events = POLLOUT; return p;
    case HF__NET_TLS:
    case HF__NET_LOGIN: p.events = POLLIN; break;
    case HF__NET_UP: p.events = reading ? POLLIN : POLLRDHUP; break;
    default: return (struct pollfd){.fd = -1};
    }
    if (c->want_write) p.events |= POLLOUT;
    return p;
}

bool hf__connection_ready(hf__connection *c, short events) {
    if (!events) return false;
    switch (c->state) {
    case HF__NET_RESOLVING: take_addresses(c, hf__now()); return false;
    case HF__NET_CONNECTING: finish_connect(c, hf__now()); return false;
    case HF__NET_TLS:
    case HF__NET_LOGIN:
    case HF__NET_UP:
        if (events & POLLOUT) c->want_write = false;
        return events & ~POLLOUT;
    default: return false;
    }
}

static void fail_timed_out(hf__connection *c, hf__time now) {
    const char *what = c->state == HF__NET_RESOLVING    ? "the DNS lookup of"
                       : c->state == HF__NET_CONNECTING ? "connecting to"
                       : c->state == HF__NET_TLS        ? "the TLS handshake with"
                                                        : "the login at";
    hf__connection_fail(c, HF_UNREACHABLE,
                        hf__line("%s %s took longer than connect_timeout (%" PRId64 " ms)%s", what,
                                 c->where, c->url->connect_timeout_ms,
                                 c->state == HF__NET_TLS ? "; does the server use TLS?" : ""),
                        now);
}

void hf__connection_tick(hf__connection *c, hf__time now) {
    switch (c->state) {
    case HF__NET_IDLE:
        if (now >= c->retry_at) start_attempt(c, now);
        break;
    case HF__NET_RESOLVING:
    case HF__NET_TLS:
    case HF__NET_LOGIN:
        if (now >= c->attempt_until) fail_timed_out(c, now);
        break;
    case HF__NET_CONNECTING:
        if (now >= c->attempt_until)
            fail_timed_out(c, now);
        else if (now >= c->address_until)
            try_addresses(c, ETIMEDOUT, now);
        break;
    default: break;
    }
}

hf__time hf__connection_due(const hf__connection *c) {
    switch (c->state) {
    case HF__NET_IDLE: return c->retry_at;
    case HF__NET_RESOLVING:
    case HF__NET_TLS:
    case HF__NET_LOGIN: return c->attempt_until;
    case HF__NET_CONNECTING: return hf__sooner(c->attempt_until, c->address_until);
    default: return HF__NEVER;
    }
}

void hf__connection_shut(hf__connection *c, hf__buffer *last) {
    if (last) {
        if (hf__connection_take(c, last) && c->sending.length)
            (void)!send(c->fd, c->sending.data, c->sending.length, MSG_DONTWAIT | MSG_NOSIGNAL);
        close(c->fd);
        c->fd = -1;
    }
    c->state = HF__NET_SHUT;
    if (!c->reading && !c->writing)
        clear_socket(c);
    else
        shutdown(c->fd, SHUT_RDWR);
}

void hf__connection_fini(hf__connection *c, bool forked) {
    /* In a forked child the parent still uses the socket: close this descriptor and reset
       nothing. */
    if (forked && c->fd >= 0) {
        close(c->fd);
        c->fd = -1;
    }
    clear_socket(c);
    if (!forked) forget_addresses(c);
    hf__buffer_fini(&c->sending);
    hf__buffer_fini(&c->sealed);
    hf__buffer_fini(&c->plain);
    free(c->down_detail);
}
