/* See room.h. */
#include "store/room/room.h"

#include <stdlib.h>

/* ---- Parties ---- */

/* Of the client, and of its one mutex or of the rest. */
static bool related(const hf__party *a, const hf__party *b) {
    return a->member == b->member && (a->kind == HF_MUTEX) == (b->kind == HF_MUTEX);
}

static bool same(const hf__party *a, const hf__party *b) {
    return related(a, b) && a->number == b->number;
}

/* Whether what is done for `who` is done for `it`. */
static bool stands_for(const hf__party *who, const hf__party *it) {
    if (who->kind != HF_MUTEX) return same(who, it);
    return related(who, it) && it->number <= who->number;
}

static bool supersedes(const hf__party *it, const hf__party *who) {
    return it->kind == HF_MUTEX && related(it, who) && it->number > who->number;
}

/* ---- What fits together ---- */

typedef struct filling {
    bool exclusive, readers, upgradable;
    uint32_t capacity; /* of the permits; 0: there are none */
    uint64_t permits;
} filling;

static bool fits(const filling *f, const hf__party *who) {
    switch (who->kind) {
    case HF_READ: return !f->exclusive && !f->capacity;
    case HF_UPGRADABLE: return !f->exclusive && !f->capacity && !f->upgradable;
    case HF_PERMITS:
        if (f->capacity && f->capacity != who->capacity) return false;
        return !f->exclusive && !f->readers && f->permits + who->permits <= who->capacity;
    default: return !f->exclusive && !f->readers && !f->capacity;
    }
}

static void fill(filling *f, const hf__party *who) {
    switch (who->kind) {
    case HF_UPGRADABLE: f->upgradable = true; /* fall through */
    case HF_READ: f->readers = true; break;
    case HF_PERMITS:
        f->capacity = who->capacity;
        f->permits += who->permits;
        break;
    default: f->exclusive = true;
    }
}

/* ---- Inside ---- */

/* One record is part of the room, and most often the only one. */
static hf__holder *new_record(hf__room *room) {
    if (!room->record.party.member) return &room->record;
    return malloc(sizeof(hf__holder));
}

static void free_record(hf__room *room, hf__holder *holder) {
    if (holder == &room->record)
        holder->party.member = NULL;
    else
        free(holder);
}

hf__holder *hf__room_holder(const hf__room *room, const hf__party *who) {
    hf__holder *it = room->holders;
    while (it && !same(&it->party, who)) it = it->next;
    return it;
}

hf__holder *hf__room_enter(hf__room *room, const hf__party *who) {
    hf__holder *made = new_record(room), **link = &room->holders;
    if (!made) return NULL;
    *made = (hf__holder){.party = *who};
    while (*link) link = &(*link)->next;
    *link = made;
    if (room->line) hf__room_leave(room, who);
    return made;
}

static void end_at(hf__room *room, hf__holder **link) {
    hf__holder *ended = *link;
    *link = ended->next;
    if (room->line && ended->party.kind == HF_UPGRADABLE) hf__room_leave(room, &ended->party);
    free_record(room, ended);
}

/* Which holds, or which places, something is done to. */
typedef bool which_holder(const hf__holder *it, const void *arg);
typedef bool which_waiter(const hf__waiter *it, const void *arg);

static bool end_those(hf__room *room, which_holder *meant, const void *arg) {
    bool ended = false;
    for (hf__holder **link = &room->holders; *link;) {
        if (meant(*link, arg)) {
            end_at(room, link);
            ended = true;
        } else {
            link = &(*link)->next;
        }
    }
    return ended;
}

static bool holds_for(const hf__holder *it, const void *who) {
    return stands_for(who, &it->party);
}

static bool has_token(const hf__holder *it, const void *token) {
    return !*(const uint64_t *)token || it->token == *(const uint64_t *)token;
}

bool hf__room_end_of(hf__room *room, const hf__party *who) {
    return end_those(room, holds_for, who);
}

