/*
 * One lock, as a room: who is inside, who stands in line at its door, and whom it is the turn of. It knows
 * neither operations nor the clock; operations.c says what an operation does to it. The memory store keeps its locks
 * so; the file store reads one from the lock's file, and writes back what has changed.
 *
 * Who is inside is there together by right: one that excludes, or readers with one upgradable at most, or permits
 * of one capacity up to it. Turns are taken strictly: walking the line from its front, each who fits beside
 * those inside and those before it may enter, and the first who does not holds back all behind.
 *
 * Numbers: of mutexes a client has one at a time, the highest, which stands for all that came before it.
 * Anything else is this very number, and has nothing to do with the client's mutex.
 */
#ifndef HF_STORE_LOCK_STATE_LOCK_STATE_H
#define HF_STORE_LOCK_STATE_LOCK_STATE_H

#include "store/store.h"

/* Who has not asked for this long has left the line. */
#define HF__WAITER_TIMEOUT HF__SEC

/* A client. Each has one, by whose address it is known. */
typedef struct hf__store_client {
    char uuid[HF__UUID_LENGTH + 1];
    bool is_notified; /* when its turn has come: it need not ask often */
} hf__store_client;

/* Who wants or has what. */
typedef struct hf__contender {
    const hf__store_client *client;
    uint64_t acquire_id;
    hf__owner owner;
    uint32_t kind;
    uint32_t permits, capacity; /* HF_PERMITS */
} hf__contender;

typedef struct hf__holder {
    struct hf__holder *next; /* who was granted it later, under a higher token */
    hf__contender contender; /* no member: the record is not in use */
    uint32_t count;
    uint64_t token;
    int64_t since_unix_ms;
    hf__time expires;
    uint32_t tag; /* the store's own; 0 in what is new */
} hf__holder;

typedef struct hf__waiter {
    struct hf__waiter *next; /* who came later */
    hf__contender contender;
    hf__time seen_at; /* when it last asked */
    uint32_t tag;     /* as above */
} hf__waiter;

/* Zero is an empty one. */
typedef struct hf__lock_state {
    uint64_t last_token;
    hf__holder *holders;
    hf__waiter *waiters;
    hf__holder first_record; /* for one of the holders: a mutex allocates nothing */
} hf__lock_state;

/* Drop whose lease is over, and who has stopped asking. All below goes for what is left. */
void hf__lock_state_expire(hf__lock_state *state, hf__time now);

/* ---- Inside ---- */

/* The hold of this very number. */
hf__holder *hf__lock_state_find_holder(const hf__lock_state *state, const hf__contender *contender);

/* Make it a holder, last of all; it leaves the line. The caller fills in the rest. NULL: no memory. */
hf__holder *hf__lock_state_add_holder(hf__lock_state *state, const hf__contender *contender);

/* End the holds that `contender` stands for, or the one with this token, 0: all; and with them the wait of their upgrade.
   False: there was none. */
bool hf__lock_state_end_holds_of(hf__lock_state *state, const hf__contender *contender);
bool hf__lock_state_end_token(hf__lock_state *state, uint64_t token);

/* ---- In line ---- */

/* Whether it may enter now: from its place if it has one, else from behind all others. */
bool hf__lock_state_can_grant(const hf__lock_state *state, const hf__contender *contender);

/* How many at the front of the line may enter now. */
size_t hf__lock_state_count_grantable(const hf__lock_state *state);

/* A mutex of the client with a higher number holds or waits: this one comes too late. */
bool hf__lock_state_is_superseded(const hf__lock_state *state, const hf__contender *contender);

/* The place of this very number. */
hf__waiter *hf__lock_state_find_waiter(const hf__lock_state *state, const hf__contender *contender);

/* Keep the place it has, or take one, behind or before all others. False: no memory for one. */
bool hf__lock_state_enqueue(hf__lock_state *state, const hf__contender *contender, bool before_all,
                            hf__time now);
void hf__lock_state_dequeue(hf__lock_state *state, const hf__contender *contender);

/* Whether anybody else waits. */
bool hf__lock_state_has_other_waiters(const hf__lock_state *state, const hf__contender *contender);

/* ---- Both ---- */

/* All of a member; NULL: of all. */
void hf__lock_state_remove_client(hf__lock_state *state, const hf__store_client *client);

#endif
