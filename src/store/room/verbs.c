/* See verbs.h. */
#include "store/room/verbs.h"

#include <time.h>

#define RETRY_MS 20  /* how long a waiter waits before it asks again */
#define TOLD_MS  400 /* one who stands in line and is told; well below HF__ROOM_GONE */

hf__party hf__room_party(const hf__member *self, const hf__op *op) {
    return (hf__party){.member = self,
                       .number = op->number,
                       .owner = op->owner,
                       .kind = op->upgrade && op->verb == HF__ASK ? HF_WRITE : op->kind,
                       .permits = op->permits,
                       .capacity = op->capacity};
}

static void keep(hf__holder *holder, int64_t lease_ms, hf__time now) {
    holder->expires = hf__later(holder->expires, now + lease_ms * HF__MS);
}

/* ---- ASK ---- */

static uint64_t unix_us(void) {
    struct timespec ts;
    clock_gettime(CLOCK_REALTIME, &ts);
    return (uint64_t)ts.tv_sec * 1000000 + (uint64_t)ts.tv_nsec / 1000;
}

static uint64_t next_token(hf__room *room, uint64_t now_us, uint64_t above) {
    uint64_t token = room->last_token + 1;
    if (token < now_us) token = now_us;
    if (token <= above) token = above + 1;
    return room->last_token = token;
}

static hf__holder *grant(hf__room *room, const hf__party *who, const hf__op *op) {
    hf__holder *made = hf__room_enter(room, who);
    if (!made) return NULL;
    uint64_t now_us = unix_us();
    made->token = next_token(room, now_us, op->token);
    made->since_unix_ms = (int64_t)(now_us / 1000);
    made->count = op->count;
    return made;
}

static hf_result granted(const hf__room *room, hf__holder *holder, hf__op *op, hf__time now) {
    keep(holder, op->lease_ms, now);
    op->token = holder->token;
    op->crowded = hf__room_crowded(room, &holder->party);
    return HF_OK;
}

/* Not later than when the first lease ends, which may be that of one who died. */
static hf_result busy(const hf__room *room, const hf__member *self, hf__op *op, hf__time now) {
    op->retry_ms = op->placed && self->is_told ? TOLD_MS : RETRY_MS;
    for (const hf__holder *it = room->holders; it; it = it->next) {
        int64_t left = (it->expires - now) / HF__MS + 1;
        if (left < op->retry_ms) op->retry_ms = left;
        op->told_token = it->token; /* of the last, which is the highest */
    }
    return HF_BUSY;
}

static hf_result wait_in_line(hf__room *room, const hf__party *who, hf__op *op, hf__time now) {
    op->placed = op->stand && hf__room_stand(room, who, op->upgrade, now);
    return busy(room, who->member, op, now);
}

/* While permits are held, their capacity is that of all. */
static bool disagrees(const hf__room *room, const hf__party *who, hf__op *op) {
    const hf__party *inside = room->holders ? &room->holders->party : NULL;
    if (who->kind != HF_PERMITS || !inside || inside->kind != HF_PERMITS) return false;
    if (inside->capacity == who->capacity) return false;
    op->capacity = inside->capacity;
    return true;
}

/* It goes before all others, and waits only for those who hold beside it. */
static hf_result upgrade(hf__room *room, const hf__party *who, hf__op *op, hf__time now) {
    hf__holder *holder = hf__room_holder(room, who);
    if (!holder) return HF_LOST;
    if (holder->party.kind == HF_WRITE) return granted(room, holder, op, now);
    if (holder->party.kind != HF_UPGRADABLE) return HF_INVALID;
    if (room->holders->next) return wait_in_line(room, who, op, now);
    hf__room_leave(room, who);
    holder->party.kind = HF_WRITE;
    holder->token = next_token(room, unix_us(), op->token);
    return granted(room, holder, op, now);
}

