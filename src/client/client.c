/* SPDX-License-Identifier: Apache-2.0 */
/* Opening and closing a client, and how every call begins and ends. */
#include "client/client.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/text.h"
#include "client/async.h"
#include "client/callbacks.h"
#include "client/loop.h"
#include "client/observe.h"
#include "client/options.h"
#include "client/watch.h"
#include "store/cluster/cluster.h"
#include "store/file/file.h"
#include "store/memory/memory.h"
#include "store/quorum/quorum.h"
#include "store/redis/redis.h"

#define LEASE_MS           30000
#define CONNECT_TIMEOUT_MS 5000
#define COMMAND_TIMEOUT_MS 5000
#define OUTAGE_MS          10000
#define TIMEOUT_MAX_MS     INT64_C(86400000)
#define MEASURES           3 /* of the round trip, before a lease is refused as too short */

#define STRING(x)  #x
#define VERSION(x) STRING(x)

const char *hf_version(void) {
    return VERSION(HF_VERSION_MAJOR) "." VERSION(HF_VERSION_MINOR) "." VERSION(HF_VERSION_PATCH);
}

/* ---- Checks ---- */

hf_result hf__name_check(const char *name, size_t *length) {
    if (!name || !*name)
        return hf__fail(HF_INVALID, "a lock needs a name of 1 to %d bytes", HF_NAME_MAX);
    *length = strnlen(name, HF_NAME_MAX + 1);
    if (*length <= HF_NAME_MAX) return HF_OK;
    return hf__fail(HF_INVALID, "the name is longer than %d bytes", HF_NAME_MAX);
}

hf_result hf__lease_check(int64_t lease_ms) {
    if (lease_ms >= HF_LEASE_MIN_MS && lease_ms <= HF_LEASE_MAX_MS) return HF_OK;
    return hf__fail(HF_INVALID,
                    "a lease of %" PRId64 " ms is out of range: %" PRId64 " ms to %" PRId64
                    " ms (30 days)",
                    lease_ms, HF_LEASE_MIN_MS, HF_LEASE_MAX_MS);
}

/* Two round trips and the margin would use up such a lease before the client knows of the grant. */
static bool is_too_short(const hf_client *c, int64_t lease_ms) {
    return lease_ms * 1000 / 4 < c->store->round_trip_us;
}

static hf_result refuse_lease(const hf_client *c, int64_t lease_ms) {
    return hf__fail(HF_INVALID,
                    "a lease of %" PRId64 " ms is less than four round trips to this store "
                    "(%" PRId64 " ms each)",
                    lease_ms, c->store->round_trip_us / 1000);
}

hf_result hf__lease_fits(hf_client *c, int64_t lease_ms, int64_t *wait_ms,
                         const hf_cancel *cancel) {
    if (!is_too_short(c, lease_ms)) return HF_OK;
    const hf__url *config = &c->url;
    bool forever = *wait_ms == HF_FOREVER;
    int64_t patience_ms = forever || *wait_ms > config->outage_ms ? config->outage_ms : *wait_ms;
    hf__time began = hf__now(), patience = hf__after_ms(began, patience_ms);
    hf__time until = hf__later(patience, hf__after_ms(began, config->command_timeout_ms));
    unsigned measured = 0;
    while (is_too_short(c, lease_ms)) {
        if (measured >= MEASURES && hf__now() >= patience) return refuse_lease(c, lease_ms);
        if (!hf__await_round_trip(c, until, cancel)) break;
        measured++;
    }
    if (*wait_ms > 0) {
        int64_t left_ms = *wait_ms - (hf__now() - began) / HF__MS;
        *wait_ms = left_ms > 1 ? left_ms : 1;
    }
    bool in_time = hf__now() < until;
    return measured && !in_time && is_too_short(c, lease_ms) ? refuse_lease(c, lease_ms) : HF_OK;
}

hf_result hf__lease_fits_by_now(hf_client *c, int64_t lease_ms) {
    if (!is_too_short(c, lease_ms)) return HF_OK;
    c->store->wants_round_trip = true;
    if (c->store->round_trips < MEASURES) return HF_OK;
    /* otherwise no thread might ever measure, and the lease would be refused forever */
    (void)hf__background_start(c);
    return refuse_lease(c, lease_ms);
}

