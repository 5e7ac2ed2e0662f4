/* SPDX-License-Identifier: Apache-2.0 */
#include "store/redis/net/link.h"

#include "base/error.h"
#include "store/net/password.h"

#define PAUSE        HF__MS        /* idle time after which to read before sending */
#define UNREAD_PAUSE (20 * HF__MS) /* until the next check of an answer that is not read */

static hf__transport transport_of(const hf__url *url) {
    return url->scheme == HF__SCHEME_REDIS_UNIX  ? HF__UNIX_SOCKET
           : url->scheme == HF__SCHEME_REDIS_TLS ? HF__TCP_TLS
                                                 : HF__TCP;
}

bool hf__link_init(hf__link *l, hf__session_role role, const hf__url *url, const hf__identity *who,
                   hf__log *log) {
    l->recheck_at = 0;
    hf__connection_init(&l->net, url, transport_of(url), HF__OUT_MAX, log);
    l->net.plain_hint = "; if the server uses TLS, use rediss://";
    return hf__session_init(&l->session, role, url, who, log, l->net.where);
}

void hf__link_fini(hf__link *l, bool forked) {
    hf__connection_fini(&l->net, forked);
    hf__session_fini(&l->session);
}

/* ---- The session follows the connection ---- */

static void log_in(hf__link *l, hf__time now) {
    char *password, *detail;
    hf_result r = hf__password_get(l->net.url, &password, &detail);
    if (!r) r = hf__session_begin(&l->session, password, now);
    hf__password_free(password);
    if (r) hf__connection_fail(&l->net, r, detail, now);
}

static void follow_connection(hf__link *l) {
    bool away = l->session.state == HF__AWAY;
    if (away && l->net.state == HF__NET_LOGIN) log_in(l, hf__now());
    if (!away && l->net.state != HF__NET_LOGIN && l->net.state != HF__NET_UP)
        hf__session_break(&l->session);
}

static void read_some(hf__link *l, pthread_mutex_t *mutex, hf__read_mode mode) {
    const char *bytes;
    char *detail = NULL;
    size_t length = hf__connection_read(&l->net, mode, mutex, &bytes);
    follow_connection(l);
    if (!length || l->session.state == HF__AWAY) return;
    hf_result r = hf__session_feed(&l->session, bytes, length, l->net.fed_at, &detail);
    if (r)
        hf__connection_fail(&l->net, r, detail, l->net.fed_at);
    else if (l->net.state == HF__NET_LOGIN && l->session.state == HF__READY)
        hf__connection_up(&l->net, l->session.link > 1);
    follow_connection(l);
}

/* After a pause, read before sending. This shows whether the server has closed the connection. It
   also prevents unsolicited bytes from being taken for the answer. */
static bool must_read_first(const hf__link *l) {
    return l->net.state == HF__NET_UP && l->net.sent == l->net.sending.length &&
           l->session.out.length && l->session.in_flight == l->session.unsent &&
           hf__now() - l->net.fed_at > PAUSE;
}

void hf__link_flush(hf__link *l, pthread_mutex_t *mutex) {
    if (must_read_first(l)) read_some(l, mutex, HF__READ_AT_ONCE);
    do {
        if (hf__connection_take(&l->net, &l->session.out)) l->session.unsent = 0;
    } while (hf__connection_send(&l->net, mutex));
    follow_connection(l);
}

void hf__link_renew(hf__link *l, hf__time now) {
    hf__connection_renew(&l->net, now);
    follow_connection(l);
}

void hf__link_move(hf__link *l, hf__time when) {
    hf__connection_move(&l->net, when);
    follow_connection(l);
}

void hf__link_ready(hf__link *l, short events, pthread_mutex_t *mutex) {
    if (hf__connection_ready(&l->net, events)) read_some(l, mutex, HF__READ_AT_ONCE);
    follow_connection(l);
}

bool hf__link_wait(hf__link *l, bool spin, pthread_mutex_t *mutex) {
    if (l->net.state != HF__NET_UP) return false;
    if (l->net.reading || l->net.want_write || !l->session.in_flight) return false;
    read_some(l, mutex, spin ? HF__READ_POLL_FIRST : HF__READ_SLEEP);
    return true;
}

/* ---- Time ---- */

static hf__time answer_deadline(const hf__link *l) {
    hf__time since = hf__session_waits_since(&l->session);
    if (since == HF__NEVER) return HF__NEVER;
    return hf__later(hf__after_ms(since, l->net.url->command_timeout_ms), l->recheck_at);
}

void hf__link_tick(hf__link *l, hf__time now) {
    bool overdue = l->net.state == HF__NET_UP && now >= answer_deadline(l);
    /* The answer may have come in time without being read: a client without a background thread
       may be asleep. */
    if (overdue && hf__connection_unread(&l->net))
        l->recheck_at = now + UNREAD_PAUSE;
    else if (overdue)
        hf__connection_fail(&l->net, HF_UNREACHABLE,
                            hf__line("%s did not answer within command_timeout (%" PRId64 " ms)",
                                     l->net.where, l->net.url->command_timeout_ms),
                            now);
    else
        hf__connection_tick(&l->net, now);
    follow_connection(l);
    if (l->net.state == HF__NET_UP) hf__session_tick(&l->session, now);
}

hf__time hf__link_due(const hf__link *l) {
    return l->net.state == HF__NET_UP ? hf__sooner(answer_deadline(l), hf__session_due(&l->session))
                                      : hf__connection_due(&l->net);
}

/* With no operation in flight, the connection can be closed cleanly, after removing the
   registration. */
void hf__link_shut(hf__link *l) {
    bool clean = l->net.state == HF__NET_UP && hf__connection_quiet(&l->net) &&
                 !l->session.sent.last && !l->session.out.length;
    if (clean) hf__session_unregister(&l->session);
    hf__connection_shut(&l->net, clean ? &l->session.out : NULL);
    hf__session_break(&l->session);
}
