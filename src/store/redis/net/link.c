/* SPDX-License-Identifier: Apache-2.0 */
#include "store/redis/net/link.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/error.h"
#include "store/net/password.h"

#define PLAIN_MAX        65536         /* a read may complete a TLS record that began before */
#define PAUSE            HF__MS        /* idle time after which to read before sending */
#define UNREAD_PAUSE     (20 * HF__MS) /* until the next check of an answer that is not read */
#define POLL_TRIES       100           /* tries to read before sleeping: about 100 µs */
#define SLEEPS_DOUBLING  8
#define RETRY_FIRST      (20 * HF__MS)
#define RETRY_MOST       (2 * HF__SEC)
#define KEEPALIVE_IDLE_S 15
#define KEEPALIVE_GAP_S  5
#define KEEPALIVE_TRIES  3

static void format_where(hf__link *l) {
    const hf__url *url = l->url;
    if (url->scheme == HF__SCHEME_REDIS_UNIX)
        snprintf(l->where, sizeof l->where, "%s", url->path);
    else
        snprintf(l->where, sizeof l->where, strchr(url->host, ':') ? "[%s]:%d" : "%s:%d", url->host,
                 url->port);
}

bool hf__link_init(hf__link *l, hf__session_role role, const hf__url *url, const hf__identity *who,
                   hf__log *log) {
    *l = (hf__link){.url = url, .log = log, .fd = -1, .rand = {hf__rand_seed()}};
    hf__buffer_init(&l->sending, HF__OUT_MAX);
    hf__buffer_init(&l->sealed, HF__OUT_MAX);
    hf__buffer_init(&l->plain, PLAIN_MAX);
    format_where(l);
    return hf__session_init(&l->session, role, url, who, log, l->where);
}

/* ---- Closing a connection ---- */

static void forget_addresses(hf__link *l) {
    hf__resolve_free(l->resolve);
    l->resolve = NULL;
    if (l->addresses) freeaddrinfo(l->addresses);
    l->addresses = l->address = NULL;
}

/* Another thread may be reading or polling the socket, which would keep it open after close.
   Connecting it to AF_UNSPEC resets it at once and wakes that thread. A unix socket has no reset
   and is shut down. */
static void reset_socket(const hf__link *l) {
    struct sockaddr nothing = {.sa_family = AF_UNSPEC};
    if (connect(l->fd, &nothing, sizeof nothing) != 0) shutdown(l->fd, SHUT_RDWR);
}

static void close_reset(hf__link *l) {
    if (l->fd < 0) return;
    reset_socket(l);
    close(l->fd);
    l->fd = -1;
}

static void clear_socket(hf__link *l) {
    close_reset(l);
    hf__tls_free(l->tls);
    l->tls = NULL;
    hf__buffer_cut(&l->sealed, 0);
    hf__buffer_cut(&l->sending, 0);
    l->sent = 0;
    l->want_write = false;
}

static void note_down(hf__link *l, hf_result result, char *detail) {
    bool new = l->state == HF__LINK_UP || l->failures == 0;
    hf__log_add(l->log, new && !l->quiet ? HF_LOG_WARNING : HF_LOG_DEBUG, "%s",
                detail ? detail : hf_result_text(result));
    free(l->down_detail);
    l->down_detail = detail;
    l->down_result = result;
}

static void give_up_connection(hf__link *l) {
    forget_addresses(l);
    hf__session_break(&l->session);
    if (l->reading || l->writing) {
        /* ends a blocking read; the thread that has the socket then resets it */
        shutdown(l->fd, SHUT_RDWR);
        l->state = HF__LINK_BREAKING;
        return;
    }
    clear_socket(l);
    l->state = HF__LINK_IDLE;
}

/* The connection, or the attempt at one, has failed: try again later, with growing pauses. */
static void fail_link(hf__link *l, hf_result result, char *detail, hf__time now) {
    note_down(l, result, detail);
    hf__time wait = l->failures < 10 ? RETRY_FIRST << l->failures : RETRY_MOST;
    l->failures++;
    l->retry_at = now + hf__jitter(&l->rand, hf__sooner(wait, RETRY_MOST));
    give_up_connection(l);
}

