/* SPDX-License-Identifier: Apache-2.0 */
/* Operations that concern no hold of ours: inspecting, breaking, statistics. */
#include <stdlib.h>
#include <string.h>

#include "client/exchange.h"
#include "client/inspect.h"

/* ---- Inspecting ---- */

/* An info and everything it points at, in one allocation. */
typedef struct inspection {
    hf_info info;
    hf__lock_info lock_info;
    hf_waiter waiters[HF__WAITERS_MAX];
    hf__identity waiter_identities[HF__WAITERS_MAX];
} inspection;

static uint32_t shown_waiters(const hf__lock_info *lock_info) {
    return lock_info->waiter_count < HF__WAITERS_MAX ? lock_info->waiter_count : HF__WAITERS_MAX;
}

static void fill_waiters(inspection *made) {
    for (uint32_t i = 0; i < shown_waiters(&made->lock_info); i++) {
        const hf__identity *who = &made->waiter_identities[i];
        made->waiters[i].pid = who->pid;
        made->waiters[i].host = who->host;
        made->waiters[i].program = who->program;
        made->waiters[i].label = who->label;
    }
}

void hf__info_fill(hf_info *info, hf_waiter waiters[HF__WAITERS_MAX],
                   const hf__lock_info *lock_info) {
    *info = (hf_info){.held = lock_info->held, /* for a free lock all fields are zero and "" */
                      .kind = lock_info->kind,
                      .count = lock_info->count,
                      .waiting = lock_info->waiter_count,
                      .remaining_ms = lock_info->remaining_ms,
                      .token = lock_info->token,
                      .since_unix_ms = lock_info->since_unix_ms,
                      .pid = lock_info->identity.pid,
                      .client = lock_info->identity.client,
                      .owner = lock_info->owner,
                      .host = lock_info->identity.host,
                      .program = lock_info->identity.program,
                      .label = lock_info->identity.label,
                      .waiters = waiters,
                      .holders = lock_info->held && !lock_info->holders ? 1 : lock_info->holders,
                      .used = lock_info->used,
                      .capacity = lock_info->capacity};
    for (uint32_t i = 0; i < shown_waiters(lock_info); i++)
        waiters[i] = (hf_waiter){.client = lock_info->waiters[i].client,
                                 .owner = lock_info->waiters[i].owner,
                                 .host = "",
                                 .program = "",
                                 .label = ""};
}

/* Look up the identities of the holder and the waiters, until the time is up. */
static hf_result identify_clients(hf_client *c, hf__exchange *l, inspection *made, hf__time until) {
    hf__lock_info *lock_info = &made->lock_info;
    l->op.verb = HF__CLIENT_INFO;
    hf_result r = lock_info->held && hf__now() < until ? hf__exchange_run(c, l, until) : HF_OK;
    hf__identity holder = lock_info->identity;
    for (uint32_t i = 0; !r && i < shown_waiters(lock_info) && hf__now() < until; i++) {
        lock_info->identity = (hf__identity){0};
        memcpy(lock_info->identity.client, lock_info->waiters[i].client,
               sizeof lock_info->identity.client);
        r = hf__exchange_run(c, l, until);
        made->waiter_identities[i] = lock_info->identity;
    }
    lock_info->identity = holder;
    return r;
}

hf_result hf_inspect(hf_client *c, const char *name, hf_info **info) {
    size_t length;
    if (!info) return hf__fail(HF_INVALID, "hf_inspect needs a pointer for the info");
    *info = NULL;
    hf_result r = hf__name_check(name, &length);
    if (!r) r = hf__call_begin(c);
    if (r) return r;
    inspection *made = calloc(1, sizeof *made);
    if (made) {
        hf__exchange l = {.op = {.verb = HF__INSPECT,
                                 .name = name,
                                 .name_length = length,
                                 .lock_info = &made->lock_info}};
        hf__time until = hf__command_until(c, hf__now());
        r = hf__exchange_run(c, &l, until);
        if (!r) r = identify_clients(c, &l, made, until);
    }
    hf__call_end(c);
    if (!made) return hf__fail(HF_NOMEM, "out of memory");
    if (r) {
        free(made);
        return r;
    }
    hf__info_fill(&made->info, made->waiters, &made->lock_info);
    fill_waiters(made);
    *info = &made->info;
    return HF_OK;
}

void hf_info_free(hf_info *info) {
    free(info);
}

/* ---- Breaking ---- */

hf_result hf_break(hf_client *c, const char *name, uint64_t token) {
    size_t length;
    hf_result r = hf__name_check(name, &length);
    if (!r) r = hf__call_begin(c);
    if (r) return r;
    hf__exchange l = {
        .op = {.verb = HF__BREAK, .name = name, .name_length = length, .token = token}};
    r = hf__exchange_run(c, &l, hf__command_until(c, hf__now()));
    hf__call_end(c);
    if (r == HF_TIMEOUT)
        return hf__fail(
            HF_UNREACHABLE,
            "the request reached the store too late, and nothing was broken; try again");
    if (r == HF_UNREACHABLE && l.op.outcome_unknown)
        return hf__fail(HF_UNKNOWN_OUTCOME, "the store did not answer whether the lock was broken; "
                                            "inspect it");
    if (r != HF_NOT_HELD) return r;
    if (!l.op.token) return hf__fail(r, "nobody holds the lock");
    return hf__fail(r,
                    "the lock is held under token %" PRIu64 ", not %" PRIu64 "; nothing was broken",
                    l.op.token, token);
}

/* ---- Location ---- */

const char *hf_where(hf_client *c) {
    return c && c->store->location ? c->store->location : "";
}

/* ---- Statistics ---- */

hf_result hf_stats_get_v(hf_client *c, hf_stats *stats, size_t size) {
    if (!stats) return hf__fail(HF_INVALID, "hf_stats_get needs a pointer for the counters");
    hf_result r = hf__call_begin(c);
    if (r) return r;
    hf_stats now = *hf__core_stats(c->core);
    now.commands = c->store->commands;
    now.reconnects = c->store->link > 1 ? c->store->link - 1 : 0;
    hf__call_end(c);
    memset(stats, 0, size);
    memcpy(stats, &now, size < sizeof now ? size : sizeof now);
    return HF_OK;
}
