/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table in a lock's file: holders and waiters, one slot each, 256 bytes per slot from offset
 * 4096.
 *
 * A slot is in use while a client has its range locked (ranges.h). The kernel unlocks the range
 * when the process dies, so a dead client holds nothing and waits for nothing. A slot whose writer
 * was killed is not in use either. A slot whose range is locked must be intact, even if it is
 * cleared. Otherwise the file was cut short or overwritten, and nothing is granted, because an
 * unknown holder may exist.
 *
 * The owner of a slot takes, writes and drops it under the entry lock. The fields before
 * `acquire_id` change without it and are not part of the checksum. The owner writes `until` and
 * `count` at any time, and any client writes `broken`.
 */
#ifndef HF_STORE_FILE_SLOT_TABLE_H
#define HF_STORE_FILE_SLOT_TABLE_H

#include "store/file/lockfile.h"

#define HF__SLOTS_MAX 1024

typedef struct hf__slot {
    uint64_t broken; /* the token of a hold that an operator wants to end */
    hf__time until;
    uint32_t count, spare;

    uint64_t acquire_id; /* 0: the slot is empty */
    uint64_t token;      /* 0: it waits */
    int64_t position;    /* in the queue: lower ones are served first */
    int64_t since_unix_ms;
    uint64_t owner;
    uint32_t logical, kind, permits, capacity;
    uint32_t id; /* of the client, as in ranges.h */
    int32_t pid;
    char client[HF__UUID_LENGTH + 4];
    uint64_t checksum; /* from `acquire_id` on */
} hf__slot;

/* A slot that is in use, as it was read. */
typedef struct hf__slot_view {
    hf__slot slot;
    unsigned index;
    bool is_ours;
    bool is_used, was_notified; /* used by kinds_table.c while it writes changes back */
    uint32_t ahead_tag;
} hf__slot_view;

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

/* The slots in use: first holders by token, then waiters by position. */
typedef struct hf__slot_table {
    hf__slot_view *views;
    unsigned count;
    hf__slot_set taken;
    bool died; /* some slots belonged to dead clients, and were cleared */
} hf__slot_table;

/* Read the table. `own` has the slots of our own open file, which the kernel does not report to us.
   NULL: we have none and do not have the entry lock, so slots of dead clients are not cleared.
   HF_PROTOCOL: a slot in use is damaged or missing; HF_NOMEM; HF_UNREACHABLE. */
hf_result hf__slot_table_read(const hf__lockfile *file, int fd, const hf__slot_set *own,
                              hf__slot_table *table, char **detail);
void hf__slot_table_fini(hf__slot_table *table);

/* Operations on one slot. 0 or errno. A slot beyond the end of the file reads as empty. */
int hf__slot_read(int fd, unsigned index, hf__slot *slot);
/* Sets the checksum. `whole` also clears `broken`; otherwise the mark stays. */
int hf__slot_write(int fd, unsigned index, hf__slot *slot, bool whole);
int hf__slot_clear(int fd, unsigned index);
int hf__slot_extend(int fd, unsigned index, hf__time until, uint32_t count);
int hf__slot_mark_broken(int fd, unsigned index, uint64_t token);

bool hf__slot_is_intact(const hf__slot *slot);

#endif
