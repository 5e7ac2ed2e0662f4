/* SPDX-License-Identifier: Apache-2.0 */
#include "store/redis/topology/replica_wait.h"

#include <stdlib.h>

#include "base/error.h"

/* ---- Taking operations and returning them ---- */

static void complete_op(hf__replica_wait *w, hf__op *op, hf_result result, bool maybe,
                        char *detail) {
    op->verb = op->ack.verb;
    op->sent_at = op->ack.sent_at;
    op->link = op->ack.link;
    op->ack.state = HF__ACK_NONE;
    op->result = result;
    op->outcome_unknown = maybe;
    free(op->detail);
    op->detail = detail;
    w->count--;
    hf__ops_push(&w->done, op);
}

/* The release of an unconfirmed grant was answered, or its outcome is unknown. */
static void undo_done(hf__replica_wait *w, hf__op *op) {
    bool sure = op->result == HF_OK || op->result == HF_LOST;
    char *why = op->ack.why;
    op->ack.why = NULL;
    op->rolled_back = sure || op->outcome_unknown;
    complete_op(w, op, op->ack.result, !sure, why);
}

/* Whether the operation created a hold or extended one. */
static bool needs_replicas(const hf__op *op) {
    bool lasts = op->verb == HF__RENEW || op->verb == HF__EXPORT || op->verb == HF__EXTEND_EXPORTED;
    return (op->verb == HF__ACQUIRE || lasts) && op->result == HF_OK;
}

bool hf__replica_wait_take(hf__replica_wait *w, hf__op *op, hf__time now) {
    (void)now;
    if (op->ack.state == HF__ACK_UNDOING) {
        undo_done(w, op);
        return true;
    }
    if (!needs_replicas(op)) return false;
    op->ack = (hf__ack){.state = HF__ACK_WAITING,
                        .verb = (uint8_t)op->verb,
                        .sent_at = op->sent_at,
                        .link = op->link};
    hf__ops_push(&w->waiting, op);
    w->count++;
    return true;
}

hf__op *hf__replica_wait_completed(hf__replica_wait *w) {
    return hf__ops_pop(&w->done);
}

/* ---- Rejected operations ---- */

/* A grant is undone by a release, on the connection that it came from. A renewal or an upgrade is
   left as it is, and the core tries again. */
static void reject_op(hf__replica_wait *w, hf__op *op, hf_result result, char *why, hf__time now) {
    bool same = w->commands->state == HF__READY && w->commands->link == op->ack.link;
    if (op->ack.verb != HF__ACQUIRE || op->upgrade || !same) {
        complete_op(w, op, result, true, why);
        return;
    }
    op->verb = HF__RELEASE;
    op->ack.state = HF__ACK_UNDOING;
    op->ack.result = result;
    op->ack.why = why;
    op->next_acquire = NULL;
    op->tombstone_until = 0;
    op->leave_queue = false;
    op->held_since = now;
    hf__session_submit(w->commands, op, now);
}

static char *explain_rejection(const hf__replica_wait *w, const hf__op *op, int64_t confirmed) {
    const char *what =
        op->ack.verb == HF__ACQUIRE ? "the lock was granted" : "the hold was renewed";
    const char *then = op->ack.verb == HF__ACQUIRE ? "; it was given back" : "";
    if (w->wait_op.detail) return hf__line("%s", w->wait_op.detail);
    if (!op->ack.hold_found)
        return hf__line(
            "%s: %s, but the server whose replicas were checked does not have the hold%s",
            w->commands->where, what, then);
    return hf__line("%s: %s, but %" PRId64 " of %d replicas confirmed it within %" PRId64 " ms%s",
                    w->commands->where, what, confirmed, (int)w->url->replicas, w->wait_op.lease_ms,
                    then);
}

/* ---- Asking the replicas ---- */

/* Long enough for a distant replica, and short enough for the lease. */
static int64_t wait_budget_ms(const hf__replica_wait *w, const hf__op *op) {
    int64_t most = w->url->command_timeout_ms / 2, third = op->lease_ms / 3;
    int64_t ms = third && third < most ? third : most;
    return ms > 0 ? ms : 1;
}

