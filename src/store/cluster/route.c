/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where an operation goes, and what follows a redirect:
 *
 *   MOVED        send it to the named node, which has the slot from now on; request the map
 *   ASK          send it to the named node, this time only: the slot is moving there
 *   TRYAGAIN     send it again after a pause: some keys of the name have moved, some have not
 *   CLUSTERDOWN  complete it as unreachable: the caller waits and tries again
 *
 * All of this ends shortly before the command timeout. So a caller that waits that long still
 * learns the reason.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "store/cluster/cluster_internal.h"
#include "store/cluster/slot.h"

#define PAUSE_FIRST       (5 * HF__MS)
#define PAUSE_MOST        (50 * HF__MS)
#define DOUBLINGS         4
#define NO_PAUSE_MAX      3 /* redirects that are followed without a pause */
#define CLIENT_KEY        (HF__PREFIX_MAX + sizeof ":client:" + HF__UUID_LENGTH)
#define REGISTER_INTERVAL (30 * HF__SEC)
#define REGISTER_RETRY    (2 * HF__SEC)

/* ---- Completion ---- */

static void note_registered(hf__cluster *c, hf__time now) {
    hf__op *op = &c->registration;
    c->registering = false;
    c->register_at = now + (op->result == HF_UNREACHABLE ? REGISTER_RETRY : REGISTER_INTERVAL);
    if (op->detail && op->result != HF_UNREACHABLE)
        hf__log_add(c->log, HF_LOG_WARNING, "others cannot see who holds our locks: %s",
                    op->detail);
    free(op->detail);
    op->detail = NULL;
}

static void finish_op(hf__cluster *c, hf__op *op, hf__time now) {
    free(op->redirect.address);
    op->redirect = (hf__redirect){0};
    if (op->result == HF_UNREACHABLE) hf__cluster_doubt_map(c, now);
    if (op->verb == HF__LIST && op->result == HF_OK) hf__cluster_listed(c, op->list_walk);
    if (op == &c->registration) {
        note_registered(c, now);
    } else if (!hf__release_log_reclaim(op)) {
        hf__release_log_note(&c->releases, op, now);
        hf__ops_push(&c->done, op);
    }
}

/* The operation was not executed. If `detail` is NULL, the earlier detail stays. */
static void fail_single_op(hf__cluster *c, hf__op *op, hf_result result, char *detail,
                           hf__time now) {
    if (detail) {
        free(op->detail);
        op->detail = detail;
    }
    op->result = result;
    op->outcome_unknown = false;
    op->link = 0;
    finish_op(c, op, now);
}

/* The same, also for the acquire that was submitted with it. */
static void fail_op(hf__cluster *c, hf__op *op, hf_result result, char *detail, hf__time now) {
    hf__op *next = op->next_acquire_op;
    op->next_acquire_op = NULL;
    if (next) {
        next->detail = NULL;
        fail_single_op(c, next, result, detail ? strdup(detail) : NULL, now);
    }
    fail_single_op(c, op, result, detail, now);
}

/* ---- Destination ---- */

static unsigned slot_of(const hf__cluster *c, const hf__op *op) {
    char key[CLIENT_KEY];
    if (op->verb != HF__CLIENT_INFO && op->verb != HF__REGISTER)
        return hf__slot_of_name(op->name, op->name_length);
    const char *client = op->verb == HF__CLIENT_INFO ? op->lock_info->identity.client
                         : op->exported              ? op->exported->client
                                                     : c->who.client;
    int length = snprintf(key, sizeof key, "%s:client:%s", c->url->prefix, client);
    return hf__slot_of_key(key, (size_t)length);
}

static bool find_destination(const hf__cluster *c, const hf__op *op, char out[HF__WHERE_TEXT]) {
    const char *to =
        op->verb == HF__LIST ? hf__cluster_list_at(op->list_walk) : op->redirect.address;
    if (!to) return hf__slot_map_owner(&c->map, slot_of(c, op), out);
    hf__text_copy(out, HF__WHERE_TEXT, to);
    return true;
}

static void send_to_node(hf__cluster_node *m, hf__op *op, hf__time now) {
    free(op->detail);
    op->detail = NULL;
    op->redirect.kind = HF__REDIRECT_NONE;
    m->used = now;
    m->store->table->submit(m->store, op, now);
}

static void wait_for_connection(hf__cluster *c, hf__op *op) {
    op->redirect.retry_at = 0;
    hf__ops_push(&c->waiting, op);
}

/* Another node may have replaced it: wait for one new map before failing. */
static void handle_node_down(hf__cluster *c, const hf__cluster_node *m, hf__op *op, hf__time now) {
    const hf__store *s = m->store;
    hf__cluster_doubt_map(c, now);
    if (!op->redirect.map_awaited) op->redirect.map_awaited = c->maps + 1 + (c->map_source != NULL);
    if (c->maps < op->redirect.map_awaited && c->store.up) {
        wait_for_connection(c, op);
        return;
    }
    fail_op(c, op, HF_UNREACHABLE,
            hf__line("%s", s->down_detail ? s->down_detail : hf_result_text(s->down_result)), now);
}

static void route_op(hf__cluster *c, hf__op *op, hf__time now) {
    char where[HF__WHERE_TEXT];
    if (!find_destination(c, op, where)) {
        fail_op(c, op, HF_UNREACHABLE, hf__line("no node of the cluster has the slot of this name"),
                now);
        return;
    }
    hf__cluster_node *m = hf__cluster_node_at(c, where, now);
    if (!m)
        fail_op(c, op, HF_UNREACHABLE,
                hf__line("cannot connect to %s: out of memory, or %d connections are in use", where,
                         HF__CLUSTER_NODES_MAX),
                now);
    else if (m->store->up)
        send_to_node(m, op, now);
    else if (m->store->down_result)
        handle_node_down(c, m, op, now);
    else
        wait_for_connection(c, op);
}

