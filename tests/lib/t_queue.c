/* SPDX-License-Identifier: Apache-2.0 */
/* See t_queue.h. */
#include "t_queue.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "t_exempt.h"
#include "t_fail.h"

enum { QUEUED_AT = 16, SLOTS_AT = 4096, SLOT_SIZE = 256, ACQUIRE_ID_AT = 24 };
#define TABLE_AT ((int64_t)1 << 62) /* end of the tickets, begin of the slots */

static int64_t offset_of(int64_t ticket) {
    return (ticket + 1) << 32;
}

/* ---- Inspecting ------------------------------------------------------------------------------ */

/* Find a range that another descriptor has locked and that begins in [start, end); end 0: no
   end. */
static bool find_range(int fd, int64_t start, int64_t end, struct flock *found) {
    *found = (struct flock){
        .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = start, .l_len = end ? end - start : 0};
    if (fcntl(fd, F_OFD_GETLK, found) != 0) t_fail("F_OFD_GETLK: %s", strerror(errno));
    return found->l_type != F_UNLCK;
}

/* The lowest ticket at or after `start`. */
static bool find_lowest(int fd, int64_t start, struct flock *found) {
    struct flock lower;
    if (!find_range(fd, start, TABLE_AT, found)) return false;
    while (found->l_start > start && find_range(fd, start, found->l_start, &lower)) *found = lower;
    return true;
}

/* -1: the file does not exist. */
static int open_to_look(const char *path) {
    int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0 && errno != ENOENT) t_fail("cannot open %s: %s", path, strerror(errno));
    return fd;
}

/* Walk past n waiters of the queue. Returns how many there were, and the last one in *at. */
static int walk_queue(const char *path, int n, struct flock *at) {
    t_exempt_begin();
    int passed = 0, fd = open_to_look(path);
    for (int64_t from = offset_of(0); fd >= 0 && passed < n && find_lowest(fd, from, at); passed++)
        from = (at->l_start / offset_of(0) + 1) * offset_of(0);
    if (fd >= 0) close(fd);
    t_exempt_end();
    return passed;
}

/* A slot counts if its range is locked. A slot without a token belongs to a waiter. */
static int count_waiting_slots(int fd) {
    int count = 0;
    char slot[SLOT_SIZE];
    for (int i = 0; pread(fd, slot, sizeof slot, SLOTS_AT + i * SLOT_SIZE) == SLOT_SIZE; i++) {
        uint64_t acquire_id, token;
        struct flock range;
        int64_t at = TABLE_AT + ((int64_t)i << 32);
        memcpy(&acquire_id, slot + ACQUIRE_ID_AT, sizeof acquire_id);
        memcpy(&token, slot + ACQUIRE_ID_AT + 8, sizeof token);
        count += acquire_id && !token && find_range(fd, at, at + 1, &range);
    }
    return count;
}

int t_queue_length(const char *path) {
    struct flock last;
    int tickets = walk_queue(path, INT32_MAX, &last);
    t_exempt_begin();
    int fd = open_to_look(path), slots = fd >= 0 ? count_waiting_slots(fd) : 0;
    if (fd >= 0) close(fd);
    t_exempt_end();
    return tickets + slots;
}

uint32_t t_queue_at(const char *path, int n) {
    struct flock at;
    return walk_queue(path, n + 1, &at) == n + 1 ? (uint32_t)at.l_len : 0;
}

uint32_t t_queue_holder(const char *path) {
    struct flock found;
    t_exempt_begin();
    int fd = open_to_look(path);
    bool held = fd >= 0 && find_range(fd, 0, 1, &found);
    if (fd >= 0) close(fd);
    t_exempt_end();
    return held ? (uint32_t)found.l_len : 0;
}

/* ---- Taking part ----------------------------------------------------------------------------- */

static int lock_range(const char *path, int64_t start, int64_t length) {
    struct flock range = {
        .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = start, .l_len = length};
    t_exempt_begin();
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0 || fcntl(fd, F_OFD_SETLK, &range) != 0)
        t_fail("cannot lock a range of %s: %s", path, strerror(errno));
    t_exempt_end();
    return fd;
}

int t_queue_hold(const char *path, uint32_t id) {
    return lock_range(path, 0, id);
}

int t_queue_join(const char *path, int64_t ticket, uint32_t id) {
    static const uint64_t queued = 1;
    struct stat st;
    int fd = lock_range(path, offset_of(ticket), id);
    bool marked =
        fstat(fd, &st) == 0 &&
        (!st.st_size || pwrite(fd, &queued, sizeof queued, QUEUED_AT) == (ssize_t)sizeof queued);
    if (!marked) t_fail("cannot write to %s: %s", path, strerror(errno));
    return fd;
}

int t_queue_take_all(const char *path) {
    return lock_range(path, 0, 0);
}
