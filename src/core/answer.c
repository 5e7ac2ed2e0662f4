/* SPDX-License-Identifier: Apache-2.0 */
/* Answers: how an entry reacts to a completed operation. */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/probe.h"
#include "core/core_internal.h"
#include "core/lease.h"

/* How far our clock and the store's may drift apart for the times that we send to it. */
#define DRIFT_MS 200

static const char LOST_STORE[] =
    "the store no longer has it: broken by an operator, removed, flushed, or lost in a restart or "
    "failover";

static const char RELEASE_UNKNOWN[] =
    "the store did not answer the release, and since then the lock was granted to another, or has "
    "expired; the hold was either released or lost before that";

/* ---- ACQUIRE ---- */

/* It was sent and had no answer: it may have been executed, or may still be executed. */
static void handle_unanswered_acquire(hf__entry *e, hf__wait *w) {
    const hf__op *op = &e->op;
    e->late_acquire_until = hf__later(e->late_acquire_until, hf__after_ms(op->not_after, DRIFT_MS));
    if (w)
        w->outcome_unknown = true; /* it tries again, or becomes a pending release when it ends */
    else
        hf__entry_add_pending_leave(e, op->acquire_id,
                                    hf__entry_expired_by(e, op->not_after, op->lease_ms));
}

static void handle_unreachable_acquire(hf__entry *e, hf__time now) {
    hf__op *op = &e->op;
    hf__entry_set_outage(e, op->detail, now);
    op->detail = NULL;
    e->next_try_at = hf__lease_retry_at(now, op->lease_ms, e->tries++, &e->core->rand);
    hf__entry_fail_outage_waits(e, now);
}

/*
 * The store has undone this acquire id. It may repeat the undo later, so the next try needs a new
 * id. A side entry has only one id: if the undo is not confirmed yet, all its waits end.
 */
static void handle_rolled_back_acquire(hf__entry *e, hf__wait *w, hf__time now) {
    hf__op *op = &e->op;
    if (op->outcome_unknown)
        hf__entry_add_pending_leave(e, op->acquire_id, hf__entry_expired_by(e, now, op->lease_ms));
    while (w && op->outcome_unknown && (e->side_id || w->try_once)) {
        hf__wait_finish(w, HF_UNKNOWN_OUTCOME, op->detail ? strdup(op->detail) : NULL);
        w = e->side_id ? e->waits.first : NULL;
    }
    if (!w || e->side_id) return;
    hf__wait_set_acquire_id(w, 0);
    w->outcome_unknown = op->outcome_unknown;
}

/* The answer to one ACQUIRE also covers those sent before it, unless they may still arrive after
   it. */
static bool answers_all_sent(const hf__entry *e, const hf__op *op) {
    return op->result == HF_OK || (op->result != HF_TIMEOUT && op->sent_at > e->late_acquire_until);
}

static void enter_early_grant(hf__entry *e, hf__wait *w, hf__time now) {
    hf__notification notification = w->early_grant;
    w->early_grant.acquire_id = 0;
    hf__entry_enter_notified(e, w, &notification, now);
}

static void handle_lost_hold(hf__entry *e, hf__time now) {
    /* its ACQUIRE may arrive late, and acquire the lock although no caller wants it */
    if (e->late_acquire_until > now)
        hf__entry_add_pending_release(e, e->grant->acquire_id,
                                      hf__lease_lapse(e->late_acquire_until, e->grant->lease_ms));
    /* the store keeps the hold until we release it, now that the user knows */
    if (!e->core->store->expires) hf__grant_give_back(e);
    hf__ownership_lose(e->ownership, LOST_STORE, now);
}

