/* See t_line.h. */
#include "t_queue.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "t_exempt.h"
#include "t_fail.h"

enum { LINE_AT = 16, SLOTS_AT = 4096, SLOT_SIZE = 256, NUMBER_AT = 24 };
#define TABLE_AT ((int64_t)1 << 62) /* where tickets end, and slots of the room begin */

static int64_t offset_of(int64_t ticket) {
    return (ticket + 1) << 32;
}

/* ---- Looking --------------------------------------------------------------------------------- */

/* Some range of another's that begins in [start, end); end 0: without end. */
static bool find(int fd, int64_t start, int64_t end, struct flock *found) {
    *found = (struct flock){
        .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = start, .l_len = end ? end - start : 0};
    if (fcntl(fd, F_OFD_GETLK, found) != 0) t_fail("F_OFD_GETLK: %s", strerror(errno));
    return found->l_type != F_UNLCK;
}

/* The lowest ticket from `start` on. */
static bool find_lowest(int fd, int64_t start, struct flock *found) {
    struct flock lower;
    if (!find(fd, start, TABLE_AT, found)) return false;
    while (found->l_start > start && find(fd, start, found->l_start, &lower)) *found = lower;
    return true;
}

/* -1: there is no file. */
static int open_to_look(const char *path) {
    int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0 && errno != ENOENT) t_fail("cannot open %s: %s", path, strerror(errno));
    return fd;
}

/* Walk past n of the line: how many there were, and the last of them. */
static int walk(const char *path, int n, struct flock *at) {
    t_exempt_begin();
    int passed = 0, fd = open_to_look(path);
    for (int64_t from = offset_of(0); fd >= 0 && passed < n && find_lowest(fd, from, at); passed++)
        from = (at->l_start / offset_of(0) + 1) * offset_of(0);
    if (fd >= 0) close(fd);
    t_exempt_end();
    return passed;
}

/* A slot counts if its range is locked; who has no token stands in line. */
static int standing(int fd) {
    int count = 0;
    char slot[SLOT_SIZE];
    for (int i = 0; pread(fd, slot, sizeof slot, SLOTS_AT + i * SLOT_SIZE) == SLOT_SIZE; i++) {
        uint64_t number, token;
        struct flock range;
        int64_t at = TABLE_AT + ((int64_t)i << 32);
        memcpy(&number, slot + NUMBER_AT, sizeof number);
        memcpy(&token, slot + NUMBER_AT + 8, sizeof token);
        count += number && !token && find(fd, at, at + 1, &range);
    }
    return count;
}

int t_queue_length(const char *path) {
    struct flock last;
    int tickets = walk(path, INT32_MAX, &last);
    t_exempt_begin();
    int fd = open_to_look(path), slots = fd >= 0 ? standing(fd) : 0;
    if (fd >= 0) close(fd);
    t_exempt_end();
    return tickets + slots;
}

uint32_t t_queue_at(const char *path, int n) {
    struct flock at;
    return walk(path, n + 1, &at) == n + 1 ? (uint32_t)at.l_len : 0;
}

uint32_t t_queue_holder(const char *path) {
    struct flock found;
    t_exempt_begin();
    int fd = open_to_look(path);
    bool held = fd >= 0 && find(fd, 0, 1, &found);
    if (fd >= 0) close(fd);
    t_exempt_end();
    return held ? (uint32_t)found.l_len : 0;
}

/* ---- Taking part ----------------------------------------------------------------------------- */

static int take(const char *path, int64_t start, int64_t length) {
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
    return take(path, 0, id);
}

int t_queue_join(const char *path, int64_t ticket, uint32_t id) {
    static const uint64_t line = 1;
    struct stat st;
    int fd = take(path, offset_of(ticket), id);
    bool told = fstat(fd, &st) == 0 &&
                (!st.st_size || pwrite(fd, &line, sizeof line, LINE_AT) == (ssize_t)sizeof line);
    if (!told) t_fail("cannot write to %s: %s", path, strerror(errno));
    return fd;
}

int t_queue_take_all(const char *path) {
    return take(path, 0, 0);
}
