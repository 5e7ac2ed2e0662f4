/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Locked ranges of a lock's file say who holds the lock and who waits for it. They are open file
 * description locks, so the kernel removes them when a process dies, in any state. There is nothing
 * to repair.
 *
 *   [0, id)                         the hold: of a mutex, as long as it is held
 *   [0, 2^31 + id)                  the entry lock: while a client changes the kinds table
 *   [(t + 1) << 32, … + id)         ticket t: a queue position; lower tickets are served first
 *   [2^62 + (s << 32), … + id)      slot s of the table (slot_table.h) is in use
 *
 * Ids are below 2^31. All ranges of a kind begin at the same offset, so two of them exclude each
 * other. The kernel reports where a conflicting range ends, so the length of a range tells the id
 * of its client.
 *
 * While a file is being removed, its range from 0 to the end is locked.
 */
#ifndef HF_STORE_FILE_RANGES_H
#define HF_STORE_FILE_RANGES_H

#include <stdbool.h>
#include <stdint.h>

typedef struct hf__ticket {
    int64_t ticket; /* -1: none */
    uint32_t id;    /* of the client that has it; 0: the file is being removed */
} hf__ticket;

#define HF__ID_MAX INT32_MAX

/* The hold, or the entry lock. 0 or errno; EAGAIN: another client has it. */
int hf__hold_take(int fd, uint32_t id);
int hf__entry_lock_take(int fd, uint32_t id);
int hf__hold_drop(int fd); /* either; fails if the kernel is out of memory */

/* The id of the client that has the hold, as seen by other open files. 0: none; HF__REMOVING: the
   file is being removed; negative: errno. For the entry lock HF__ENTRY_LOCKED is added to the
   id. */
#define HF__REMOVING     (INT64_C(1) << 32)
#define HF__ENTRY_LOCKED (INT64_C(1) << 33)
int64_t hf__hold_holder(int fd);

/* Slots. They are taken and dropped under the entry lock. hf__slot_holder returns the client's id,
   0: none, HF__REMOVING, or a negative errno. */
int hf__slot_take(int fd, unsigned slot, uint32_t id);
int hf__slot_drop(int fd, unsigned slot);
int64_t hf__slot_holder(int fd, unsigned slot);
/* The first slot in [from, until) that another client has; `until`: none; negative: errno. */
int64_t hf__slot_first(int fd, unsigned from, unsigned until);

/* Take a ticket behind all others, and behind `after`, which is ours. 0 or errno; ENOLCK also if no
   tickets are left. */
int hf__ticket_take(int fd, uint32_t id, int64_t after, int64_t *ticket);
int hf__ticket_drop(int fd, uint32_t id, int64_t ticket);
int hf__tickets_drop(int fd); /* all of ours */

/* Tickets of other clients: the first at or behind `from`; the last before `until`. */
hf__ticket hf__ticket_first(int fd, int64_t from);
hf__ticket hf__ticket_before(int fd, int64_t until);

/* Lock the whole file to remove it. True: it has no holder and no waiter. */
bool hf__ranges_take(int fd);
void hf__ranges_drop(int fd);

#endif