static hf_result check_timeout(const char *what, int64_t ms) {
    if (ms >= 0 && ms <= TIMEOUT_MAX_MS) return HF_OK;
    return hf__fail(HF_INVALID,
                    "%s %" PRId64 " is out of range: 1 to %" PRId64 " ms, 0 for the default", what,
                    ms, TIMEOUT_MAX_MS);
}

static hf_result check_options(const hf_client_options *o) {
    hf_result r = check_timeout("connect_timeout_ms", o->connect_timeout_ms);
    if (!r) r = check_timeout("command_timeout_ms", o->command_timeout_ms);
    if (!r) r = check_timeout("outage_ms", o->outage_ms);
    if (!r && o->flags & ~(uint32_t)HF_NO_THREAD)
        r = hf__fail(HF_UNSUPPORTED, "flags 0x%x contain a flag that this version does not know",
                     o->flags);
    if (!r && o->log_level > HF_LOG_DEBUG)
        r = hf__fail(HF_INVALID, "log_level %u is above HF_LOG_DEBUG", o->log_level);
    return r;
}

/* ---- Calls ---- */

hf_result hf__call_begin(hf_client *c) {
    if (!c) return hf__fail(HF_INVALID, "client is NULL");
    if (c->fork_generation != hf__fork_generation())
        return hf__fail(HF_FORKED, "the client belongs to the parent process; open one here");
    pthread_mutex_lock(&c->mutex);
    if (c->closed) {
        pthread_mutex_unlock(&c->mutex);
        return hf__fail(HF_CLOSED, "the client is closed");
    }
    c->active_calls++;
    return HF_OK;
}

hf_result hf__call_begin_latch_leader(hf_client *c) {
    hf_result r = hf__call_begin(c);
    if (r || c->store->has_latch_leader) return r;
    hf__call_end(c);
    return hf__fail(HF_UNSUPPORTED, "this store has no latches and leaders, because the nodes of a "
                                    "quorum cannot agree on them; use a single Redis");
}

void hf__call_end(hf_client *c) {
    /* Waking other threads uses the client, and hf_close may free it once the last call has
       ended. */
    while (hf__flush_wakeups(c)) continue;
    hf__loop_refresh(c);
    if (!--c->active_calls && c->closed) pthread_cond_broadcast(&c->calls_finished);
    pthread_mutex_unlock(&c->mutex);
}

hf_result hf__call_result(hf__call *call) {
    if (call->result != HF_OK) hf__fail_line(call->result, call->detail);
    free(call->detail);
    call->detail = NULL;
    return call->result;
}

/* ---- Creating ---- */

static void fill_identity(hf__identity *who, const char *label) {
    hf__uuid_make(who->client);
    who->pid = getpid();
    if (gethostname(who->host, sizeof who->host - 1) != 0) who->host[0] = '\0';
    hf__text_copy(who->program, sizeof who->program, program_invocation_short_name);
    hf__text_copy(who->label, sizeof who->label, label);
}

static int64_t choose_first_set(int64_t a, int64_t b, int64_t otherwise) {
    return a ? a : b ? b : otherwise;
}

/* The URL overrides the options, and the options override the defaults. */
static void merge_options(hf_client *c, const hf_client_options *o) {
    hf__url *u = &c->url;
    u->lease_ms = choose_first_set(u->lease_ms, o->lease_ms, LEASE_MS);
    u->connect_timeout_ms =
        choose_first_set(u->connect_timeout_ms, o->connect_timeout_ms, CONNECT_TIMEOUT_MS);
    u->command_timeout_ms =
        choose_first_set(u->command_timeout_ms, o->command_timeout_ms, COMMAND_TIMEOUT_MS);
    u->outage_ms = choose_first_set(u->outage_ms, o->outage_ms, OUTAGE_MS);
    u->rejoin_delay_ms = choose_first_set(u->rejoin_delay_ms, 0, HF__REJOIN_DELAY_MS);
}