static void handle_acquire_answer(hf__entry *e, hf__time now) {
    hf__wait *w = e->acquirer;
    hf__op *op = &e->op;
    e->acquirer = NULL;
    if (op->rolled_back)
        handle_rolled_back_acquire(e, w, now);
    else if (op->outcome_unknown)
        handle_unanswered_acquire(e, w);
    if (op->result == HF_UNREACHABLE) {
        handle_unreachable_acquire(e, now);
        return;
    }
    hf__entry_clear_outage(e);
    if (e->side_id) hf__side_answered(e);
    if (w && answers_all_sent(e, op)) w->outcome_unknown = false;
    if (op->upgrade && e->ownership && op->result == HF_OK) {
        hf__entry_upgraded(e, w, now);
    } else if (op->upgrade && e->ownership && op->result == HF_LOST) {
        handle_lost_hold(e, now);
    } else if (op->upgrade && !w && e->ownership) {
        hf__entry_cancel_upgrade(e);
    } else if (op->result == HF_OK) {
        hf__entry_acquired(e, w, now);
    } else if (op->result == HF_BUSY) {
        e->known_busy = true;
        if (w) w->contended = true;
        e->next_try_at = e->recheck ? now : now + hf__jitter(&e->core->rand, op->retry_ms * HF__MS);
        hf__time queued_until = op->queued ? hf__after_ms(now, HF__QUEUE_ENTRY_MS) : 0;
        if (!w) {
            hf__entry_add_pending_leave(e, op->acquire_id, queued_until);
            return;
        }
        hf__wait_set_queued(w, queued_until);
        w->holder_token = op->holder_token;
        w->holder_seen_us = op->server_us;
        e->op.attempt++;
        if (w->try_once)
            hf__wait_finish(w, HF_BUSY, hf__line("another holds the lock"));
        else if (w->early_grant.acquire_id)
            enter_early_grant(e, w, now);
    } else if (op->result == HF_TIMEOUT && !(w && w->try_once)) {
        if (w) w->answered_late = true;
        e->next_try_at = hf__lease_retry_at(now, op->lease_ms, e->tries++, &e->core->rand);
    } else if (w && op->result == HF_INVALID && w->kind == HF_PERMITS && !op->detail) {
        hf__wait_finish(w, HF_INVALID,
                        hf__line("a capacity of %" PRIu32
                                 " was requested, but permits of a capacity of %" PRIu32
                                 " are in use; use the same capacity everywhere",
                                 w->capacity, op->capacity));
    } else if (w) {
        hf__wait_finish(w, op->result == HF_TIMEOUT ? HF_UNREACHABLE : op->result, op->detail);
        op->detail = NULL;
    }
}

/* The answer to a release is also the answer to the ACQUIRE that was sent with it. */
static void handle_next_acquire_answer(hf__entry *e, hf__time now) {
    hf__op *op = &e->op;
    if (!op->next_acquire) return;
    const hf__next_acquire next = *op->next_acquire;
    op->next_acquire = NULL;
    bool answered = op->result == HF_OK && next.result != HF_NOT_HELD;
    if (op->result != HF_UNREACHABLE && !answered &&
        !op->outcome_unknown) { /* it was not executed */
        e->acquirer = NULL;
        return;
    }
    op->acquire_id = next.acquire_id;
    op->lease_ms = next.lease_ms;
    op->token = next.token;
    op->not_after = next.not_after;
    op->retry_ms = next.retry_ms;
    op->queued = next.result == HF_BUSY;
    op->holder_token = next.holder_token;
    if (op->outcome_unknown &&
        op->result != HF_UNREACHABLE) { /* an answer that could not be parsed */
        handle_unanswered_acquire(e, e->acquirer);
        e->acquirer = NULL;
        return;
    }
    if (op->result != HF_UNREACHABLE) op->result = next.result;
    handle_acquire_answer(e, now);
}

/* The notification of a grant may arrive before the answer that the wait is queued. */
void hf__entry_notify_granted(hf__entry *e, hf__wait *w, const hf__notification *notification,
                              hf__time now) {
    if (w->upgrade) {
        e->next_try_at = 0;
        e->recheck = e->busy;
        hf__entry_step(e, now);
        return;
    }
    if (e->ownership || e->waits.first != w) return;
    if (e->busy) {
        if (e->acquirer == w) w->early_grant = *notification;
        return;
    }
    hf__entry_enter_notified(e, w, notification, now);
    hf__entry_step(e, now);
}

/* ---- RENEW ---- */

/* A hold whose renewal failed stays held until its deadline: the store may answer the next try. */
static void handle_failed_renewal(hf__entry *e, hf__time now) {
    hf__grant *grant = e->grant;
    hf__op *op = &e->op;
    hf_result r = op->outcome_unknown ? HF_UNKNOWN_OUTCOME : op->result;
    hf__calls_finish(e->core, &e->extending, r, op->detail);
    if (op->outcome_unknown) hf__grant_extend_lapse(grant, op->lease_ms, now);
    hf__time again = hf__lease_retry_at(now, grant->lease_ms, grant->renew_tries++, &e->core->rand);
    if (e->ownership->flags & HF_NO_RENEW)
        grant->verify = false;
    else
        grant->renew_at = again;
    e->next_try_at = again;
}

static void handle_confirmed_renewal(hf__entry *e, hf__time now) {
    hf__grant *grant = e->grant;
    hf__op *op = &e->op;
    grant->renew_tries = 0;
    grant->posted_count = op->count;
    grant->posted_kind = grant->sent_kind;
    if (!op->upgrade) grant->upgrade_queued_until = 0;
    e->core->stats.renewed++;
    HF__PROBE2(renewed, e->mapped.key, grant->token);
    if (op->lease_ms) {
        hf__time deadline = hf__lease_deadline(op->sent_at, op->lease_ms);
        hf__grant_confirm(e, deadline);
        hf__grant_extend_lapse(grant, op->lease_ms, now);
    }
    if (!(e->ownership->flags & HF_NO_RENEW))
        grant->renew_at = hf__core_renew_at(e->core, op->sent_at, grant->lease_ms);
    hf__grant_set_joinable(e);
    hf__calls_finish(e->core, &e->extending, HF_OK, NULL);
}