/* A thread is done with the socket. If the connection was given up meanwhile, close it now. */
static bool release_socket(hf__link *l) {
    if (l->state != HF__LINK_BREAKING && l->state != HF__LINK_SHUT) return true;
    if (l->reading || l->writing) return false;
    clear_socket(l);
    if (l->state == HF__LINK_BREAKING) l->state = HF__LINK_IDLE;
    return false;
}

/* ---- Connecting ---- */

static void set_option(int fd, int level, int name, int value) {
    setsockopt(fd, level, name, &value, sizeof value);
}

static void set_socket_options(const hf__link *l, int fd) {
    set_option(fd, IPPROTO_TCP, TCP_NODELAY, 1);
    set_option(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
    set_option(fd, IPPROTO_TCP, TCP_KEEPIDLE, KEEPALIVE_IDLE_S);
    set_option(fd, IPPROTO_TCP, TCP_KEEPINTVL, KEEPALIVE_GAP_S);
    set_option(fd, IPPROTO_TCP, TCP_KEEPCNT, KEEPALIVE_TRIES);
    set_option(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, (int)l->url->command_timeout_ms);
}

/* From now on the socket may block: see hf__link_wait. */
static void make_blocking(const hf__link *l) {
    int flags = fcntl(l->fd, F_GETFL);
    if (flags >= 0) fcntl(l->fd, F_SETFL, flags & ~O_NONBLOCK);
}

static void log_in(hf__link *l, hf__time now) {
    make_blocking(l);
    char *password, *detail;
    hf_result r = hf__password_get(l->url, &password, &detail);
    if (!r) r = hf__session_begin(&l->session, password, now);
    hf__password_free(password);
    if (r) {
        fail_link(l, r, detail, now);
        return;
    }
    l->state = HF__LINK_LOGIN;
}

static void start_tls(hf__link *l, hf__time now) {
    char *detail;
    hf__buffer_cut(&l->sealed, 0);
    hf_result r = hf__tls_new(l->url, &l->sealed, &l->tls, &detail);
    if (r) {
        fail_link(l, r, detail, now);
        return;
    }
    if (l->url->tls_verify_none)
        hf__log_add(l->log, l->quiet && l->warned ? HF_LOG_DEBUG : HF_LOG_WARNING,
                    "tls_verify=none: the certificate of %s is not verified, so another host could "
                    "pose as the server",
                    l->where);
    l->warned = true;
    l->state = HF__LINK_TLS;
}

/* Begins to connect. Returns 0 or errno; EINPROGRESS is fine. */
static int open_socket(hf__link *l, int family, const struct sockaddr *address, socklen_t length) {
    l->fd = socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (l->fd < 0) return errno;
    if (family != AF_UNIX) set_socket_options(l, l->fd);
    return connect(l->fd, address, length) == 0 ? 0 : errno;
}

static hf_result result_of(int error) {
    return error == EMFILE || error == ENFILE || error == ENOMEM || error == ENOBUFS
               ? HF_NOMEM
               : HF_UNREACHABLE;
}

static void cannot_connect(hf__link *l, int error, hf__time now) {
    fail_link(l, result_of(error),
              hf__line("cannot connect to %s: %s%s", l->where, strerror(error),
                       error == ECONNREFUSED ? " (is a server running there?)" : ""),
              now);
}

/* Handles the result of connect, immediate or later. False if it failed. */
static bool note_connect_result(hf__link *l, int error, hf__time now) {
    if (error == EINPROGRESS)
        l->state = HF__LINK_CONNECTING;
    else if (error)
        close_reset(l);
    else if (l->url->scheme == HF__SCHEME_REDIS_TLS)
        start_tls(l, now);
    else
        log_in(l, now);
    return error == EINPROGRESS || error == 0;
}

/* Each address gets its share of the remaining time, so that a dead one does not use it all. */
static int open_address(hf__link *l, hf__time now) {
    int64_t left = 1;
    for (const struct addrinfo *a = l->address->ai_next; a; a = a->ai_next) left++;
    l->address_until = now + (l->attempt_until - now) / left;
    const struct addrinfo *a = l->address;
    return open_socket(l, a->ai_family, a->ai_addr, a->ai_addrlen);
}

/* Continues after the address whose connect returned `error`, with the remaining addresses. */
static void try_addresses(hf__link *l, int error, hf__time now) {
    while (!note_connect_result(l, error, now)) {
        if (!l->address || !l->address->ai_next) {
            cannot_connect(l, error, now);
            return;
        }
        l->address = l->address->ai_next;
        error = open_address(l, now);
    }
}

static void connect_unix(hf__link *l, hf__time now) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    size_t length = strlen(l->url->path);
    if (length >= sizeof address.sun_path) {
        fail_link(l, HF_INVALID,
                  hf__line("the socket's path is longer than %zu bytes; use a shorter one: %s",
                           sizeof address.sun_path - 1, l->url->path),
                  now);
        return;
    }
    memcpy(address.sun_path, l->url->path, length);
    l->address_until = l->attempt_until;
    try_addresses(l, open_socket(l, AF_UNIX, (struct sockaddr *)&address, sizeof address), now);
}