bool hf__room_end_token(hf__room *room, uint64_t token) {
    return end_those(room, has_token, &token);
}

/* ---- In line ---- */

static void leave_at(hf__waiter **link) {
    hf__waiter *left = *link;
    *link = left->next;
    free(left);
}

/* Where it stands, or where the line ends. */
static hf__waiter **place_of(hf__room *room, const hf__party *who) {
    hf__waiter **link = &room->line;
    while (*link && !stands_for(who, &(*link)->party)) link = &(*link)->next;
    return link;
}

bool hf__room_turn(const hf__room *room, const hf__party *who) {
    filling f = {0};
    for (const hf__holder *it = room->holders; it; it = it->next) fill(&f, &it->party);
    for (const hf__waiter *it = room->line; it && !stands_for(who, &it->party); it = it->next) {
        if (!fits(&f, &it->party)) return false;
        fill(&f, &it->party); /* as if it had entered, which it may do at any moment */
    }
    return fits(&f, who);
}

/* An upgrade waits for those beside it, and for nobody else. */
static bool may_enter(const hf__room *room, const filling *f, const hf__party *who) {
    if (hf__room_holder(room, who)) return !room->holders->next;
    return fits(f, who);
}

size_t hf__room_turns(const hf__room *room) {
    filling f = {0};
    size_t count = 0;
    for (const hf__holder *it = room->holders; it; it = it->next) fill(&f, &it->party);
    for (const hf__waiter *it = room->line; it && may_enter(room, &f, &it->party); it = it->next) {
        fill(&f, &it->party);
        count++;
    }
    return count;
}

bool hf__room_superseded(const hf__room *room, const hf__party *who) {
    for (const hf__holder *it = room->holders; it; it = it->next)
        if (supersedes(&it->party, who)) return true;
    for (const hf__waiter *it = room->line; it; it = it->next)
        if (supersedes(&it->party, who)) return true;
    return false;
}

hf__waiter *hf__room_waiter(const hf__room *room, const hf__party *who) {
    hf__waiter *it = room->line;
    while (it && !same(&it->party, who)) it = it->next;
    return it;
}

bool hf__room_stand(hf__room *room, const hf__party *who, bool before_all, hf__time now) {
    hf__waiter **link = place_of(room, who);
    if (!*link) {
        hf__waiter *made = malloc(sizeof *made);
        if (!made) return false;
        if (before_all) link = &room->line;
        made->next = *link;
        made->tag = 0;
        *link = made;
    }
    (*link)->party = *who;
    (*link)->seen_at = now;
    return true;
}

void hf__room_leave(hf__room *room, const hf__party *who) {
    hf__waiter **link = place_of(room, who);
    if (*link) leave_at(link);
}

bool hf__room_crowded(const hf__room *room, const hf__party *who) {
    const hf__waiter *first = room->line;
    return first && (first->next || !same(&first->party, who));
}

/* ---- Both ---- */

static void remove_those(hf__room *room, which_holder *holders, which_waiter *waiters,
                         const void *arg) {
    (void)end_those(room, holders, arg);
    for (hf__waiter **link = &room->line; *link;) {
        if (waiters(*link, arg))
            leave_at(link);
        else
            link = &(*link)->next;
    }
}

static bool is_over(const hf__holder *it, const void *now) {
    return *(const hf__time *)now >= it->expires;
}

static bool is_gone(const hf__waiter *it, const void *now) {
    return *(const hf__time *)now - it->seen_at >= HF__ROOM_GONE;
}

static bool holder_is_of(const hf__holder *it, const void *member) {
    return !member || it->party.member == member;
}

static bool waiter_is_of(const hf__waiter *it, const void *member) {
    return !member || it->party.member == member;
}

void hf__room_sweep(hf__room *room, hf__time now) {
    remove_those(room, is_over, is_gone, &now);
}

void hf__room_forget(hf__room *room, const hf__member *member) {
    remove_those(room, holder_is_of, waiter_is_of, member);
}
