#include "store/redis/topology/release_log.h"

#include "store/redis/protocol/notifications.h"

#include <stdlib.h>
#include <string.h>

struct hf__released {
    hf__mapped mapped; /* by its name, and of what is not a mutex by its number as well */
    hf__released *next, *prev;
    uint64_t number;
    uint32_t kind;
    bool leave;     /* it stood in line */
    hf__time until; /* its lease, and its place in line, have ended by then, wherever it has them */
    bool busy;      /* under way */
    hf__op op;
    char key[];
};

void hf__past_init(hf__past *p, uint64_t seed) {
    *p = (hf__past){.count = 0};
    hf__map_init(&p->names, seed);
}

static void unlink_one(hf__past *p, hf__released *r) {
    if (r->prev)
        r->prev->next = r->next;
    else
        p->first = r->next;
    if (r->next)
        r->next->prev = r->prev;
    else
        p->last = r->prev;
    r->next = r->prev = NULL;
}

static void drop(hf__past *p, hf__released *r) {
    hf__map_remove(&p->names, &r->mapped);
    unlink_one(p, r);
    p->count--;
    free(r->op.detail);
    free(r);
}

static void append(hf__past *p, hf__released *r) {
    r->prev = p->last;
    r->next = NULL;
    if (p->last)
        p->last->next = r;
    else
        p->first = r;
    p->last = r;
}

void hf__past_fini(hf__past *p) {
    while (p->first) drop(p, p->first);
    hf__map_fini(&p->names);
}

/* Those whose lease is over; and the oldest, to make room. */
static void tidy(hf__past *p, hf__time now) {
    for (hf__released *r = p->first, *next; r; r = next) {
        next = r->next;
        if (r->until > now && p->count < HF__PAST_MAX) return;
        if (!r->busy) drop(p, r);
    }
}

static size_t lane_length(uint32_t kind) {
    return kind == HF_MUTEX ? 0 : sizeof(uint64_t);
}

static hf__released *find_or_make(hf__past *p, const hf__op *op) {
    size_t lane = lane_length(op->kind), length = op->name_length + lane;
    hf__released *made = calloc(1, sizeof *made + length + 1);
    if (!made) return NULL;
    memcpy(made->key, op->name, op->name_length);
    memcpy(made->key + op->name_length, &op->number, lane);
    hf__mapped *m = hf__map_find(&p->names, made->key, length);
    if (m) {
        free(made);
        return (hf__released *)((char *)m - offsetof(hf__released, mapped));
    }
    made->mapped.key = made->key;
    made->mapped.length = length;
    hf__map_add(&p->names, &made->mapped);
    append(p, made);
    p->count++;
    return made;
}

/* One of a name stands for those before it: a release goes for all numbers up to its own. */
static void keep(hf__past *p, const hf__op *op, hf__time now) {
    tidy(p, now);
    hf__released *r = find_or_make(p, op);
    if (!r) return;
    bool leave = op->leave || p->stood;
    int64_t lasts = leave && p->lease_ms < HF__PLACE_MS ? HF__PLACE_MS : p->lease_ms;
    if (op->number > r->number) r->number = op->number;
    r->kind = op->kind;
    r->leave |= leave;
    r->until = hf__later(r->until, hf__after_ms(now, lasts));
    unlink_one(p, r);
    append(p, r);
}

/* Released; or lost, for another server may have it. Not of other kinds, whose number may be asked for
   again by who else waits. */
static bool is_over(const hf__op *op) {
    if (op->verb == HF__RELEASE && (op->result == HF_OK || op->leave))
        return op->result == HF_OK || op->result == HF_LOST;
    bool hold = op->verb == HF__RELEASE || op->verb == HF__RENEW;
    return hold && op->kind == HF_MUTEX && op->result == HF_LOST;
}

void hf__past_note(hf__past *p, const hf__op *op, hf__time now) {
    if (op->lease_ms > p->lease_ms) p->lease_ms = op->lease_ms;
    if (op->heir && op->heir->lease_ms > p->lease_ms) p->lease_ms = op->heir->lease_ms;
    if (hf__hearing_stands(op)) p->stood = true;
    if (op->kind != HF_MUTEX && op->ack.state == HF__ACK_UNDOING) return; /* it is asked again */
    if (!is_over(op)) return;
    keep(p, op, now);
    bool left = op->verb == HF__RELEASE && op->leave;
    if (op->result == HF_LOST && !left && p->stood) p->again = true; /* it may stand in line here */
}

static hf__op *say_again(hf__released *r, hf__time now) {
    r->busy = true;
    r->op = (hf__op){.verb = HF__RELEASE,
                     .repeated = true,
                     .name = r->key,
                     .name_length = r->mapped.length - lane_length(r->kind),
                     .number = r->number,
                     .kind = r->kind,
                     .leave = r->leave,
                     .held_since = now};
    return &r->op;
}

void hf__past_repeat(hf__past *p, hf__session *session, hf__time now) {
    tidy(p, now);
    p->again = false;
    for (hf__released *r = p->first; r; r = r->next)
        if (!r->busy) hf__session_submit(session, say_again(r, now), now);
}

void hf__past_repeat_to(hf__past *p, hf__store *store,
                        bool (*concerns)(const hf__store *store, const char *name, size_t length),
                        hf__time now) {
    tidy(p, now);
    for (hf__released *r = p->first; r; r = r->next) {
        size_t length = r->mapped.length - lane_length(r->kind);
        if (!r->busy && concerns(store, r->key, length))
            store->table->submit(store, say_again(r, now), now);
    }
}

bool hf__past_took(hf__op *op) {
    if (!op->repeated) return false;
    ((hf__released *)((char *)op - offsetof(hf__released, op)))->busy = false;
    free(op->detail);
    op->detail = NULL;
    return true;
}
