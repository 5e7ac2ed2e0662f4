/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Records of which thread is inside which lock, as each thread reports it. They are in memory that
 * all processes of the soak share.
 *
 * Each thread has its own slot, and only that thread writes to it. So a process that is stopped or
 * killed does not block the others. A thread that enters writes its record first, and then reads
 * all others: of two that enter at once, at least one sees the other. An overlap must exist at one
 * instant: the record is read twice, must not have changed, and both deadlines must be later than a
 * time between the two readings.
 *
 * A store that was wiped (FLUSHALL, a restart without its data) has lost its locks, and the holders
 * learn it with their next renewal. `wipes` of a stay is the store's count of wipes before the
 * acquire was sent; it is odd while a wipe happens. A stay from before the last wipe is not
 * compared.
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
    atomic_bool dead; /* its process was killed: its records no longer count */
    ledger_record records[LEDGER_RECORDS];
} ledger_slot;

typedef struct soak_ledger {
    ledger_slot slots[LEDGER_SLOTS];
    atomic_ullong highest[LEDGER_NAMES]; /* highest token of a stay that excludes others */
} soak_ledger;

/* Record the stay. `record` selects one of the slot's records, for a thread inside several
   locks. */
void ledger_enter(soak_ledger *l, int slot, int record, const ledger_stay *stay);

/* The lease was renewed. */
void ledger_extend(soak_ledger *l, int slot, int record, int64_t until_us);

/* Call it before the release. */
void ledger_leave(soak_ledger *l, int slot, int record);

/* Mark the slot of a process as killed, or as running again. */
void ledger_set_dead(soak_ledger *l, int slot, bool dead);

/* Whether a conflicting stay is inside together with this one, which has been entered. `wipes` is
   the present count. *other is the slot of one of them. */
bool ledger_overlaps(soak_ledger *l, int slot, const ledger_stay *stay, unsigned wipes, int *other);

/* Whether the token of a stay that excludes others is greater than all before it. */
bool ledger_token_grows(soak_ledger *l, int name, uint64_t token);

#endif
