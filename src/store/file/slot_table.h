/*
 * The table of a lock's file: who is in the room and who stands in its line, a slot each, in 256
 * bytes from 4096 on. A slot counts if a client has its range locked (ranges.h), which it does no
 * longer than it lives: so the death of a process takes it out of the room and of its line at once,
 * in any state, and a slot that was being written by one who was killed is nobody's. The slot says
 * who it is and what it wants or has. One whose range is locked is whole, be it cleared: else it was
 * cut off or overwritten, and nobody gets in beside who may be there.
 *
 * Slots are taken, written and dropped by their owner, who has the door meanwhile. Outside of it,
 * but for the sum, are the words that change while it is held: `until` and `count`, which the owner
 * writes at any time; and `broken`, which anybody writes.
 */
#ifndef HF_STORE_FILE_SLOT_TABLE_H
#define HF_STORE_FILE_SLOT_TABLE_H

#include "store/file/lockfile.h"
#include "store/lock_state/lock_state.h"

#define HF__SLOTS_MAX 1024

typedef struct hf__slot {
    uint64_t broken; /* the token of a hold that an operator wants ended */
    hf__time until;
    uint32_t count, spare;

    uint64_t acquire_id; /* 0: the slot is not in use */
    uint64_t token;      /* 0: it stands in line */
    int64_t position;    /* in line: lower ones are served first */
    int64_t since_unix_ms;
    uint64_t owner;
    uint32_t logical, kind, permits, capacity;
    uint32_t id; /* of the client, as in ranges.h */
    int32_t pid;
    char client[HF__UUID_LENGTH + 4];
    uint64_t checksum; /* from `acquire_id` on */
} hf__slot;

/* One that counts. */
typedef struct hf__slot_view {
    hf__slot slot;
    unsigned index;
    bool is_ours;
    hf__store_client client; /* of the first spot of its client; the others have that one too */

    bool is_used, was_notified; /* while changes are written back, see kinds_table.c */
    uint32_t ahead_tag;
} hf__slot_view;

/* A set of slots. */
typedef struct hf__slot_set {
    unsigned char bits[HF__SLOTS_MAX / 8];
} hf__slot_set;

static inline bool hf__slot_set_has(const hf__slot_set *set, unsigned i) {
    return set->bits[i / 8] >> i % 8 & 1;
}

static inline void hf__slot_set_put(hf__slot_set *set, unsigned i, bool in) {
    if (in)
        set->bits[i / 8] |= (unsigned char)(1u << i % 8);
    else
        set->bits[i / 8] &= (unsigned char)~(1u << i % 8);
}

/* Those that count: holders first, by their tokens, then the line in its order. */
typedef struct hf__slot_table {
    hf__slot_view *views;
    unsigned count;
    hf__slot_set taken;
    bool died; /* some belonged to clients that are dead, and were cleared */
} hf__slot_table;

/* Read it. The ranges of our own open file are known from `own` alone; NULL: it has none, and
   who is dead is not cleared, since we have not the door. HF_PROTOCOL: one that counts is
   damaged, or gone; HF_NOMEM; HF_UNREACHABLE. */
hf_result hf__slot_table_read(const hf__lockfile *file, int fd, const hf__slot_set *own,
                              hf__slot_table *table, char **detail);
void hf__slot_table_fini(hf__slot_table *table);

/* One slot. 0 or errno; reading a slot that is not there gives one that is not in use. */
int hf__slot_read(int fd, unsigned index, hf__slot *slot);
/* Summed. Unless it is new, a mark that it is to end stays. */
int hf__slot_write(int fd, unsigned index, hf__slot *slot, bool anew);
int hf__slot_clear(int fd, unsigned index);
int hf__slot_extend(int fd, unsigned index, hf__time until, uint32_t count);
int hf__slot_mark_broken(int fd, unsigned index, uint64_t token);

bool hf__slot_is_intact(const hf__slot *slot);

#endif
