/* SPDX-License-Identifier: Apache-2.0 */
/*
 * See t_proxy.h.
 *
 * One thread owns every socket and all state except the counters. A control is a function that this
 * thread runs between two polls, while its caller waits. So only the slot for that function needs a
 * lock.
 *
 * A connection has two flows. The flow of direction d reads fd[d] and writes fd[1 - d], because the
 * client is side 0 and T_TO_SERVER is 0. Bytes are queued as chunks, each with the earliest time at
 * which it may be written. The end of the source is queued behind them.
 *
 *   LIVE --detach--> DETACHED (no client side; nothing is written to the server)
 *                        --deliver--> DELIVERED (written; the server's answers are kept as text)
 */
#include "t_proxy.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "t_exempt.h"
#include "t_fail.h"
#include "t_net.h"
#include "t_time.h"

#define QUEUE_MAX    ((size_t)1 << 20) /* of one flow; a source is not read beyond it */
#define READ_MAX     16384
#define LATE_MAX     65536 /* of the text of late answers */
#define SLICE_GAP_US 100   /* between slices; otherwise the receiver would read several at once */
#define CONTROL_MS   10000
#define DELIVER_MS   10000

enum end { OPEN, FINISHED, RESET };

enum stage { LIVE, DETACHED, DELIVERED };

struct chunk {
    struct chunk *next;
    int64_t ready_us;
    size_t length, written;
    char bytes[];
};

struct flow {
    struct chunk *first, *last;
    size_t queued;
    int64_t next_write_us;
    bool blocked;        /* the destination accepts no more at the moment */
    enum end source_end; /* how the source has ended */
    bool done;           /* the end was passed on to the destination */
};

struct settings {
    int64_t delay_ms[2];
    size_t slice[2];
    bool withheld[2];
    bool blackhole;
};

struct proxy_connection {
    struct proxy_connection *next;
    uint64_t number;
    int fd[2]; /* -1: that side is closed */
    struct flow flow[2];
    struct settings settings;
    enum stage stage;
    bool dead;
};

typedef void job_fn(t_proxy *proxy, void *arg);

struct proxy_job {
    job_fn *fn;
    void *arg;
    bool done;
};

struct t_proxy {
    uint16_t port, target_port;
    char *target_path; /* NULL: the port */
    char url[64];
    pthread_t thread;
    int wake;

    pthread_mutex_t mutex; /* guards job and job->done */
    pthread_cond_t changed;
    struct proxy_job *job;

    atomic_uint_fast64_t accepted, open, late, bytes[2], forwarded[2];

    /* Used by the thread only. */
    int listener;
    bool quit;
    uint64_t selected;
    struct settings fresh; /* of future connections */
    uint64_t drop_left, drop_number;
    struct proxy_connection *connections;
    struct pollfd *pollfds;
    size_t pollfds_size;
    char late_answers[LATE_MAX];
    size_t late_length;
};

/* ---- Flows ----------------------------------------------------------------------------------- */

static void flow_clear(struct flow *flow) {
    while (flow->first) {
        struct chunk *chunk = flow->first;
        flow->first = chunk->next;
        free(chunk);
    }
    flow->last = NULL;
    flow->queued = 0;
}

static void flow_push(struct flow *flow, const char *bytes, size_t length, int64_t ready_us) {
    struct chunk *chunk = malloc(sizeof *chunk + length);
    if (!chunk) t_fail("out of memory");
    *chunk = (struct chunk){.ready_us = ready_us, .length = length};
    memcpy(chunk->bytes, bytes, length);
    if (flow->last) {
        flow->last->next = chunk;
    } else {
        flow->first = chunk;
    }
    flow->last = chunk;
    flow->queued += length;
}

static void flow_drop_first(struct flow *flow) {
    struct chunk *chunk = flow->first;
    flow->first = chunk->next;
    if (!flow->first) flow->last = NULL;
    free(chunk);
}

static bool is_withheld(const struct proxy_connection *c, t_dir d) {
    if (d == T_TO_SERVER && c->stage == DETACHED) return true;
    return c->settings.withheld[d] || c->settings.blackhole;
}

