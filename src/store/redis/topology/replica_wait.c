#include "store/redis/topology/replica_wait.h"

#include <stdlib.h>

#include "base/error.h"

static void push(hf__op **first, hf__op **last, hf__op *op) {
    op->next = NULL;
    if (*last)
        (*last)->next = op;
    else
        *first = op;
    *last = op;
}

static hf__op *pop(hf__op **first, hf__op **last) {
    hf__op *op = *first;
    if (!op) return NULL;
    *first = op->next;
    if (!*first) *last = NULL;
    return op;
}

/* ---- Taking and handing up ---- */

static void hand_up(hf__acks *a, hf__op *op, hf_result result, bool maybe, char *detail) {
    op->verb = op->ack.verb;
    op->asked_at = op->ack.asked_at;
    op->link = op->ack.link;
    op->ack.state = HF__ACK_NONE;
    op->result = result;
    op->maybe = maybe;
    free(op->detail);
    op->detail = detail;
    a->count--;
    push(&a->done_first, &a->done_last, op);
}

/* What could not be confirmed was given back, or may not have been. */
static void given_back(hf__acks *a, hf__op *op) {
    bool sure = op->result == HF_OK || op->result == HF_LOST;
    char *why = op->ack.why;
    op->ack.why = NULL;
    op->undone = sure || op->maybe;
    hand_up(a, op, op->ack.result, !sure, why);
}

/* What makes a hold, or makes it last. */
static bool must_be_confirmed(const hf__op *op) {
    bool lasts = op->verb == HF__RENEW || op->verb == HF__EXPORT || op->verb == HF__PROLONG;
    return (op->verb == HF__ASK || lasts) && op->result == HF_OK;
}

bool hf__acks_take(hf__acks *a, hf__op *op, hf__time now) {
    (void)now;
    if (op->ack.state == HF__ACK_UNDOING) {
        given_back(a, op);
        return true;
    }
    if (!must_be_confirmed(op)) return false;
    op->ack = (hf__ack){.state = HF__ACK_WAITING,
                        .verb = (uint8_t)op->verb,
                        .asked_at = op->asked_at,
                        .link = op->link};
    push(&a->waiting_first, &a->waiting_last, op);
    a->count++;
    return true;
}

hf__op *hf__acks_completed(hf__acks *a) {
    return pop(&a->done_first, &a->done_last);
}

/* ---- Not confirmed ---- */

/* A grant is given back where it was made. A renewal, or an upgrade, stands as it may, and is tried again. */
static void refuse(hf__acks *a, hf__op *op, hf_result result, char *why, hf__time now) {
    bool there = a->commands->state == HF__READY && a->commands->link == op->ack.link;
    if (op->ack.verb != HF__ASK || op->upgrade || !there) {
        hand_up(a, op, result, true, why);
        return;
    }
    op->verb = HF__RELEASE;
    op->ack.state = HF__ACK_UNDOING;
    op->ack.result = result;
    op->ack.why = why;
    op->heir = NULL;
    op->bury_until = 0;
    op->leave = false;
    op->held_since = now;
    hf__session_submit(a->commands, op, now);
}

/* Why it does not count. */
static char *reason(const hf__acks *a, const hf__op *op, int64_t confirmed) {
    const char *what = op->ack.verb == HF__ASK ? "the lock was granted" : "the hold was renewed";
    const char *then = op->ack.verb == HF__ASK ? "; it was given back" : "";
    if (a->wait.detail) return hf__line("%s", a->wait.detail);
    if (!op->ack.there)
        return hf__line("%s: %s, but the server that was asked for its replicas does not have it%s",
                        a->commands->where, what, then);
    return hf__line("%s: %s, but %" PRId64 " of %d replicas confirmed it within %" PRId64 " ms%s",
                    a->commands->where, what, confirmed, (int)a->url->replicas, a->wait.lease_ms,
                    then);
}

/* ---- Asking ---- */

/* Long enough for a replica far away, and short enough for the lease. */
static int64_t patience_ms(const hf__acks *a, const hf__op *op) {
    int64_t most = a->url->command_timeout_ms / 2, third = op->lease_ms / 3;
    int64_t ms = third && third < most ? third : most;
    return ms > 0 ? ms : 1;
}