/* Each node has its own store, as if it were the only server. */
static hf__store *make_quorum(hf_client *c, const hf__identity *who) {
    const hf__url *u = &c->url;
    hf__quorum_node nodes[HF__HOSTS_MAX] = {0};
    int count = 0;
    c->node_urls = calloc(HF__HOSTS_MAX, sizeof *c->node_urls);
    if (!c->node_urls) return NULL;
    for (; count < HF__HOSTS_MAX && u->hosts[count].name; count++) {
        hf__url *url = &c->node_urls[count];
        *url = *u;
        url->scheme = u->scheme == HF__SCHEME_QUORUM_TLS ? HF__SCHEME_REDIS_TLS : HF__SCHEME_REDIS;
        url->host = u->hosts[count].name;
        url->port = u->hosts[count].port;
        snprintf(nodes[count].name, sizeof nodes[count].name,
                 strchr(url->host, ':') ? "[%s]:%d" : "%s:%d", url->host, (int)url->port);
        nodes[count].store = hf__redis_new(url, who, &c->log);
    }
    hf__quorum_config config = {.command_timeout_ms = u->command_timeout_ms,
                                .rejoin_ms = u->rejoin_delay_ms,
                                .seed = hf__rand_seed()};
    return hf__quorum_new(&config, nodes, count, &c->log);
}

static bool is_quorum(const hf__url *u) {
    return u->scheme == HF__SCHEME_QUORUM || u->scheme == HF__SCHEME_QUORUM_TLS;
}

/* Checked when the client is opened, so that a wrong configuration fails then, and not in the first
   acquire. */
static hf_result check_quorum_lease(const hf__url *u) {
    char *detail = NULL;
    hf_result r = hf__quorum_lease_check(u->rejoin_delay_ms, u->lease_ms, &detail);
    if (r) hf__fail_line(r, detail);
    free(detail);
    return r;
}

static hf_result make_store(hf_client *c, const hf_client_options *o) {
    hf__identity who = {0};
    hf_result r = is_quorum(&c->url) ? check_quorum_lease(&c->url) : HF_OK;
    if (r) return r;
    fill_identity(&who, c->url.label ? c->url.label : o->label);
    if (c->url.scheme == HF__SCHEME_FILE) return hf__file_new(&c->url, &who, &c->log, &c->store);
    if (c->url.scheme == HF__SCHEME_MEMORY)
        c->store = hf__memory_new(c->url.path, c->url.prefix, &who);
    else if (is_quorum(&c->url))
        c->store = make_quorum(c, &who);
    else if (c->url.scheme == HF__SCHEME_CLUSTER || c->url.scheme == HF__SCHEME_CLUSTER_TLS)
        c->store = hf__cluster_new(&c->url, &who, &c->log);
    else
        c->store = hf__redis_new(&c->url, &who, &c->log);
    return c->store ? HF_OK : hf__fail(HF_NOMEM, "out of memory");
}

static hf_client *client_new(const hf_client_options *o) {
    hf_client *c = calloc(1, sizeof *c);
    if (!c) return NULL;
    atomic_init(&c->refs, 1);
    pthread_mutex_init(&c->mutex, NULL);
    pthread_cond_init(&c->calls_finished, NULL);
    pthread_cond_init(&c->callback_work, NULL);
    pthread_cond_init(&c->callback_done, NULL);
    c->fork_generation = hf__fork_generation();
    c->rand = (hf__rand){hf__rand_seed()};
    c->background_wake_fd = c->background_timer_fd = c->leader.fd = -1;
    c->cancel_epoll = c->loop.fd = c->loop.store = c->loop.timer = -1;
    hf__log_init(&c->log, o->log, o->log_arg, o->log_level);
    return c;
}

static void free_all(hf_client *c, bool forked) {
    if (c->store) {
        hf__core_free(c->core);
        c->store->table->free(c->store, forked);
    }
    hf__log_run(hf__log_take(&c->log), NULL, NULL);
    hf__wakers_free(&c->wakers);
    hf__event_free(c->background_wake_fd);
    hf__event_free(c->background_timer_fd);
    hf__event_free(c->cancel_epoll);
    hf__loop_fini(c);
    free(c->node_urls);
    hf__url_fini(&c->url);
    free(c);
}

