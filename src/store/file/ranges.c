/* SPDX-License-Identifier: Apache-2.0 */
/* Locks and finds ranges with fcntl. See ranges.h. */
#include "store/file/ranges.h"

#include <errno.h>
#include <fcntl.h>

#define WIDTH          (INT64_C(1) << 32) /* bytes reserved for one range */
#define ENTRY_LOCK_BIT (INT64_C(1) << 31)
#define TABLE_AT       (INT64_C(1) << 62)
#define TICKETS_MAX    (TABLE_AT / WIDTH - 1) /* an idle lock starts again from ticket 0 */

static int64_t offset_of(int64_t ticket) {
    return (ticket + 1) * WIDTH;
}

static int set_range(int fd, short type, int64_t start, int64_t length) {
    struct flock range = {.l_type = type, .l_whence = SEEK_SET, .l_start = start, .l_len = length};
    return fcntl(fd, F_OFD_SETLK, &range) == 0 ? 0 : errno == EACCES ? EAGAIN : errno;
}

/* A range of another open file that overlaps this one. l_type F_UNLCK: none, or `error` is set. */
static struct flock find_range(int fd, int64_t start, int64_t length, int *error) {
    struct flock range = {
        .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = start, .l_len = length};
    *error = fcntl(fd, F_OFD_GETLK, &range) == 0 ? 0 : errno;
    if (*error) range.l_type = F_UNLCK;
    return range;
}

static hf__ticket ticket_of(struct flock range) {
    if (range.l_type == F_UNLCK) return (hf__ticket){.ticket = -1};
    if (range.l_start < offset_of(0)) return (hf__ticket){.ticket = 0};
    return (hf__ticket){.ticket = (range.l_start >> 32) - 1, .id = (uint32_t)range.l_len};
}

/* ---- The hold ---- */

int hf__hold_take(int fd, uint32_t id) {
    return set_range(fd, F_WRLCK, 0, id);
}

int hf__entry_lock_take(int fd, uint32_t id) {
    return set_range(fd, F_WRLCK, 0, ENTRY_LOCK_BIT + id);
}

int hf__hold_drop(int fd) {
    return set_range(fd, F_UNLCK, 0, WIDTH);
}

int64_t hf__hold_holder(int fd) {
    int error;
    struct flock range = find_range(fd, 0, 1, &error);
    if (range.l_type == F_UNLCK) return -error;
    if (!range.l_len) return HF__REMOVING;
    return range.l_len > ENTRY_LOCK_BIT ? range.l_len - ENTRY_LOCK_BIT + HF__ENTRY_LOCKED
                                        : range.l_len;
}

/* ---- Slots ---- */

static int64_t slot_at(unsigned slot) {
    return TABLE_AT + slot * WIDTH;
}

int hf__slot_take(int fd, unsigned slot, uint32_t id) {
    return set_range(fd, F_WRLCK, slot_at(slot), id);
}

int hf__slot_drop(int fd, unsigned slot) {
    return set_range(fd, F_UNLCK, slot_at(slot), WIDTH);
}

int64_t hf__slot_holder(int fd, unsigned slot) {
    int error;
    struct flock range = find_range(fd, slot_at(slot), 1, &error);
    if (range.l_type == F_UNLCK) return -error;
    return range.l_len ? range.l_len : HF__REMOVING;
}

int64_t hf__slot_first(int fd, unsigned from, unsigned until) {
    int error = 0;
    while (from < until) { /* the kernel reports any range, not the first */
        struct flock range = find_range(fd, slot_at(from), slot_at(until) - slot_at(from), &error);
        if (range.l_type == F_UNLCK) break;
        unsigned found =
            range.l_start < slot_at(from) ? from : (unsigned)((range.l_start - TABLE_AT) / WIDTH);
        if (found == from) return from;
        until = found;
    }
    return error ? -(int64_t)error : (int64_t)until;
}

/* ---- Tickets ---- */

/* Any ticket in [from, until); `until` -1: no upper limit. */
static hf__ticket any_ticket(int fd, int64_t from, int64_t until) {
    int error; /* errors count as no ticket: the hold's own range decides */
    if (until == from) return (hf__ticket){.ticket = -1};
    int64_t length = (until < 0 ? TABLE_AT : offset_of(until)) - offset_of(from);
    return ticket_of(find_range(fd, offset_of(from), length, &error));
}

hf__ticket hf__ticket_first(int fd, int64_t from) {
    hf__ticket found = any_ticket(fd, from, -1);
    while (found.ticket > from && found.id) {
        hf__ticket lower = any_ticket(fd, from, found.ticket);
        if (lower.ticket < 0) break;
        found = lower;
    }
    return found;
}

/* The highest ticket in [low.ticket, high), where `low` is known to exist. A binary search: few
   steps, however many wait. */
static hf__ticket highest_ticket(int fd, hf__ticket low, int64_t high) {
    while (low.id && low.ticket + 1 < high) {
        int64_t middle = low.ticket + 1 + (high - low.ticket - 1) / 2;
        hf__ticket found = any_ticket(fd, middle, high);
        if (found.ticket >= 0)
            low = found;
        else
            high = middle;
    }
    return low;
}

hf__ticket hf__ticket_before(int fd, int64_t until) {
    hf__ticket found = any_ticket(fd, 0, until);
    return found.ticket < 0 ? found : highest_ticket(fd, found, until);
}

/* The last ticket. The search goes in growing steps until it finds none, and is then a binary
   search. */
static hf__ticket last_ticket(int fd) {
    hf__ticket low = any_ticket(fd, 0, -1);
    for (int64_t step = 1; low.ticket >= 0 && low.id; step *= 2) {
        hf__ticket found = any_ticket(fd, low.ticket + step, -1);
        if (found.ticket < 0) return highest_ticket(fd, low, low.ticket + step);
        low = found;
    }
    return low;
}

int hf__ticket_take(int fd, uint32_t id, int64_t after, int64_t *ticket) {
    hf__ticket end = last_ticket(fd);
    if (end.ticket >= 0 && !end.id) return EAGAIN;
    int error = EAGAIN;
    /* If another client gets a ticket first, take the next one behind it. */
    int64_t first = (end.ticket > after ? end.ticket : after) + 1;
    for (int64_t t = first; error == EAGAIN && t < TICKETS_MAX; t++) {
        error = set_range(fd, F_WRLCK, offset_of(t), id);
        *ticket = t;
        if (error == EAGAIN && hf__hold_holder(fd) == HF__REMOVING) return EAGAIN;
    }
    return error == EAGAIN ? ENOLCK : error;
}

int hf__ticket_drop(int fd, uint32_t id, int64_t ticket) {
    return set_range(fd, F_UNLCK, offset_of(ticket), id);
}

int hf__tickets_drop(int fd) {
    return set_range(fd, F_UNLCK, offset_of(0), TABLE_AT - offset_of(0));
}

bool hf__ranges_take(int fd) {
    return set_range(fd, F_WRLCK, 0, 0) == 0;
}

void hf__ranges_drop(int fd) {
    (void)set_range(fd, F_UNLCK, 0, 0);
}