static void take_addresses(hf__link *l, hf__time now) {
    const char *error;
    if (!hf__resolve_done(l->resolve, &l->addresses, &error)) return;
    hf__resolve_free(l->resolve);
    l->resolve = NULL;
    if (!l->addresses) {
        fail_link(l, HF_UNREACHABLE, hf__line("cannot find the host of %s: %s", l->where, error),
                  now);
        return;
    }
    l->address = l->addresses;
    try_addresses(l, open_address(l, now), now);
}

static void start_attempt(hf__link *l, hf__time now) {
    l->attempt_until = hf__after_ms(now, l->url->connect_timeout_ms);
    if (l->url->scheme == HF__SCHEME_REDIS_UNIX) {
        connect_unix(l, now);
        return;
    }
    char *detail;
    hf_result r = l->url->scheme == HF__SCHEME_REDIS_TLS ? hf__tls_check(&detail) : HF_OK;
    if (r) {
        fail_link(l, r, detail, now);
        return;
    }
    l->resolve = hf__resolve_start(l->url->host, l->url->port);
    if (!l->resolve) {
        fail_link(
            l, HF_NOMEM,
            hf__line("cannot look up %s: out of memory, threads or file descriptors", l->where),
            now);
        return;
    }
    l->state = HF__LINK_RESOLVING;
    take_addresses(l, now);
}

/* The socket is writable, or broken. */
static void finish_connect(hf__link *l, hf__time now) {
    int error = 0;
    socklen_t length = sizeof error;
    if (getsockopt(l->fd, SOL_SOCKET, SO_ERROR, &error, &length) < 0) error = errno;
    try_addresses(l, error, now);
}

/* ---- Reading and writing ---- */

static void note_up(hf__link *l) {
    if (!l->quiet && (l->failures || l->session.link > 1))
        hf__log_add(l->log, HF_LOG_INFO, "connected to %s again", l->where);
    l->state = HF__LINK_UP;
    l->failures = 0;
    l->down_result = HF_OK;
    free(l->down_detail);
    l->down_detail = NULL;
    forget_addresses(l);
}

static void note_broken(hf__link *l, const char *why, hf__time now) {
    const char *hint =
        l->url->scheme == HF__SCHEME_REDIS ? "; if the server uses TLS, use rediss://" : "";
    char *detail = l->state == HF__LINK_UP
                       ? hf__line("the connection to %s broke: %s", l->where, why)
                       : hf__line("%s closed the connection at login: %s%s", l->where, why, hint);
    fail_link(l, HF_UNREACHABLE, detail, now);
}