static void kill_connection(struct proxy_connection *c) {
    for (int side = 0; side < 2; side++) {
        t_net_reset(c->fd[side]);
        c->fd[side] = -1;
    }
    c->dead = true;
}

/* The source of d has ended. After a reset it is closed, and nothing can be sent to it any more. */
static void source_ended(struct proxy_connection *c, t_dir d, enum end how) {
    struct flow *back = &c->flow[1 - d];
    c->flow[d].source_end = how;
    if (how == FINISHED) return;
    t_net_reset(c->fd[d]);
    c->fd[d] = -1;
    flow_clear(back);
    back->done = true;
    /* Both sides are closed. Only a detached connection still has its server side open. */
    if (c->fd[1 - d] < 0) c->dead = true;
}

/*
 * Pass the end of the source of d on to its destination. The server always gets a normal end: a
 * reset could overtake bytes that it has not read. The server then ends the connection itself.
 */
static void pass_end_on(struct proxy_connection *c, t_dir d) {
    struct flow *flow = &c->flow[d];
    int destination = c->fd[1 - d];
    if (d == T_TO_CLIENT && flow->source_end == RESET) {
        kill_connection(c);
        return;
    }
    if (destination >= 0) (void)shutdown(destination, SHUT_WR);
    flow->done = true;
}

/* One write. False if another one would not help now. */
static bool write_some(t_proxy *p, struct proxy_connection *c, t_dir d, int64_t now_us) {
    struct flow *flow = &c->flow[d];
    struct chunk *chunk = flow->first;
    size_t slice = c->settings.slice[d], size = chunk->length - chunk->written;
    if (slice && size > slice) size = slice;
    ssize_t n =
        send(c->fd[1 - d], chunk->bytes + chunk->written, size, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n < 0) {
        flow->blocked = errno == EAGAIN || errno == EINTR;
        if (!flow->blocked) source_ended(c, 1 - d, RESET);
        return false;
    }
    atomic_fetch_add(&p->forwarded[d], (uint64_t)n);
    flow->queued -= (size_t)n;
    chunk->written += (size_t)n;
    if (chunk->written == chunk->length) flow_drop_first(flow);
    if (slice) flow->next_write_us = now_us + SLICE_GAP_US;
    return !slice;
}

static bool writable_now(const struct proxy_connection *c, t_dir d, int64_t now_us) {
    const struct flow *flow = &c->flow[d];
    return flow->first && !flow->blocked && c->fd[1 - d] >= 0 && flow->first->ready_us <= now_us &&
           flow->next_write_us <= now_us;
}

static void write_flow(t_proxy *p, struct proxy_connection *c, t_dir d, int64_t now_us) {
    struct flow *flow = &c->flow[d];
    if (c->dead || flow->done || is_withheld(c, d)) return;
    while (writable_now(c, d, now_us) && write_some(p, c, d, now_us)) {
    }
    if (!c->dead && !flow->done && !flow->first && flow->source_end != OPEN) pass_end_on(c, d);
}

/* ---- Reading --------------------------------------------------------------------------------- */

static void keep_late_answer(t_proxy *p, const char *bytes, size_t length) {
    size_t space = LATE_MAX - 1 - p->late_length;
    if (length > space) length = space;
    memcpy(p->late_answers + p->late_length, bytes, length);
    p->late_length += length;
    p->late_answers[p->late_length] = '\0';
}

/* Whether this answer must be dropped. Dropping the last one resets the connection. */
static bool drop_answer(t_proxy *p, struct proxy_connection *c) {
    if (!p->drop_left || (p->drop_number && p->drop_number != c->number)) return false;
    if (--p->drop_left == 0) kill_connection(c);
    return true;
}

static void take_in(t_proxy *p, struct proxy_connection *c, t_dir d, const char *bytes,
                    size_t length) {
    atomic_fetch_add(&p->bytes[d], length);
    if (d == T_TO_CLIENT && c->stage == DELIVERED) keep_late_answer(p, bytes, length);
    if (c->flow[d].done || c->settings.blackhole) return;
    if (d == T_TO_CLIENT && drop_answer(p, c)) return;
    flow_push(&c->flow[d], bytes, length, t_now_us() + c->settings.delay_ms[d] * 1000);
}