static void handle_renew_answer(hf__entry *e, hf__time now) {
    if (e->op.result == HF_OK || e->op.result == HF_LOST) hf__entry_clear_outage(e);
    if (!e->grant || e->grant->acquire_id != e->op.acquire_id)
        return; /* released or lost meanwhile */
    if (e->op.result == HF_OK)
        handle_confirmed_renewal(e, now);
    else if (e->op.result == HF_LOST)
        handle_lost_hold(e, now);
    else
        handle_failed_renewal(e, now);
}

/* ---- EXPORT ---- */

static void finish_export(hf__entry *e, hf__time now) {
    hf__ownership *ownership = e->ownership;
    hf__calls exporting = e->exporting;
    e->exporting = (hf__calls){0};
    hf__handle *handle = ownership->handles.first;
    if (handle) {
        atomic_store(&handle->released, true);
        hf__handle_detach(handle);
    }
    hf__ownership_end(ownership, HF__RELEASED, now);
    hf__calls_finish(e->core, &exporting, HF_OK, NULL);
}

/* An EXPORT that is sent twice takes effect once. If its outcome is unknown, it is repeated as long
   as the caller waits. After that a RENEW checks whether the hold is still ours. */
static void handle_export_answer(hf__entry *e, hf__time now) {
    hf__grant *grant = e->grant;
    hf__op *op = &e->op;
    if (op->result == HF_OK || op->result == HF_LOST) hf__entry_clear_outage(e);
    if (!grant || grant->acquire_id != op->acquire_id) return; /* lost or ended meanwhile */
    grant->export_unknown |= op->outcome_unknown;
    if (op->result == HF_OK) {
        finish_export(e, now);
    } else if (op->result == HF_LOST) {
        hf__calls_finish(e->core, &e->exporting, HF_LOST, LOST_STORE);
        handle_lost_hold(e, now);
    } else if (op->result == HF_UNREACHABLE && op->outcome_unknown) {
        e->ownership->export_calls = e->exporting; /* there is only one */
        e->exporting = (hf__calls){0};
        grant->verify = true;
        e->next_try_at = now;
    } else {
        hf_result r = grant->export_unknown      ? HF_UNKNOWN_OUTCOME
                      : op->result == HF_TIMEOUT ? HF_UNREACHABLE
                                                 : op->result;
        hf__calls_finish(e->core, &e->exporting, r, op->detail);
        grant->verify |= grant->export_unknown;
    }
}

/* ---- RELEASE ---- */

static void handle_release_answer(hf__entry *e, hf__time now) {
    hf__op *op = &e->op;
    e->release_unknown |= op->outcome_unknown;
    if (op->result == HF_UNREACHABLE) {
        e->next_try_at =
            hf__lease_retry_at(now, e->core->config.lease_ms, e->tries++, &e->core->rand);
        /* their callers wait for the next try */
        for (hf__call *call; (call = hf__calls_pop(&e->sent_release_calls));)
            hf__calls_push(&e->release_calls, call);
        return;
    }
    hf__entry_clear_outage(e);
    hf_result r = op->result;
    bool over = r == HF_OK || r == HF_LOST;
    /* The first RELEASE may have released the hold. Or the hold was lost before that, and another
       client has held the lock since. */
    if (r == HF_LOST && e->release_unknown) r = HF_UNKNOWN_OUTCOME;
    const char *detail = r == HF_LOST              ? LOST_STORE
                         : r == HF_UNKNOWN_OUTCOME ? RELEASE_UNKNOWN
                                                   : op->detail;
    /* it was counted as released when the user released it */
    if (e->sent_release_calls.last && r == HF_LOST) {
        e->core->stats.released--;
        e->core->stats.lost++;
    }
    hf__calls_finish(e->core, &e->sent_release_calls, r, detail);
    if (op->acquire_id < e->pending_release) return;
    bool in_vain = r == HF_PROTOCOL && e->core->closing; /* it ends with its lease */
    if (over || in_vain)
        hf__entry_clear_pending_release(e);
    else
        e->next_try_at = hf__lease_retry_at(now, e->core->config.lease_ms, 9, &e->core->rand);
}

/* ---- Completion ---- */

void hf__entry_complete(hf__entry *e, hf__time now) {
    e->busy = false;
    /* A hold past its deadline is lost, whatever the answer says. */
    hf__entry_expire_ownership(e, now);
    switch (e->op.verb) {
    case HF__ACQUIRE: handle_acquire_answer(e, now); break;
    case HF__RENEW: handle_renew_answer(e, now); break;
    case HF__EXPORT: handle_export_answer(e, now); break;
    case HF__RELEASE:
        handle_release_answer(e, now);
        handle_next_acquire_answer(e, now);
        break;
    default: break;
    }
    free(e->op.detail);
    e->op.detail = NULL;
    e->recheck = false;
    hf__entry_step(e, now);
}