static void feed_plain(hf__link *l, const char *bytes, size_t length, hf__time now) {
    char *detail = NULL;
    hf_result r = hf__session_feed(&l->session, bytes, length, now, &detail);
    if (r)
        fail_link(l, r, detail, now);
    else if (l->state == HF__LINK_LOGIN && l->session.state == HF__READY)
        note_up(l);
}

static void feed_records(hf__link *l, const char *bytes, size_t length, hf__time now) {
    char *detail = NULL;
    hf__buffer_cut(&l->plain, 0);
    hf_result r = hf__tls_feed(l->tls, bytes, length, &l->plain, &l->sealed, &detail);
    if (r) {
        char *line = hf__line("%s: %s", l->where, detail ? detail : hf_result_text(r));
        free(detail);
        fail_link(l, r, line, now);
        return;
    }
    if (l->state == HF__LINK_TLS && hf__tls_ready(l->tls)) log_in(l, now);
    if (l->plain.length) feed_plain(l, l->plain.data, l->plain.length, now);
}

static void feed_bytes(hf__link *l, const char *bytes, size_t length) {
    l->fed_at = hf__now();
    if (l->tls)
        feed_records(l, bytes, length, l->fed_at);
    else
        feed_plain(l, bytes, length, l->fed_at);
}

/* Waking a sleeping thread may take longer than the server's answer. So the thread first polls for
   a moment and yields the CPU between two tries. If polling found nothing, the next reads sleep at
   once, for a number of reads that doubles each time. */
static ssize_t poll_then_sleep(hf__link *l) {
    if (l->sleeps) {
        l->sleeps--;
        return recv(l->fd, l->incoming, sizeof l->incoming, 0);
    }
    for (int i = 0; i < POLL_TRIES; i++) {
        ssize_t n = recv(l->fd, l->incoming, sizeof l->incoming, MSG_DONTWAIT);
        if (n >= 0 || errno != EAGAIN) {
            l->empty_polls = 0;
            return n;
        }
        sched_yield();
    }
    if (l->empty_polls < SLEEPS_DOUBLING) l->empty_polls++;
    l->sleeps = 1U << l->empty_polls;
    return recv(l->fd, l->incoming, sizeof l->incoming, 0);
}

typedef enum read_mode { AT_ONCE, SLEEP, POLL_FIRST } read_mode;

static ssize_t receive_bytes(hf__link *l, read_mode how) {
    if (how == POLL_FIRST) return poll_then_sleep(l);
    return recv(l->fd, l->incoming, sizeof l->incoming, how == AT_ONCE ? MSG_DONTWAIT : 0);
}

static void read_some(hf__link *l, pthread_mutex_t *mutex, read_mode how) {
    if (l->reading) return;
    const char *bytes = l->incoming;
    l->reading = true;
    pthread_mutex_unlock(mutex);
    ssize_t n = receive_bytes(l, how);
    int error = errno;
    pthread_mutex_lock(mutex);
    l->reading = false;
    if (!release_socket(l)) return;
    if (n > 0)
        feed_bytes(l, bytes, (size_t)n);
    else if (n == 0)
        note_broken(l, "closed by the server", hf__now());
    else if (error != EAGAIN && error != EINTR)
        note_broken(l, strerror(error), hf__now());
}

/* Moves the next bytes to send into `sending`. False if there are none. */
static bool refill_sending(hf__link *l) {
    if (l->sent < l->sending.length) return true;
    hf__buffer_empty(&l->sending);
    l->sent = 0;
    l->session.unsent = 0;
    hf__buffer *out = l->tls ? &l->sealed : &l->session.out;
    if (l->tls && hf__tls_ready(l->tls) && l->session.out.length) {
        hf__tls_seal(l->tls, l->session.out.data, l->session.out.length, &l->sealed);
        hf__buffer_empty(&l->session.out);
    }
    /* both buffers are used in turn, so that both shrink */
    if (!out->length && !out->failed) return false;
    hf__buffer swap = l->sending;
    l->sending = *out;
    *out = swap;
    return l->sending.length > 0;
}

