#include "store/redis/protocol/notifications.h"

bool hf__hearing_stands(const hf__op *op) {
    return op->placed || (op->verb == HF__RELEASE && op->heir && op->heir->result == HF_BUSY);
}

void hf__hearing_complete(hf__hearing *h, const hf__op *op) {
    if (!hf__hearing_stands(op)) return;
    h->waits = true;
    h->stood_at = op->asked_at;
}

/* When listening begins or ends, whoever waits asks again: something may have been missed. */
void hf__hearing_look(hf__hearing *h, bool listening) {
    if (h->by_name) listening = h->listening;
    if (listening != h->listening || h->messages->missed) h->ask_again = true;
    h->listening = h->commands->heard = listening;
    h->messages->missed = false;
}

void hf__hearing_begin(hf__hearing *h) {
    h->link = h->commands->link;
}

bool hf__hearing_stale(hf__hearing *h) {
    bool begun = h->listening || h->messages->state != HF__AWAY;
    bool stale = begun && h->commands->state == HF__READY && h->link != h->commands->link;
    if (stale) h->messages->message_count = 0;
    return stale;
}

/* When a grant would have been asked for: the server's time of the grant on our clock, counted from
   before we asked for the newest sample of its clock, which may have overtaken it. 0 where that cannot be
   relied on: the two are too far apart, or one of the clocks was stepped. */
static hf__time asked_at(const hf__session *s, const hf__message *m) {
    int64_t since_us = m->server_us - s->server_us;
    int64_t slowest =
        since_us > 0 ? 990 : 1010; /* with the margin: its clock may be the faster, or the slower */
    hf__time at = s->sampled_at + since_us * slowest;
    bool old = m->came_at - s->sampled_at > m->lease_ms * HF__MS;
    bool overtaken = since_us < -m->lease_ms * 100; /* by more than a tenth of it */
    return at <= m->came_at && !old && !overtaken ? at : 0;
}

bool hf__hearing_news(hf__hearing *h, hf__news *out) {
    hf__message m;
    if (h->ask_again) {
        h->ask_again = false;
        *out = (hf__news){.what = HF__ASK_AGAIN};
        return true;
    }
    if (!hf__session_message(h->messages, &m)) return false;
    *out = (hf__news){.what = HF__GRANTED,
                      .number = m.number,
                      .token = m.token,
                      .link = h->commands->link,
                      .server_us = m.server_us,
                      .lease_ms = m.lease_ms,
                      .asked_at = h->claims ? 0 : asked_at(h->commands, &m)};
    return true;
}