void hf__cluster_submit(hf__cluster *c, hf__op *op, hf__time now) {
    int64_t timeout = c->url->command_timeout_ms;
    op->redirect = (hf__redirect){.until = hf__after_ms(now, timeout - timeout / 8)};
    if (op->verb == HF__ACQUIRE) op->redirect.until = hf__sooner(op->redirect.until, op->not_after);
    op->asking = op->asking_sent = op->single_key = false;
    op->detail = NULL;
    hf_result r = op->verb == HF__LIST ? hf__cluster_list_begin(c, op->list_walk) : HF_OK;
    if (c->shut) r = HF_UNREACHABLE;
    if (r)
        fail_op(c, op, r,
                r == HF_UNREACHABLE ? hf__line("the nodes of the cluster are not known") : NULL,
                now);
    else
        route_op(c, op, now);
}

/* ---- Redirects ---- */

static hf__time redirect_pause(const hf__redirect *d) {
    unsigned doublings = d->count < DOUBLINGS ? d->count : DOUBLINGS;
    return hf__sooner(PAUSE_FIRST << doublings, PAUSE_MOST);
}

/* Whether the renewal can use a single key. Renewing a shared hold uses all keys of the name, to
   serve waiters, but keeping the hold needs only one. */
static bool can_use_single_key(const hf__op *op) {
    return op->verb == HF__RENEW && op->kind != HF_MUTEX && !op->single_key &&
           (!op->upgrades || op->upgrade);
}

/* Add the host to an address that has only a port. */
static void complete_address(hf__redirect *d, const hf__cluster_node *m) {
    char full[HF__WHERE_TEXT];
    hf__where_full(full, m->host, d->address);
    if (!strcmp(full, d->address)) return;
    free(d->address);
    d->address = strdup(full);
}

static char *explain_redirect(const hf__op *op) {
    bool moves = op->redirect.kind != HF__REDIRECT_MOVED;
    return hf__line("%s (%s)", op->detail ? op->detail : "redirected too often",
                    moves ? "the slot of this name is being moved to another node"
                          : "the nodes disagree about which of them has the slot of this name");
}

static void follow_redirect(hf__cluster *c, const hf__cluster_node *m, hf__op *op, hf__time now) {
    hf__redirect *d = &op->redirect;
    if (d->kind == HF__REDIRECT_DOWN) {
        finish_op(c, op, now);
        return;
    }
    if (now >= d->until) {
        fail_op(c, op, HF_UNREACHABLE, explain_redirect(op), now);
        return;
    }
    bool brief = d->kind == HF__REDIRECT_TRY_AGAIN && can_use_single_key(op);
    bool waits = (d->kind == HF__REDIRECT_TRY_AGAIN && !brief) || d->count >= NO_PAUSE_MAX;
    op->asking = d->kind == HF__REDIRECT_ASK;
    if (d->kind == HF__REDIRECT_TRY_AGAIN)
        op->single_key = brief; /* after a failure with one key, use all keys again */
    if (d->address) complete_address(d, m);
    if (d->kind == HF__REDIRECT_MOVED) {
        if (d->address) hf__slot_map_moved(&c->map, slot_of(c, op), d->address);
        hf__cluster_doubt_map(c, now);
    }
    d->retry_at = waits ? now + redirect_pause(d) : now;
    d->count++;
    if (waits)
        hf__ops_push(&c->waiting, op);
    else
        route_op(c, op, now);
}

void hf__cluster_answered(hf__cluster *c, hf__cluster_node *m, hf__op *op, hf__time now) {
    bool away = op->result == HF_UNREACHABLE && !op->outcome_unknown && op->redirect.kind;
    if (op == &m->map_op)
        hf__cluster_take_map(c, m, now);
    else if (away && !c->shut)
        follow_redirect(c, m, op, now);
    else
        finish_op(c, op, now);
}

/* ---- Waiting operations ---- */

void hf__cluster_resume_waiting(hf__cluster *c, hf__time now) {
    hf__ops ops = c->waiting;
    c->waiting = (hf__ops){0};
    for (hf__op *op; (op = hf__ops_pop(&ops));) {
        if (now < op->redirect.retry_at && now < op->redirect.until)
            hf__ops_push(&c->waiting, op);
        else if (now < op->redirect.until)
            route_op(c, op, now);
        else
            fail_op(c, op, HF_UNREACHABLE,
                    op->detail ? explain_redirect(op)
                               : hf__line("no connection in time to the node that has this name"),
                    now);
    }
}

hf__time hf__cluster_waiting_due(const hf__cluster *c) {
    hf__time due = HF__NEVER;
    for (const hf__op *op = hf__fifo_first(&c->waiting); op; op = hf__fifo_next(&c->waiting, op))
        due = hf__sooner(due, op->redirect.retry_at ? op->redirect.retry_at : op->redirect.until);
    return due;
}

void hf__cluster_end_waiting(hf__cluster *c) {
    hf__time now = hf__now();
    for (hf__op *op; (op = hf__ops_pop(&c->waiting));)
        fail_op(c, op, HF_UNREACHABLE, op->detail ? NULL : hf__line("the client was closed"), now);
}