/* After a pause, read before sending. This shows whether the server has closed the connection, and
   unsolicited bytes must not be taken for the answer. */
static bool must_read_first(const hf__link *l) {
    return l->state == HF__LINK_UP && l->sent == l->sending.length && l->session.out.length &&
           l->session.in_flight == l->session.unsent && hf__now() - l->fed_at > PAUSE;
}

static bool write_some(hf__link *l, pthread_mutex_t *mutex) {
    l->writing = true;
    pthread_mutex_unlock(mutex);
    ssize_t n = send(l->fd, l->sending.data + l->sent, l->sending.length - l->sent,
                     MSG_DONTWAIT | MSG_NOSIGNAL);
    int error = errno;
    pthread_mutex_lock(mutex);
    l->writing = false;
    if (!release_socket(l)) return false;
    if (n >= 0)
        l->sent += (size_t)n;
    else if (error == EAGAIN)
        l->want_write = true;
    else if (error != EINTR)
        note_broken(l, strerror(error), hf__now());
    return !l->want_write;
}

static bool is_connected(const hf__link *l) {
    return l->state == HF__LINK_UP || l->state == HF__LINK_LOGIN || l->state == HF__LINK_TLS;
}

void hf__link_flush(hf__link *l, pthread_mutex_t *mutex) {
    if (must_read_first(l)) read_some(l, mutex, AT_ONCE);
    while (is_connected(l) && !l->writing && !l->want_write && refill_sending(l)) {
        if (l->sending.failed)
            note_broken(l, "out of memory while encrypting", hf__now());
        else if (!write_some(l, mutex))
            return;
    }
}

void hf__link_renew(hf__link *l, hf__time now) {
    fail_link(l, HF_UNREACHABLE, hf__line("reconnecting to %s", l->where), now);
    l->retry_at = now;
    l->failures = 0;
}

void hf__link_move(hf__link *l, hf__time when) {
    if (l->state == HF__LINK_SHUT) return;
    if (l->state != HF__LINK_BREAKING) give_up_connection(l);
    format_where(l);
    l->retry_at = when;
    l->failures = 0;
}

/* ---- Functions of the store's table ---- */

bool hf__link_wait(hf__link *l, bool spin, pthread_mutex_t *mutex) {
    if (l->state != HF__LINK_UP) return false;
    if (l->reading || l->want_write || !l->session.in_flight) return false;
    read_some(l, mutex, spin ? POLL_FIRST : SLEEP);
    return true;
}

int hf__link_pollset(hf__link *l, struct pollfd *fd, bool reading) {
    *fd = (struct pollfd){.fd = l->fd};
    switch (l->state) {
    case HF__LINK_RESOLVING:
        *fd = (struct pollfd){.fd = hf__resolve_fd(l->resolve), .events = POLLIN};
        return 1;
    case HF__LINK_CONNECTING: fd->events = POLLOUT; return 1;
    case HF__LINK_TLS:
    case HF__LINK_LOGIN: fd->events = POLLIN; break;
    case HF__LINK_UP: fd->events = reading ? POLLIN : POLLRDHUP; break;
    default: return 0;
    }
    if (l->want_write) fd->events |= POLLOUT;
    return 1;
}

void hf__link_ready(hf__link *l, short events, pthread_mutex_t *mutex) {
    if (!events) return;
    switch (l->state) {
    case HF__LINK_RESOLVING: take_addresses(l, hf__now()); return;
    case HF__LINK_CONNECTING: finish_connect(l, hf__now()); return;
    case HF__LINK_TLS:
    case HF__LINK_LOGIN:
    case HF__LINK_UP:
        if (events & POLLOUT) l->want_write = false;
        if (events & ~POLLOUT) read_some(l, mutex, AT_ONCE);
        return;
    default: return;
    }
}