static void send_wait(hf__replica_wait *w, hf__time now) {
    int64_t ms = INT64_MAX;
    for (hf__op *op; (op = hf__ops_pop(&w->waiting));) {
        if (wait_budget_ms(w, op) < ms) ms = wait_budget_ms(w, op);
        op->verb = HF__TOUCH;
        hf__session_submit(w->session, op, now);
    }
    w->wait_op = (hf__op){.verb = HF__CONFIRM, .count = (uint32_t)w->url->replicas, .lease_ms = ms};
    w->busy = true;
    hf__session_submit(w->session, &w->wait_op, now);
}

static hf_result rejection_result(hf_result result) {
    return result == HF_REFUSED ? HF_REFUSED : HF_UNREACHABLE;
}

static void finish_wait(hf__replica_wait *w, hf__time now) {
    int64_t confirmed = w->wait_op.result == HF_OK ? (int64_t)w->wait_op.token : 0;
    w->busy = false;
    for (hf__op *op; (op = hf__ops_pop(&w->asked));) {
        bool same = w->commands->state == HF__READY && w->commands->link == op->ack.link;
        char *why = op->detail; /* the touch failed */
        op->detail = NULL;
        if (same && op->ack.hold_found && confirmed >= w->url->replicas)
            complete_op(w, op, HF_OK, false, NULL);
        else if (why)
            reject_op(w, op, rejection_result(op->result), why, now);
        else
            reject_op(w, op, rejection_result(w->wait_op.result),
                      explain_rejection(w, op, confirmed), now);
    }
    free(w->wait_op.detail);
    w->wait_op.detail = NULL;
}

/* The connection may lead to a server with an older state of the hold: a replica that was promoted
   while the old primary still answers our commands. The hold expires too soon there. A small
   difference does not count: scripts round to milliseconds, and deadlines have a margin of that
   size. */
static bool lasts_long_enough(const hf__op *op, hf__time now) {
    int64_t margin_ms = op->lease_ms / 100 + 2;
    hf__time at_the_latest = hf__after_ms(now, op->ack.left_ms + margin_ms);
    return at_the_latest >= hf__after_ms(op->ack.sent_at, op->lease_ms);
}

/* The start of the lease for deadlines: the hold must not outlast its expiry on the server that
   confirmed it. */
static hf__time confirmed_from(const hf__op *op) {
    if (!op->lease_ms) return op->ack.sent_at;
    return hf__sooner(op->ack.sent_at,
                      hf__after_ms(op->sent_at, op->ack.left_ms) - op->lease_ms * HF__MS);
}

static void collect_answers(hf__replica_wait *w, hf__time now) {
    for (hf__op *op; (op = hf__session_completed(w->session));) {
        if (op == &w->wait_op) {
            finish_wait(w, now);
            continue;
        }
        op->ack.hold_found = op->result == HF_OK && lasts_long_enough(op, now);
        if (op->ack.hold_found) op->ack.sent_at = confirmed_from(op);
        hf__ops_push(&w->asked, op);
    }
}

static hf__time wait_deadline(const hf__replica_wait *w, const hf__op *op) {
    return hf__after_ms(op->ack.sent_at, wait_budget_ms(w, op));
}

/* Rejects operations that could not be sent to the replicas in time. */
static void expire_waiting(hf__replica_wait *w, hf__time now) {
    while (
        w->waiting.last && !w->busy &&
        (now >= wait_deadline(w, hf__fifo_first(&w->waiting)) || w->commands->state != HF__READY)) {
        hf__op *op = hf__ops_pop(&w->waiting);
        reject_op(w, op, HF_UNREACHABLE,
                  hf__line("%s: no connection to check whether replicas have the lock",
                           w->commands->where),
                  now);
    }
}

void hf__replica_wait_tick(hf__replica_wait *w, hf__time now) {
    collect_answers(w, now);
    bool ready = w->session->state == HF__READY && !hf__replica_wait_stale(w);
    if (ready && !w->busy && w->waiting.last) send_wait(w, now);
    expire_waiting(w, now);
}

hf__time hf__replica_wait_due(const hf__replica_wait *w) {
    return w->waiting.last && !w->busy ? wait_deadline(w, hf__fifo_first(&w->waiting)) : HF__NEVER;
}

void hf__replica_wait_begin(hf__replica_wait *w) {
    w->commands_link = w->commands->link;
}

bool hf__replica_wait_stale(const hf__replica_wait *w) {
    return w->session->state != HF__AWAY && w->commands->state == HF__READY &&
           w->commands_link != w->commands->link;
}
