/*
 * One lock, as a room: who is inside, who stands in line at its door, and whom it is the turn of. It knows
 * neither operations nor the clock; verbs.c says what an operation does to it. The memory store keeps its locks
 * so; the file store reads one from the lock's file, and writes back what has changed.
 *
 * Who is inside is there together by right: one that excludes, or readers with one upgradable at most, or permits
 * of one capacity up to it. Turns are taken strictly: walking the line from its front, each who fits beside
 * those inside and those before it may enter, and the first who does not holds back all behind.
 *
 * Numbers: of mutexes a client has one at a time, the highest, which stands for all that came before it.
 * Anything else is this very number, and has nothing to do with the client's mutex.
 */
#ifndef HF_STORE_ROOM_ROOM_H
#define HF_STORE_ROOM_ROOM_H

#include "store/store.h"

/* Who has not asked for this long has left the line. */
#define HF__ROOM_GONE HF__SEC

/* A client. Each has one, by whose address it is known. */
typedef struct hf__member {
    char client[HF__UUID_LENGTH + 1];
    bool is_told; /* when its turn has come: it need not ask often */
} hf__member;

/* Who wants or has what. */
typedef struct hf__party {
    const hf__member *member;
    uint64_t number;
    hf__owner owner;
    uint32_t kind;
    uint32_t permits, capacity; /* HF_PERMITS */
} hf__party;

typedef struct hf__holder {
    struct hf__holder *next; /* who was granted it later, under a higher token */
    hf__party party;         /* no member: the record is not in use */
    uint32_t count;
    uint64_t token;
    int64_t since_unix_ms;
    hf__time expires;
    uint32_t tag; /* the store's own; 0 in what is new */
} hf__holder;

typedef struct hf__waiter {
    struct hf__waiter *next; /* who came later */
    hf__party party;
    hf__time seen_at; /* when it last asked */
    uint32_t tag;     /* as above */
} hf__waiter;

/* Zero is an empty one. */
typedef struct hf__room {
    uint64_t last_token;
    hf__holder *holders;
    hf__waiter *line;
    hf__holder record; /* for one of the holders: a mutex allocates nothing */
} hf__room;

/* Drop whose lease is over, and who has stopped asking. All below goes for what is left. */
void hf__room_sweep(hf__room *room, hf__time now);

/* ---- Inside ---- */

/* The hold of this very number. */
hf__holder *hf__room_holder(const hf__room *room, const hf__party *who);

/* Make it a holder, last of all; it leaves the line. The caller fills in the rest. NULL: no memory. */
hf__holder *hf__room_enter(hf__room *room, const hf__party *who);

/* End the holds that `who` stands for, or the one with this token, 0: all; and with them the wait of their upgrade.
   False: there was none. */
bool hf__room_end_of(hf__room *room, const hf__party *who);
bool hf__room_end_token(hf__room *room, uint64_t token);

/* ---- In line ---- */

/* Whether it may enter now: from its place if it has one, else from behind all others. */
bool hf__room_turn(const hf__room *room, const hf__party *who);

/* How many at the front of the line may enter now. */
size_t hf__room_turns(const hf__room *room);

/* A mutex of the client with a higher number holds or waits: this one comes too late. */
bool hf__room_superseded(const hf__room *room, const hf__party *who);

/* The place of this very number. */
hf__waiter *hf__room_waiter(const hf__room *room, const hf__party *who);

/* Keep the place it has, or take one, behind or before all others. False: no memory for one. */
bool hf__room_stand(hf__room *room, const hf__party *who, bool before_all, hf__time now);
void hf__room_leave(hf__room *room, const hf__party *who);

/* Whether anybody else waits. */
bool hf__room_crowded(const hf__room *room, const hf__party *who);

/* ---- Both ---- */

/* All of a member; NULL: of all. */
void hf__room_forget(hf__room *room, const hf__member *member);

#endif