static void fail_timed_out(hf__link *l, hf__time now) {
    const char *what = l->state == HF__LINK_RESOLVING    ? "the DNS lookup of"
                       : l->state == HF__LINK_CONNECTING ? "connecting to"
                       : l->state == HF__LINK_TLS        ? "the TLS handshake with"
                                                         : "the login at";
    fail_link(l, HF_UNREACHABLE,
              hf__line("%s %s took longer than connect_timeout (%" PRId64 " ms)%s", what, l->where,
                       l->url->connect_timeout_ms,
                       l->state == HF__LINK_TLS ? "; does the server use TLS?" : ""),
              now);
}

static hf__time answer_deadline(const hf__link *l) {
    hf__time since = hf__session_waits_since(&l->session);
    if (since == HF__NEVER) return HF__NEVER;
    return hf__later(hf__after_ms(since, l->url->command_timeout_ms), l->recheck_at);
}

/* The answer came in time but was not read yet: a client without a background thread may be
   asleep. */
static bool answer_unread(const hf__link *l) {
    char byte;
    return !l->reading && recv(l->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) > 0;
}

void hf__link_tick(hf__link *l, hf__time now) {
    switch (l->state) {
    case HF__LINK_IDLE:
        if (now >= l->retry_at) start_attempt(l, now);
        break;
    case HF__LINK_RESOLVING:
    case HF__LINK_TLS:
    case HF__LINK_LOGIN:
        if (now >= l->attempt_until) fail_timed_out(l, now);
        break;
    case HF__LINK_CONNECTING:
        if (now >= l->attempt_until)
            fail_timed_out(l, now);
        else if (now >= l->address_until)
            try_addresses(l, ETIMEDOUT, now);
        break;
    case HF__LINK_UP:
        if (now >= answer_deadline(l) && answer_unread(l)) {
            l->recheck_at = now + UNREAD_PAUSE;
        } else if (now >= answer_deadline(l)) {
            fail_link(l, HF_UNREACHABLE,
                      hf__line("%s did not answer within command_timeout (%" PRId64 " ms)",
                               l->where, l->url->command_timeout_ms),
                      now);
            break;
        }
        hf__session_tick(&l->session, now);
        break;
    default: break;
    }
}

hf__time hf__link_due(const hf__link *l) {
    switch (l->state) {
    case HF__LINK_IDLE: return l->retry_at;
    case HF__LINK_RESOLVING:
    case HF__LINK_TLS:
    case HF__LINK_LOGIN: return l->attempt_until;
    case HF__LINK_CONNECTING: return hf__sooner(l->attempt_until, l->address_until);
    case HF__LINK_UP: return hf__sooner(answer_deadline(l), hf__session_due(&l->session));
    default: return HF__NEVER;
    }
}

/* With no operation in flight the connection can be closed in order, after a goodbye. */
static void close_politely(hf__link *l) {
    hf__session_goodbye(&l->session);
    if (refill_sending(l) && l->sent == 0)
        (void)!send(l->fd, l->sending.data, l->sending.length, MSG_DONTWAIT | MSG_NOSIGNAL);
    close(l->fd);
    l->fd = -1;
}

void hf__link_shut(hf__link *l) {
    bool quiet = l->state == HF__LINK_UP && !l->session.first && !l->reading && !l->writing;
    if (quiet && l->sent == l->sending.length && !l->session.out.length) close_politely(l);
    hf__session_break(&l->session);
    l->state = HF__LINK_SHUT;
    if (!l->reading && !l->writing)
        clear_socket(l);
    else
        shutdown(l->fd, SHUT_RDWR);
}

void hf__link_fini(hf__link *l, bool forked) {
    /* In a forked child the parent still uses the socket: close this descriptor and reset
       nothing. */
    if (forked && l->fd >= 0) {
        close(l->fd);
        l->fd = -1;
    }
    clear_socket(l);
    if (!forked) forget_addresses(l);
    hf__session_fini(&l->session);
    hf__buffer_fini(&l->sending);
    hf__buffer_fini(&l->sealed);
    hf__buffer_fini(&l->plain);
    free(l->down_detail);
}