/* One read. False if there was nothing to read. */
static bool read_some(t_proxy *p, struct proxy_connection *c, t_dir d) {
    char bytes[READ_MAX];
    if (c->fd[d] < 0 || c->flow[d].source_end != OPEN) return false;
    ssize_t n = recv(c->fd[d], bytes, sizeof bytes, MSG_DONTWAIT);
    if (n > 0) {
        take_in(p, c, d, bytes, (size_t)n);
        return true;
    }
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) return false;
    source_ended(c, d, n == 0 ? FINISHED : RESET);
    return false;
}

/* ---- Connections ----------------------------------------------------------------------------- */

static int connect_target(const t_proxy *p) {
    return p->target_path ? t_net_connect_unix_start(p->target_path)
                          : t_net_connect_start(p->target_port);
}

static void accept_one(t_proxy *p) {
    int on = 1;
    int client = accept4(p->listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (client < 0) return;
    (void)setsockopt(client, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    uint64_t number = atomic_fetch_add(&p->accepted, 1) + 1;
    int server = connect_target(p);
    if (server < 0) {
        t_net_reset(client);
        return;
    }
    struct proxy_connection *c = calloc(1, sizeof *c);
    if (!c) t_fail("out of memory");
    *c = (struct proxy_connection){
        .next = p->connections, .number = number, .fd = {client, server}, .settings = p->fresh};
    p->connections = c;
    atomic_fetch_add(&p->open, 1);
}

/* Without a client, only the bytes kept for the server matter, until the server ends. */
static bool is_over(const struct proxy_connection *c) {
    if (c->dead || (c->flow[0].done && c->flow[1].done && c->flow[1].source_end != OPEN))
        return true;
    return c->fd[0] < 0 && c->flow[T_TO_CLIENT].source_end != OPEN;
}

static void connection_free(t_proxy *p, struct proxy_connection *c) {
    if (c->stage == LIVE) {
        atomic_fetch_sub(&p->open, 1);
    } else {
        atomic_fetch_sub(&p->late, 1);
    }
    for (int side = 0; side < 2; side++) {
        if (c->fd[side] >= 0) close(c->fd[side]);
        flow_clear(&c->flow[side]);
    }
    free(c);
}

static void run_all_connections(t_proxy *p) {
    int64_t now_us = t_now_us();
    struct proxy_connection **at = &p->connections;
    while (*at) {
        struct proxy_connection *c = *at;
        write_flow(p, c, T_TO_SERVER, now_us);
        write_flow(p, c, T_TO_CLIENT, now_us);
        if (is_over(c)) {
            *at = c->next;
            connection_free(p, c);
        } else {
            at = &c->next;
        }
    }
}

/* ---- The loop -------------------------------------------------------------------------------- */

/* Leave out a side that we do not want to read: its hang-up would end every poll at once. */
static struct pollfd side_pollfd(const struct proxy_connection *c, int side) {
    const struct flow *from = &c->flow[side], *to = &c->flow[1 - side];
    short events = 0;
    if (from->source_end == OPEN && from->queued < QUEUE_MAX) events |= POLLIN;
    if (to->blocked) events |= POLLOUT;
    return (struct pollfd){.fd = events ? c->fd[side] : -1, .events = events};
}

static nfds_t fill_pollfds(t_proxy *p) {
    size_t n = 2;
    for (struct proxy_connection *c = p->connections; c; c = c->next) n += 2;
    if (n > p->pollfds_size) {
        p->pollfds = realloc(p->pollfds, 2 * n * sizeof *p->pollfds);
        if (!p->pollfds) t_fail("out of memory");
        p->pollfds_size = 2 * n;
    }
    p->pollfds[0] = (struct pollfd){.fd = p->wake, .events = POLLIN};
    p->pollfds[1] = (struct pollfd){.fd = p->listener, .events = POLLIN};
    struct pollfd *at = p->pollfds + 2;
    for (struct proxy_connection *c = p->connections; c; c = c->next) {
        *at++ = side_pollfd(c, 0);
        *at++ = side_pollfd(c, 1);
    }
    return n;
}

static void until_ready(const struct proxy_connection *c, t_dir d, int64_t now_us,
                        int64_t *wait_us) {
    const struct flow *flow = &c->flow[d];
    if (!flow->first || flow->blocked || flow->done || is_withheld(c, d)) return;
    int64_t due = flow->first->ready_us;
    if (due < flow->next_write_us) due = flow->next_write_us;
    int64_t left = due > now_us ? due - now_us : 0;
    if (*wait_us < 0 || left < *wait_us) *wait_us = left;
}

static void wait_for_events(t_proxy *p) {
    int64_t wait_us = -1, now_us = t_now_us();
    for (struct proxy_connection *c = p->connections; c; c = c->next) {
        until_ready(c, T_TO_SERVER, now_us, &wait_us);
        until_ready(c, T_TO_CLIENT, now_us, &wait_us);
    }
    nfds_t n = fill_pollfds(p);
    struct timespec wait = {.tv_sec = (time_t)(wait_us / 1000000),
                            .tv_nsec = (long)(wait_us % 1000000 * 1000)};
    if (ppoll(p->pollfds, n, wait_us < 0 ? NULL : &wait, NULL) < 0) {
        for (nfds_t i = 0; i < n; i++) p->pollfds[i].revents = 0;
    }
}

/* The list is the same as in fill_pollfds: nothing is freed or added before accept_one. */
static void handle_events(t_proxy *p) {
    const struct pollfd *at = p->pollfds + 2;
    eventfd_t ignored;
    for (struct proxy_connection *c = p->connections; c; c = c->next) {
        for (int side = 0; side < 2; side++, at++) {
            if (!at->revents) continue;
            c->flow[1 - side].blocked = false;
            (void)read_some(p, c, side == 0 ? T_TO_SERVER : T_TO_CLIENT);
        }
    }
    if (p->pollfds[0].revents) (void)eventfd_read(p->wake, &ignored);
    if (p->pollfds[1].revents) accept_one(p);
}

static void run_job(t_proxy *p) {
    pthread_mutex_lock(&p->mutex);
    if (p->job) {
        p->job->fn(p, p->job->arg);
        p->job->done = true;
        p->job = NULL;
        pthread_cond_broadcast(&p->changed);
    }
    pthread_mutex_unlock(&p->mutex);
}

static void *proxy_main(void *arg) {
    t_proxy *p = arg;
    t_exempt_begin();
    while (!p->quit) {
        run_all_connections(p);
        wait_for_events(p);
        handle_events(p);
        run_job(p);
    }
    return NULL;
}

/* ---- Starting and ending --------------------------------------------------------------------- */

static void start_thread(t_proxy *p) {
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int error = pthread_create(&p->thread, NULL, proxy_main, p);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (error) t_fail("cannot start the proxy's thread: %s", strerror(error));
}

static t_proxy *start_proxy(uint16_t target_port, const char *target_path) {
    t_exempt_begin();
    t_proxy *p = calloc(1, sizeof *p);
    if (!p) t_fail("out of memory");
    p->target_port = target_port;
    p->target_path = target_path ? strdup(target_path) : NULL;
    p->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (p->wake < 0) t_fail("eventfd: %s", strerror(errno));
    p->listener = t_net_listen_any(&p->port);
    snprintf(p->url, sizeof p->url, "redis://" T_HOST ":%u", p->port);
    pthread_mutex_init(&p->mutex, NULL);
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&p->changed, &attributes);
    pthread_condattr_destroy(&attributes);
    start_thread(p);
    t_exempt_end();
    return p;
}

t_proxy *t_proxy_start(uint16_t target_port) {
    return start_proxy(target_port, NULL);
}

t_proxy *t_proxy_start_unix(const char *target_path) {
    return start_proxy(0, target_path);
}

/* Run a function on the proxy's thread, and wait until it is done. */
static void on_thread(t_proxy *p, job_fn *fn, void *arg) {
    struct proxy_job job = {.fn = fn, .arg = arg};
    struct timespec until;
    int error = 0;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += (time_t)(t_patience(CONTROL_MS) / 1000);
    pthread_mutex_lock(&p->mutex);
    while (p->job && !error) error = pthread_cond_timedwait(&p->changed, &p->mutex, &until);
    if (!error) {
        p->job = &job;
        (void)eventfd_write(p->wake, 1);
    }
    while (!job.done && !error) error = pthread_cond_timedwait(&p->changed, &p->mutex, &until);
    if (p->job == &job) p->job = NULL;
    pthread_mutex_unlock(&p->mutex);
    if (error) t_fail("the proxy does not respond: %s", strerror(error));
}

static void do_quit(t_proxy *p, void *arg) {
    (void)arg;
    p->quit = true;
}

void t_proxy_free(t_proxy *proxy) {
    if (!proxy) return;
    on_thread(proxy, do_quit, NULL);
    pthread_join(proxy->thread, NULL);
    while (proxy->connections) {
        struct proxy_connection *c = proxy->connections;
        proxy->connections = c->next;
        kill_connection(c);
        connection_free(proxy, c);
    }
    t_net_unlisten(proxy->listener);
    close(proxy->wake);
    pthread_cond_destroy(&proxy->changed);
    pthread_mutex_destroy(&proxy->mutex);
    free(proxy->pollfds);
    free(proxy->target_path);
    free(proxy);
}

uint16_t t_proxy_port(const t_proxy *proxy) {
    return proxy->port;
}

const char *t_proxy_url(const t_proxy *proxy) {
    return proxy->url;
}

/* ---- Controls -------------------------------------------------------------------------------- */

static bool is_selected(const t_proxy *p, const struct proxy_connection *c) {
    return c->stage == LIVE && !c->dead && (!p->selected || p->selected == c->number);
}

static void do_select(t_proxy *p, void *arg) {
    p->selected = *(uint64_t *)arg;
}

void t_proxy_select(t_proxy *proxy, uint64_t n) {
    on_thread(proxy, do_select, &n);
}

static void do_cut(t_proxy *p, void *arg) {
    (void)arg;
    for (struct proxy_connection *c = p->connections; c; c = c->next) {
        if (is_selected(p, c)) kill_connection(c);
    }
}

void t_proxy_cut(t_proxy *proxy) {
    on_thread(proxy, do_cut, NULL);
}

/* Connections that are not accepted yet are reset together with the listener. */
static void do_refuse(t_proxy *p, void *arg) {
    bool *on = arg;
    if (*on) {
        t_net_unlisten(p->listener);
        p->listener = -1;
    } else if (p->listener < 0) {
        p->listener = t_net_listen(p->port);
        *on = p->listener < 0;
    }
}

void t_proxy_refuse(t_proxy *proxy, bool on) {
    bool still_closed = on;
    on_thread(proxy, do_refuse, &still_closed);
    if (still_closed != on) t_fail("port %u was taken while the proxy had closed it", proxy->port);
}

enum what { DELAY, SLICE, WITHHOLD, BLACKHOLE };

struct change {
    enum what what;
    t_dir dir;
    int64_t value;
    bool applied;
};

static void apply_change(struct settings *settings, struct change *change) {
    change->applied = true;
    switch (change->what) {
    case DELAY: settings->delay_ms[change->dir] = change->value; break;
    case SLICE: settings->slice[change->dir] = (size_t)change->value; break;
    case WITHHOLD: settings->withheld[change->dir] = change->value != 0; break;
    case BLACKHOLE: settings->blackhole = change->value != 0; break;
    }
}

static void do_change(t_proxy *p, void *arg) {
    struct change *change = arg;
    if (!p->selected) apply_change(&p->fresh, change);
    for (struct proxy_connection *c = p->connections; c; c = c->next) {
        if (is_selected(p, c)) apply_change(&c->settings, change);
    }
}

static void change_setting(t_proxy *proxy, enum what what, t_dir dir, int64_t value) {
    struct change change = {.what = what, .dir = dir, .value = value};
    on_thread(proxy, do_change, &change);
    if (!change.applied) t_fail("the connection that was selected in the proxy is not open");
}

void t_proxy_delay(t_proxy *proxy, t_dir dir, int64_t ms) {
    change_setting(proxy, DELAY, dir, ms);
}

void t_proxy_slice(t_proxy *proxy, t_dir dir, size_t bytes) {
    change_setting(proxy, SLICE, dir, (int64_t)bytes);
}

void t_proxy_withhold(t_proxy *proxy, t_dir dir, bool on) {
    change_setting(proxy, WITHHOLD, dir, on);
}

void t_proxy_blackhole(t_proxy *proxy, bool on) {
    change_setting(proxy, BLACKHOLE, T_TO_SERVER, on);
}

static void do_drop_answers(t_proxy *p, void *arg) {
    p->drop_left = *(unsigned *)arg;
    p->drop_number = p->selected;
}

void t_proxy_drop_answers(t_proxy *proxy, unsigned n) {
    on_thread(proxy, do_drop_answers, &n);
}

/* ---- Late bytes ------------------------------------------------------------------------------ */

static size_t detach_one(t_proxy *p, struct proxy_connection *c) {
    while (read_some(p, c, T_TO_SERVER)) {
    } /* the client's bytes belong to it */
    if (c->dead) return 0;
    /* From now on this counts as late bytes, not as an open connection. */
    atomic_fetch_sub(&p->open, 1);
    atomic_fetch_add(&p->late, 1);
    c->stage = DETACHED;
    c->settings = (struct settings){0};
    if (c->fd[0] >= 0) source_ended(c, T_TO_SERVER, RESET);
    return c->flow[T_TO_SERVER].queued;
}

static void do_detach(t_proxy *p, void *arg) {
    size_t *held_back = arg;
    for (struct proxy_connection *c = p->connections; c; c = c->next) {
        if (is_selected(p, c)) *held_back += detach_one(p, c);
    }
    if (!p->selected) p->fresh.withheld[T_TO_SERVER] = false;
}

size_t t_proxy_detach(t_proxy *proxy) {
    size_t held_back = 0;
    on_thread(proxy, do_detach, &held_back);
    return held_back;
}

static void do_deliver(t_proxy *p, void *arg) {
    size_t *held_back = arg;
    for (struct proxy_connection *c = p->connections; c; c = c->next) {
        if (c->stage != DETACHED) continue;
        c->stage = DELIVERED;
        *held_back += c->flow[T_TO_SERVER].queued;
    }
}

/* The end of the stream follows the bytes. The server ends after it has processed them. */
size_t t_proxy_deliver(t_proxy *proxy) {
    size_t held_back = 0;
    on_thread(proxy, do_deliver, &held_back);
    T_WAIT_UNTIL(atomic_load(&proxy->late) == 0, DELIVER_MS);
    return held_back;
}

static void do_nothing(t_proxy *p, void *arg) {
    (void)p, (void)arg;
}

const char *t_proxy_late_answers(t_proxy *proxy) {
    on_thread(proxy, do_nothing, NULL); /* makes the thread's earlier writes visible here */
    return proxy->late_answers;
}

/* ---- Counters -------------------------------------------------------------------------------- */

uint64_t t_proxy_connections(const t_proxy *proxy) {
    return atomic_load(&proxy->accepted);
}

uint64_t t_proxy_open(const t_proxy *proxy) {
    return atomic_load(&proxy->open);
}

uint64_t t_proxy_bytes(const t_proxy *proxy, t_dir dir) {
    return atomic_load(&proxy->bytes[dir]);
}

/* A byte can arrive before it is counted: let the thread finish its current iteration. */
uint64_t t_proxy_forwarded(t_proxy *proxy, t_dir dir) {
    on_thread(proxy, do_nothing, NULL);
    return atomic_load(&proxy->forwarded[dir]);
}

void t_proxy_wait_connections(t_proxy *proxy, uint64_t at_least, int64_t deadline_ms) {
    T_WAIT_UNTIL(t_proxy_connections(proxy) >= at_least, deadline_ms);
}

void t_proxy_wait_bytes(t_proxy *proxy, t_dir dir, uint64_t at_least, int64_t deadline_ms) {
    int64_t until = t_now_ms() + t_patience(deadline_ms);
    while (t_proxy_bytes(proxy, dir) < at_least) {
        if (t_now_ms() > until) {
            t_fail("waited %lld ms for %llu bytes to the %s: got %llu",
                   (long long)t_patience(deadline_ms), (unsigned long long)at_least,
                   dir == T_TO_SERVER ? "server" : "client",
                   (unsigned long long)t_proxy_bytes(proxy, dir));
        }
        t_sleep_ms(1);
    }
}
