/*
 * Who is inside which lock, as each says itself: in memory that all processes of the soak share.
 *
 * Each thread has a slot of its own, that it alone writes to, so that a process which is stopped or
 * killed holds up nobody else's book-keeping. Who comes in writes that first and looks at all others
 * then: of two who come in at once, at least one sees the other. Only what is so at one instant counts:
 * what was found is looked at once more, and must not have changed, and both deadlines must be ahead
 * of a time between the two looks.
 *
 * A store that was wiped (FLUSHALL, a restart without its data) has forgotten who was inside, and
 * they learn of it with their next renewal. `wipes` of a stay is the store's count of that before the
 * stay was asked for, odd while it happens; a stay from before the last wipe is not compared.
 */
#ifndef HF_SOAK_LEDGER_H
#define HF_SOAK_LEDGER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum { LEDGER_SLOTS = 512, LEDGER_RECORDS = 4, LEDGER_NAMES = 2048 };

typedef struct ledger_stay {
    int name; /* below LEDGER_NAMES */
    uint32_t kind, permits, capacity;
    unsigned wipes;
    int64_t until_us; /* its own deadline, CLOCK_BOOTTIME */
} ledger_stay;

typedef struct ledger_record {
    atomic_uint version; /* odd while it is written */
    atomic_int name;
    atomic_uint kind, permits, wipes;
    atomic_llong until_us; /* 0: nobody is inside */
} ledger_record;

typedef struct ledger_slot {
    atomic_bool dead; /* its process is killed: what stands here counts no more */
    ledger_record records[LEDGER_RECORDS];
} ledger_slot;

typedef struct ledger {
    ledger_slot slots[LEDGER_SLOTS];
    atomic_ullong highest[LEDGER_NAMES]; /* token of a stay that excludes others */
} ledger;

/* The stay is written down. `record`: which of the slot's, for who is inside several. */
void ledger_enter(ledger *l, int slot, int record, const ledger_stay *stay);

/* It was renewed. */
void ledger_extend(ledger *l, int slot, int record, int64_t until_us);

/* Before it is released. */
void ledger_leave(ledger *l, int slot, int record);

/* Of a process that is gone, or there again. */
void ledger_set_dead(ledger *l, int slot, bool dead);

/*
 * Whether somebody is inside beside this stay, which was entered, who must not be. `wipes` is the
 * count now. *other is one of their slots.
 */
bool ledger_overlaps(ledger *l, int slot, const ledger_stay *stay, unsigned wipes, int *other);

/* Whether the token of a stay that excludes others is above all before it. */
bool ledger_token_grows(ledger *l, int name, uint64_t token);

#endif
