#include "client/look.h"

#include <stdlib.h>
#include <string.h>

#include "client/client.h"

/* Lives on its caller's stack: the caller waits until the store has completed it, which the store's
   command timeout bounds. */
typedef struct look {
    hf__op op;
    hf__call call;
} look;

bool hf__look_complete(hf__core *core, hf__op *op) {
    if (op->verb != HF__INSPECT && op->verb != HF__WHO && op->verb != HF__BREAK) return false;
    look *l = (look *)((char *)op - offsetof(look, op));
    hf_result r = op->result == HF_UNREACHABLE && core->closing ? HF_CLOSED : op->result;
    hf__call_finish(core, &l->call, r, op->detail);
    return true;
}

/* One exchange, mutex held. The failure is set as this thread's. A connection that broke while nobody
   used it is made again first; what has been sent is sent again only if that does no harm. */
static hf_result exchange(hf_client *c, look *l, hf__time until) {
    for (;;) {
        hf_result r = c->store->up ? HF_OK : hf__await_up(c, until);
        if (r) return r;
        l->call = (hf__call){0};
        l->op.not_after = until;
        c->store->table->submit(c->store, &l->op, hf__now());
        (void)hf__await(c, &l->call, HF__NEVER, NULL);
        bool again = l->call.result == HF_UNREACHABLE && !c->store->up &&
                     (!l->op.maybe || l->op.verb != HF__BREAK);
        r = hf__call_result(&l->call);
        if (!again || hf__now() >= until) return r;
    }
}

/* ---- Inspecting ---- */

/* An info and all that it points at are one allocation. */
typedef struct insight {
    hf_info info;
    hf__sight sight;
    hf_waiter waiters[HF__LINE_SEEN];
    hf__identity line[HF__LINE_SEEN];
} insight;

static uint32_t seen(const hf__sight *s) {
    return s->waiting < HF__LINE_SEEN ? s->waiting : HF__LINE_SEEN;
}

static void fill_waiters(insight *made) {
    for (uint32_t i = 0; i < seen(&made->sight); i++) {
        const hf__identity *who = &made->line[i];
        made->waiters[i] = (hf_waiter){.pid = who->pid,
                                       .client = made->sight.line[i].client,
                                       .owner = made->sight.line[i].owner,
                                       .host = who->host,
                                       .program = who->program,
                                       .label = who->label};
    }
    made->info.waiting = made->sight.waiting;
    made->info.waiters = made->waiters;
}

static void fill_info(insight *made) {
    const hf__sight *s = &made->sight; /* of a free lock it is all zero and "" */
    hf_info *info = &made->info;
    info->held = s->held;
    info->kind = s->kind;
    info->holders = s->held && !s->holders ? 1 : s->holders;
    info->used = s->used;
    info->capacity = s->capacity;
    info->count = s->count;
    info->remaining_ms = s->remaining_ms;
    info->token = s->token;
    info->since_unix_ms = s->since_unix_ms;
    info->pid = s->who.pid;
    info->client = made->sight.who.client;
    info->owner = made->sight.owner;
    info->host = made->sight.who.host;
    info->program = made->sight.who.program;
    info->label = made->sight.who.label;
    fill_waiters(made);
}

/* Who the holder is, and who waits; as far as there is time for it. */
static hf_result identify(hf_client *c, look *l, insight *made, hf__time until) {
    hf__sight *s = &made->sight;
    l->op.verb = HF__WHO;
    hf_result r = s->held && hf__now() < until ? exchange(c, l, until) : HF_OK;
    hf__identity holder = s->who;
    for (uint32_t i = 0; !r && i < seen(s) && hf__now() < until; i++) {
        s->who = (hf__identity){0};
        memcpy(s->who.client, s->line[i].client, sizeof s->who.client);
        r = exchange(c, l, until);
        made->line[i] = s->who;
    }
    s->who = holder;
    return r;
}

hf_result hf_inspect(hf_client *c, const char *name, hf_info **info) {
    size_t length;
    if (!info) return hf__fail(HF_INVALID, "hf_inspect needs somewhere to put the info");
    *info = NULL;
    hf_result r = hf__name_check(name, &length);
    if (!r) r = hf__begin(c);
    if (r) return r;
    insight *made = calloc(1, sizeof *made);
    if (made) {
        look l = {
            .op = {
                .verb = HF__INSPECT, .name = name, .name_length = length, .sight = &made->sight}};
        hf__time until = hf__after_ms(hf__now(), c->core.config.command_timeout_ms);
        r = exchange(c, &l, until);
        if (!r) r = identify(c, &l, made, until);
    }
    hf__end(c);
    if (!made) return hf__fail(HF_NOMEM, "out of memory");
    if (r) {
        free(made);
        return r;
    }
    fill_info(made);
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
    if (!r) r = hf__begin(c);
    if (r) return r;
    look l = {.op = {.verb = HF__BREAK, .name = name, .name_length = length, .token = token}};
    r = exchange(c, &l, hf__after_ms(hf__now(), c->core.config.command_timeout_ms));
    hf__end(c);
    if (r == HF_TIMEOUT)
        return hf__fail(HF_UNREACHABLE, "the store got to it too late, and broke nothing");
    if (r == HF_UNREACHABLE && l.op.maybe)
        return hf__fail(HF_UNKNOWN_OUTCOME, "the store did not answer whether the lock was broken; "
                                            "inspect it");
    if (r != HF_NOT_HELD) return r;
    if (!l.op.token) return hf__fail(r, "nobody holds the lock");
    return hf__fail(r,
                    "the lock is held under token %" PRIu64 ", not %" PRIu64 "; nothing was broken",
                    l.op.token, token);
}

/* ---- Counting ---- */

hf_result hf_stats_get_v(hf_client *c, hf_stats *stats, size_t size) {
    if (!stats) return hf__fail(HF_INVALID, "hf_stats_get needs somewhere to put the counters");
    hf_result r = hf__begin(c);
    if (r) return r;
    hf_stats now = c->core.stats;
    now.commands = c->store->commands;
    now.reconnects = c->store->link > 1 ? c->store->link - 1 : 0;
    hf__end(c);
    memset(stats, 0, size);
    memcpy(stats, &now, size < sizeof now ? size : sizeof now);
    return HF_OK;
}