void hf__client_unref(hf_client *c) {
    if (atomic_fetch_sub_explicit(&c->refs, 1, memory_order_acq_rel) != 1) return;
    bool forked = c->fork_generation != hf__fork_generation();
    /* If a thread of the parent was active during the fork, the client may be inconsistent: do not
       free it. */
    if (forked && pthread_mutex_trylock(&c->mutex) != 0) return;
    free_all(c, forked);
}

/* ---- Opening ---- */

static hf_result connect_store(hf_client *c) {
    pthread_mutex_lock(&c->mutex);
    c->opening = true;
    hf_result r = hf__await_up(c, HF__NEVER); /* ends with the store's connect timeout */
    c->opening = false;
    hf__unlock(c);
    return r;
}

static hf_result open_client(hf_client *c, const char *url, const hf_client_options *o) {
    hf_result r = hf__url_parse(&c->url, url);
    if (r) return r;
    merge_options(c, o);
    r = hf__lease_check(c->url.lease_ms);
    if (!r) r = make_store(c, o);
    if (r) return r;
    hf__core_config config = {.lease_ms = c->url.lease_ms,
                              .command_timeout_ms = c->url.command_timeout_ms,
                              .outage_ms = c->url.outage_ms,
                              .unattended = o->flags & HF_NO_THREAD};
    c->core = hf__core_new(c->store, &config, hf__rand_next(&c->rand));
    r = c->core ? connect_store(c) : hf__fail(HF_NOMEM, "out of memory");
    if (r || !(o->flags & HF_NO_THREAD)) return r;
    c->cancel_epoll = epoll_create1(EPOLL_CLOEXEC);
    return hf__loop_init(c);
}

hf_result hf_open_v(const char *url, const hf_client_options *options, size_t size,
                    hf_client **client) {
    hf_client_options o;
    if (!client) return hf__fail(HF_INVALID, "hf_open needs a pointer for the client");
    *client = NULL;
    hf_result r = hf__options_copy("hf_client_options", &o, sizeof o, options, size);
    if (!r) r = check_options(&o);
    if (r) return r;
    if (!url) url = getenv("HOLDFAST_URL");
    if (!url || !*url)
        return hf__fail(
            HF_INVALID,
            "no store was given; pass a URL such as redis://localhost, or set HOLDFAST_URL");
    hf_client *c = client_new(&o);
    if (!c) return hf__fail(HF_NOMEM, "out of memory");
    r = open_client(c, url, &o);
    if (r == HF_OK)
        *client = c;
    else
        hf__client_unref(c);
    return r;
}

/* ---- Closing ---- */

static void end_holds(hf_client *c) {
    hf__call call = {0};
    hf__time now = hf__now();
    hf__core_close(c->core, &call, now);
    hf__time until = hf__core_connected(c->core) ? hf__command_until(c, now) : now;
    if (hf__await(c, &call, until, NULL) != HF__DONE) hf__core_close_unwait(c->core);
}

/* No other thread is left to run these callbacks. */
static void run_last_callbacks(hf_client *c) {
    pthread_mutex_lock(&c->mutex);
    while (hf__callbacks_due(c)) hf__callbacks_run(c);
    hf__unlock(c);
}

void hf_close(hf_client *c) {
    if (!c) return;
    if (c->fork_generation == hf__fork_generation()) {
        pthread_mutex_lock(&c->mutex);
        c->closed = true;
        hf__observe_close(c);
        hf__watch_close(c);
        end_holds(c);
        hf__unlock(c);
        /* join first: while a thread reads, the store cannot close its connection cleanly */
        hf__background_join(c);
        pthread_mutex_lock(&c->mutex);
        c->store->table->shut(c->store, hf__now());
        hf__async_close(c);
        hf__run_once(c, NULL);
        while (c->active_calls) {
            hf__unlock(c);
            pthread_mutex_lock(&c->mutex);
            if (c->active_calls) pthread_cond_wait(&c->calls_finished, &c->mutex);
        }
        hf__unlock(c);
        hf__callbacks_join(c);
        if (c->loop.fd >= 0) run_last_callbacks(c);
    } else {
        hf__async_forget(c);
    }
    hf__client_unref(c);
}
