/* SPDX-License-Identifier: Apache-2.0 */
#include "store/redis/protocol/notifications.h"

bool hf__is_queued(const hf__op *op) {
    return op->queued ||
           (op->verb == HF__RELEASE && op->next_acquire && op->next_acquire->result == HF_BUSY);
}

void hf__notifications_note_answer(hf__notifications *n, const hf__op *op) {
    if (!hf__is_queued(op)) return;
    n->wanted = true;
    n->queued_at = op->sent_at;
}

/* When the subscription begins or ends, all waiters recheck, because a message may have been
   missed. */
void hf__notifications_update(hf__notifications *n, bool listening) {
    if (n->per_name) listening = n->listening;
    if (listening != n->listening || n->messages->missed) n->must_recheck = true;
    n->listening = n->commands->subscribed = listening;
    n->messages->missed = false;
}

void hf__notifications_connecting(hf__notifications *n) {
    n->commands_link = n->commands->link;
}

bool hf__notifications_stale(hf__notifications *n) {
    bool begun = n->listening || n->messages->state != HF__AWAY;
    bool stale = begun && n->commands->state == HF__READY && n->commands_link != n->commands->link;
    if (stale) n->messages->message_count = 0;
    return stale;
}

/* The server's time of the grant, on our clock: it serves as the time at which the grant was
   requested. It is computed from our newest sample of the server's clock, and counts from before
   that sample was requested. The sample may be newer than the grant. Returns 0 if the result is not
   reliable: sample and grant are too far apart, or one of the clocks was stepped. */
static hf__time effective_sent_at(const hf__session *s, const hf__message *m) {
    int64_t since_us = m->server_us - s->server_us;
    int64_t slowest =
        /* 1 % margin: the server's clock may be the faster one, or the slower one */
        since_us > 0 ? 990 : 1010;
    hf__time at = s->sampled_at + since_us * slowest;
    bool old = m->arrived_at - s->sampled_at > m->lease_ms * HF__MS;
    bool overtaken = since_us < -m->lease_ms * 100; /* by more than a tenth of the lease */
    return at <= m->arrived_at && !old && !overtaken ? at : 0;
}

bool hf__notifications_next(hf__notifications *n, hf__notification *out) {
    hf__message m;
    if (n->must_recheck) {
        n->must_recheck = false;
        *out = (hf__notification){.type = HF__NOTIFICATIONS_MISSED};
        return true;
    }
    if (!hf__session_message(n->messages, &m)) return false;
    *out = (hf__notification){.type = HF__GRANTED,
                              .acquire_id = m.acquire_id,
                              .token = m.token,
                              .link = n->commands->link,
                              .server_us = m.server_us,
                              .lease_ms = m.lease_ms,
                              .sent_at = n->must_claim ? 0 : effective_sent_at(n->commands, &m)};
    return true;
}
