/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Listing the names in use. The store finds a batch of names that may be in use. All of them are
 * inspected together, and reported without the mutex. Then comes the next batch.
 */
#include <stdlib.h>
#include <string.h>

#include "base/glob.h"
#include "client/exchange.h"
#include "client/inspect.h"

typedef struct inspected_name {
    hf__exchange exchange;
    hf__lock_info lock_info;
} inspected_name;

typedef struct name_listing {
    hf_client *client;
    const char *pattern;
    hf_list_fn *fn;
    void *arg;
    hf__list_walk listing;
    uint32_t count; /* of those in `listing` that match */
    const hf__list_item *found[HF__LIST_BATCH];
    inspected_name inspected[HF__LIST_BATCH];
    hf_info info;
    hf_waiter waiters[HF__WAITERS_MAX];
} name_listing;

static hf__time step_deadline(const hf_client *c) {
    return hf__command_until(c, hf__now());
}

static hf_result find_names(name_listing *k) {
    hf__exchange exchange = {.op = {.verb = HF__LIST, .name = "", .list_walk = &k->listing}};
    hf_result r = hf__exchange_run(k->client, &exchange, step_deadline(k->client));
    k->count = 0;
    for (uint32_t i = 0; !r && i < k->listing.count; i++)
        if (hf__glob(k->pattern, k->listing.names[i].name))
            k->found[k->count++] = &k->listing.names[i];
    return r;
}

/* Send an exchange for each wanted name, then wait for all: the store may answer them together. */
static hf_result exchange_all(name_listing *k, hf__verb verb) {
    hf_client *c = k->client;
    hf__time until = step_deadline(c);
    hf_result result = HF_OK;
    for (uint32_t i = 0; i < k->count; i++) {
        inspected_name *s = &k->inspected[i];
        if (verb == HF__CLIENT_INFO && !s->lock_info.held) continue;
        s->exchange.op.verb = verb;
        s->exchange.op.not_after = until;
        c->store->table->submit(c->store, &s->exchange.op, hf__now());
    }
    for (uint32_t i = 0; i < k->count; i++) {
        inspected_name *s = &k->inspected[i];
        if (verb == HF__CLIENT_INFO && !s->lock_info.held) continue;
        (void)hf__await(c, &s->exchange.call, HF__NEVER, NULL);
        hf_result r = hf__call_result(&s->exchange.call);
        if (r == HF_UNREACHABLE && hf__now() < until) r = hf__exchange_run(c, &s->exchange, until);
        s->exchange.call = (hf__call){0};
        s->exchange.op.detail = NULL;
        /* a key that is not a lock is not in use */
        if (r && r != HF_PROTOCOL && !result) result = r;
    }
    return result;
}

static hf_result inspect_names(name_listing *k) {
    for (uint32_t i = 0; i < k->count; i++) {
        const char *name = k->found[i]->name;
        inspected_name *s = &k->inspected[i];
        memset(s, 0, sizeof *s);
        s->exchange.op.name = name;
        s->exchange.op.name_length = strlen(name);
        s->exchange.op.lock_info = &s->lock_info;
    }
    hf_result r = exchange_all(k, HF__INSPECT);
    return r ? r : exchange_all(k, HF__CLIENT_INFO);
}

static bool in_use(const hf__lock_info *s, const hf__list_item *found) {
    return s->held ? !found->from_queue : s->waiter_count > 0;
}

/* True: the callback wants no more. */
static bool report_names(name_listing *k) {
    for (uint32_t i = 0; i < k->count; i++) {
        if (!in_use(&k->inspected[i].lock_info, k->found[i])) continue;
        hf__info_fill(&k->info, k->waiters, &k->inspected[i].lock_info);
        if (k->fn(k->found[i]->name, &k->info, k->arg)) return true;
    }
    return false;
}

/* Mutex held before and after, but not in a child process that the callback has forked. */
static hf_result list_names(name_listing *k) {
    hf_client *c = k->client;
    for (bool enough = false; !enough && !k->listing.finished;) {
        hf_result r = find_names(k);
        if (!r) r = inspect_names(k);
        if (r) return r;
        hf__unlock(c);
        enough = report_names(k);
        if (c->fork_generation != hf__fork_generation())
            return hf__fail(HF_FORKED, "the client belongs to the parent process");
        pthread_mutex_lock(&c->mutex);
        if (c->closed) return hf__fail(HF_CLOSED, "the client was closed meanwhile");
    }
    return HF_OK;
}

hf_result hf_list(hf_client *c, const char *pattern, hf_list_fn *fn, void *arg) {
    if (!fn) return hf__fail(HF_INVALID, "hf_list needs a callback");
    hf_result r = hf__call_begin(c);
    if (r) return r;
    name_listing *k = calloc(1, sizeof *k);
    if (k) {
        k->client = c;
        k->pattern = pattern ? pattern : "*";
        k->fn = fn;
        k->arg = arg;
        k->listing.prefix = k->pattern;
        k->listing.prefix_length = hf__glob_prefix_length(k->pattern);
        r = list_names(k);
        if (k->listing.state) k->listing.free_state(k->listing.state);
    }
    if (c->fork_generation == hf__fork_generation()) hf__call_end(c);
    free(k);
    return k ? r : hf__fail(HF_NOMEM, "out of memory");
}
