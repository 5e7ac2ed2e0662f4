/* SPDX-License-Identifier: Apache-2.0 */
#include "store/redis/topology/sentinel_watch.h"

#include <stdlib.h>

#include "base/error.h"

#define LISTEN      (5 * HF__SEC)
#define AGAIN_FIRST (100 * HF__MS)
#define AGAIN_MOST  HF__SEC
#define DOUBLINGS   4

static void connect_to_sentinel(hf__sentinel_watch *w, hf__time now) {
    const hf__host *host = &w->sentinel.url->hosts[w->sentinel.at];
    w->url.host = host->name;
    w->url.port = host->port;
    w->listening = false;
    hf__link_move(&w->link, now);
}

/* All Sentinels together get the time that one connection may take. */
static int64_t timeout_share(const hf__url *url, unsigned count) {
    int64_t share = url->connect_timeout_ms / (count + 1);
    return share > 0 ? share : 1;
}

hf__sentinel_watch *hf__sentinel_watch_new(const hf__url *url, const hf__identity *who,
                                           hf__log *log) {
    hf__sentinel_watch *w = calloc(1, sizeof *w);
    if (!w) return NULL;
    w->log = log;
    hf__sentinel_init(&w->sentinel, url);
    w->url = *url;
    w->url.scheme =
        url->scheme == HF__SCHEME_SENTINEL_TLS ? HF__SCHEME_REDIS_TLS : HF__SCHEME_REDIS;
    w->url.user = url->sentinel_user;
    w->url.password = url->sentinel_password;
    w->url.password_file = url->sentinel_password_file;
    w->url.db = 0;
    w->url.connect_timeout_ms = timeout_share(url, w->sentinel.count);
    w->url.host = url->hosts[0].name;
    w->url.port = url->hosts[0].port;
    if (!hf__link_init(&w->link, HF__SENTINEL, &w->url, who, log)) {
        hf__sentinel_watch_free(w, false);
        return NULL;
    }
    w->link.net.quiet = true;
    w->link.session.sentinel = &w->sentinel;
    return w;
}

void hf__sentinel_watch_free(hf__sentinel_watch *w, bool forked) {
    if (!w) return;
    hf__link_fini(&w->link, forked);
    free(w->detail);
    free(w);
}

/* ---- Results of asking a Sentinel ---- */

static void clear_failure(hf__sentinel_watch *w) {
    w->failed = 0;
    w->silent &= ~(1u << w->sentinel.at);
    w->result = HF_OK;
    free(w->detail);
    w->detail = NULL;
}

static bool has_majority(const hf__sentinel_watch *w) {
    unsigned asked = (unsigned)__builtin_popcount(w->asked_by);
    unsigned answered = (unsigned)__builtin_popcount(w->answered_by);
    return answered > w->sentinel.count / 2 || (answered && asked == w->sentinel.count);
}

void hf__sentinel_watch_recheck(hf__sentinel_watch *w) {
    w->asked_by = w->answered_by = 0;
}

static hf__time next_pause(hf__sentinel_watch *w) {
    if (!has_majority(w) && w->asked_by != (1u << w->sentinel.count) - 1) return 0;
    if (w->primary_up) return hf__jitter(&w->link.net.rand, LISTEN);
    unsigned doublings = w->rounds < DOUBLINGS ? w->rounds : DOUBLINGS;
    w->rounds++;
    return hf__jitter(&w->link.net.rand, hf__sooner(AGAIN_FIRST << doublings, AGAIN_MOST));
}

static void note_answer(hf__sentinel_watch *w, hf__time now) {
    w->listening = true;
    w->asked_by |= 1u << w->sentinel.at;
    w->answered_by |= 1u << w->sentinel.at;
    clear_failure(w);
    if (w->sentinel.older) /* this Sentinel is one of them */
        hf__log_add(w->log, HF_LOG_INFO,
                    "the Sentinel at %s is behind the others and is not believed: it says that the "
                    "primary is at %s, port %d",
                    w->link.net.where, w->sentinel.reported.host, (int)w->sentinel.reported.port);
    w->leave_at = now + next_pause(w);
}

/* The next Sentinel is asked at once, but after a round in which all have failed there is a
   pause. */
static void note_failure(hf__sentinel_watch *w, hf__time now) {
    uint32_t bit = 1u << w->sentinel.at;
    hf_result result = w->link.net.down_result ? w->link.net.down_result : HF_UNREACHABLE;
    const char *why = w->link.net.down_detail ? w->link.net.down_detail : hf_result_text(result);
    hf__log_add(w->log, w->silent & bit ? HF_LOG_DEBUG : HF_LOG_WARNING, "%s", why);
    w->silent |= bit;
    w->asked_by |= bit;
    if (++w->failed >= w->sentinel.count) {
        free(w->detail);
        w->result = result;
        w->detail = hf__line("no Sentinel says where the primary '%.60s' is: %s",
                             w->sentinel.url->primary, why);
    }
    hf__sentinel_next(&w->sentinel);
    connect_to_sentinel(w, w->failed % w->sentinel.count ? now : now + next_pause(w));
}

/* ---- Running ---- */

/* While the primary is up, Sentinels are asked with long pauses. When it goes down, the pause ends
   at once. */
static void set_primary_up(hf__sentinel_watch *w, bool primary_up, hf__time now) {
    w->primary_up = primary_up;
    w->rounds = 0;
    if (!primary_up) hf__sentinel_watch_recheck(w);
    w->leave_at = primary_up ? now + next_pause(w) : now;
    if (!primary_up && w->link.net.state == HF__NET_IDLE) w->link.net.retry_at = now;
}

static void check_link(hf__sentinel_watch *w, hf__time now) {
    bool idle = w->link.net.state == HF__NET_IDLE;
    if (w->link.net.state == HF__NET_UP && !w->listening)
        note_answer(w, now);
    else if (idle && w->listening) /* the Sentinel disconnected: ask the next one */
        w->leave_at = now;
    else if (idle && w->link.net.failures)
        note_failure(w, now);
    if (!w->listening) return;
    if (w->sentinel.switched) {
        hf__log_add(w->log, HF_LOG_INFO, "the Sentinel at %s reports a failover",
                    w->link.net.where);
        connect_to_sentinel(w, now);
    } else if (now >= w->leave_at) {
        hf__sentinel_next(&w->sentinel);
        connect_to_sentinel(w, now);
    }
}

void hf__sentinel_watch_tick(hf__sentinel_watch *w, bool primary_up, hf__time now) {
    if (!w->open_until) w->open_until = hf__after_ms(now, w->sentinel.url->connect_timeout_ms);
    if (primary_up || now >= w->open_until) w->open_until = HF__NEVER;
    if (primary_up != w->primary_up) set_primary_up(w, primary_up, now);
    check_link(w, now);
    hf__link_tick(&w->link, now);
    check_link(w, now);
}

hf__time hf__sentinel_watch_due(const hf__sentinel_watch *w) {
    hf__time due = hf__sooner(hf__link_due(&w->link), w->open_until);
    return w->listening ? hf__sooner(due, w->leave_at) : due;
}

const hf__address *hf__sentinel_watch_primary(const hf__sentinel_watch *w) {
    return w->sentinel.primary.port && (w->primary_up || has_majority(w)) ? &w->sentinel.primary
                                                                          : NULL;
}

bool hf__sentinel_watch_opening(const hf__sentinel_watch *w) {
    return w->open_until != HF__NEVER;
}