hf_result hf__room_ask(hf__room *room, const hf__member *self, hf__op *op, hf__time now) {
    if (now > op->not_after) return HF_TIMEOUT;
    hf__party who = hf__room_party(self, op);
    if (op->upgrade) return upgrade(room, &who, op, now);
    hf__holder *holder = hf__room_holder(room, &who);
    if (holder) return granted(room, holder, op, now);
    if (hf__room_superseded(room, &who)) return busy(room, self, op, now);
    if (disagrees(room, &who, op)) {
        hf__room_leave(room, &who);
        return HF_INVALID;
    }
    /* The turn of a hold that nobody waited for any more is that of its successor. */
    bool replaced = hf__room_end_of(room, &who);
    if (!(replaced && op->succeeds) && !hf__room_turn(room, &who))
        return wait_in_line(room, &who, op, now);
    holder = grant(room, &who, op);
    return holder ? granted(room, holder, op, now) : HF_NOMEM;
}

/* ---- The others ---- */

/* A kind says at most what the hold is: it never becomes more by being kept. Who says less than a writer
   wants no upgrade any more. */
static void lower(hf__room *room, hf__holder *holder, uint32_t kind) {
    uint32_t *is = &holder->party.kind;
    if (kind != HF_READ && kind != HF_UPGRADABLE) return;
    if (*is == HF_UPGRADABLE) hf__room_leave(room, &holder->party);
    if (*is == HF_WRITE || (*is == HF_UPGRADABLE && kind == HF_READ)) *is = kind;
}

hf_result hf__room_renew(hf__room *room, const hf__member *self, hf__op *op, hf__time now) {
    hf__party who = hf__room_party(self, op);
    hf__holder *holder = hf__room_holder(room, &who);
    if (!holder || holder->token != op->token) return HF_LOST;
    lower(room, holder, op->kind);
    holder->count = op->count;
    keep(holder, op->lease_ms, now);
    op->crowded = hf__room_crowded(room, &who);
    return HF_OK;
}

hf_result hf__room_release(hf__room *room, const hf__member *self, const hf__op *op) {
    hf__party who = hf__room_party(self, op);
    bool held = hf__room_end_of(room, &who);
    hf__room_leave(room, &who);
    return held ? HF_OK : HF_LOST;
}

hf_result hf__room_break(hf__room *room, hf__op *op, hf__time now) {
    if (now > op->not_after) return HF_TIMEOUT;
    uint64_t first = room->holders ? room->holders->token : 0;
    bool ended = hf__room_end_token(room, op->token);
    if (!ended || !op->token) op->token = first;
    return ended ? HF_OK : HF_NOT_HELD;
}

/* ---- INSPECT ---- */

static void see_holders(const hf__room *room, hf__sight *sight) {
    for (const hf__holder *it = room->holders; it; it = it->next) {
        sight->holders++;
        if (it->party.kind != HF_PERMITS) continue;
        sight->used += it->party.permits;
        sight->capacity = it->party.capacity;
    }
}

static void see_first(const hf__holder *first, hf__sight *sight, hf__time now) {
    bool beside = first->next && first->party.kind == HF_UPGRADABLE; /* beside plain readers */
    sight->held = true;
    sight->kind = beside ? HF_READ : first->party.kind;
    sight->count = first->count;
    sight->token = first->token;
    sight->since_unix_ms = first->since_unix_ms;
    sight->remaining_ms = (first->expires - now) / HF__MS;
    hf__owner_text(sight->owner, first->party.owner);
    memcpy(sight->who.client, first->party.member->client, sizeof sight->who.client);
}

static void see_line(const hf__room *room, hf__sight *sight) {
    for (const hf__waiter *it = room->line; it; it = it->next) {
        if (sight->waiting++ >= HF__LINE_SEEN) continue;
        hf__standing *seen = &sight->line[sight->waiting - 1];
        hf__owner_text(seen->owner, it->party.owner);
        memcpy(seen->client, it->party.member->client, sizeof seen->client);
    }
}

void hf__room_inspect(const hf__room *room, hf__sight *sight, hf__time now) {
    sight->held = false;
    sight->waiting = sight->holders = sight->used = sight->capacity = 0;
    see_line(room, sight);
    if (!room->holders) return;
    see_holders(room, sight);
    see_first(room->holders, sight, now);
}