static void ask(hf__acks *a, hf__time now) {
    int64_t ms = INT64_MAX;
    for (hf__op *op; (op = pop(&a->waiting_first, &a->waiting_last));) {
        if (patience_ms(a, op) < ms) ms = patience_ms(a, op);
        op->verb = HF__TOUCH;
        hf__session_submit(a->session, op, now);
    }
    a->wait = (hf__op){.verb = HF__CONFIRM, .count = (uint32_t)a->url->replicas, .lease_ms = ms};
    a->busy = true;
    hf__session_submit(a->session, &a->wait, now);
}

static hf_result refused_or_away(hf_result result) {
    return result == HF_REFUSED ? HF_REFUSED : HF_UNREACHABLE;
}

static void settle(hf__acks *a, hf__time now) {
    int64_t confirmed = a->wait.result == HF_OK ? (int64_t)a->wait.token : 0;
    a->busy = false;
    for (hf__op *op; (op = pop(&a->asked_first, &a->asked_last));) {
        bool same = a->commands->state == HF__READY && a->commands->link == op->ack.link;
        char *why = op->detail; /* the touch failed */
        op->detail = NULL;
        if (same && op->ack.there && confirmed >= a->url->replicas)
            hand_up(a, op, HF_OK, false, NULL);
        else if (why)
            refuse(a, op, refused_or_away(op->result), why, now);
        else
            refuse(a, op, refused_or_away(a->wait.result), reason(a, op, confirmed), now);
    }
    free(a->wait.detail);
    a->wait.detail = NULL;
}

/* The connection may lead to a server that has the hold as it was before: a replica that was promoted while the old
   primary still answers our commands. There it ends too soon. A little less is no other server: scripts reckon in
   whole milliseconds, and deadlines have a margin of as much. */
static bool lasts(const hf__op *op, hf__time now) {
    int64_t margin_ms = op->lease_ms / 100 + 2;
    hf__time at_the_latest = hf__after_ms(now, op->ack.left_ms + margin_ms);
    return at_the_latest >= hf__after_ms(op->ack.asked_at, op->lease_ms);
}

/* Deadlines count from here: it lasts no longer than it does where it was confirmed. */
static hf__time confirmed_from(const hf__op *op) {
    if (!op->lease_ms) return op->ack.asked_at;
    return hf__sooner(op->ack.asked_at,
                      hf__after_ms(op->asked_at, op->ack.left_ms) - op->lease_ms * HF__MS);
}

static void collect(hf__acks *a, hf__time now) {
    for (hf__op *op; (op = hf__session_completed(a->session));) {
        if (op == &a->wait) {
            settle(a, now);
            continue;
        }
        op->ack.there = op->result == HF_OK && lasts(op, now);
        if (op->ack.there) op->ack.asked_at = confirmed_from(op);
        push(&a->asked_first, &a->asked_last, op);
    }
}

static hf__time given_up_at(const hf__acks *a, const hf__op *op) {
    return hf__after_ms(op->ack.asked_at, patience_ms(a, op));
}

/* The way to ask is missing. */
static void expire(hf__acks *a, hf__time now) {
    while (a->waiting_first && !a->busy &&
           (now >= given_up_at(a, a->waiting_first) || a->commands->state != HF__READY)) {
        hf__op *op = pop(&a->waiting_first, &a->waiting_last);
        refuse(a, op, HF_UNREACHABLE,
               hf__line("%s: no connection to ask whether replicas have what was granted",
                        a->commands->where),
               now);
    }
}

void hf__acks_tick(hf__acks *a, hf__time now) {
    collect(a, now);
    bool ready = a->session->state == HF__READY && !hf__acks_stale(a);
    if (ready && !a->busy && a->waiting_first) ask(a, now);
    expire(a, now);
}

hf__time hf__acks_due(const hf__acks *a) {
    return a->waiting_first && !a->busy ? given_up_at(a, a->waiting_first) : HF__NEVER;
}

void hf__acks_begin(hf__acks *a) {
    a->begun = a->commands->link;
}

bool hf__acks_stale(const hf__acks *a) {
    return a->session->state != HF__AWAY && a->commands->state == HF__READY &&
           a->begun != a->commands->link;
}
