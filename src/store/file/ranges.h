/*
 * The kernel keeps the line. Who holds a lock and who waits for it are ranges of its file that are
 * locked (as open file description locks), so that the death of a process takes it out of both at
 * once, in any state, and there is nothing to repair.
 *
 *   [0, id)                         the hold: of a mutex, as long as it is held
 *   [0, 2^31 + id)                  the door: of one who changes the room, for a moment
 *   [(t + 1) << 32, … + id)         ticket t: a place in line; lower tickets are served first
 *   [2^62 + (s << 32), … + id)      slot s of the table (slot_table.h): it counts
 *
 * Ids are below 2^31. All ranges of a kind begin at the same offset, so two of them exclude each
 * other; and since the kernel tells where a conflicting range ends, its length says who has it: the
 * client's id.
 *
 * A file whose ranges are locked from 0 to the end is being removed.
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

/* The hold, or the door. 0 or errno; EAGAIN: another has it. */
int hf__hold_take(int fd, uint32_t id);
int hf__entry_lock_take(int fd, uint32_t id);
int hf__hold_drop(int fd); /* either; can fail, where the kernel has no memory for it */

/* Who holds it, seen from this open file: 0 nobody; HF__REMOVING; errno negative. HF__ENTRY_LOCKED is
   added to one who has the door. */
#define HF__REMOVING     (INT64_C(1) << 32)
#define HF__ENTRY_LOCKED (INT64_C(1) << 33)
int64_t hf__hold_holder(int fd);

/* Slots, which are taken and dropped by who has the door. The holder's id, 0: nobody,
   HF__REMOVING, or errno negative. */
int hf__slot_take(int fd, unsigned slot, uint32_t id);
int hf__slot_drop(int fd, unsigned slot);
int64_t hf__slot_holder(int fd, unsigned slot);
/* The first of the slots from `from` to before `until` that others have; `until`: none; errno negative. */
int64_t hf__slot_first(int fd, unsigned from, unsigned until);

/* Take the place behind all others, and behind `after`, which is ours. 0 or errno; ENOLCK also
   when tickets have run out. */
int hf__ticket_take(int fd, uint32_t id, int64_t after, int64_t *ticket);
int hf__ticket_drop(int fd, uint32_t id, int64_t ticket);
int hf__tickets_drop(int fd); /* all of ours */

/* Of the others: the first at or behind `from`; the last before `until`. */
hf__ticket hf__ticket_first(int fd, int64_t from);
hf__ticket hf__ticket_before(int fd, int64_t until);

/* Everything at once, for removing the file: nobody holds it and nobody waits. */
bool hf__ranges_take(int fd);
void hf__ranges_drop(int fd);

#endif
