/* SPDX-License-Identifier: Apache-2.0 */
/* Removes files that are no longer needed, and keeps the floor of tokens. See sweep.h. */
#include "store/file/sweep.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/rand.h"
#include "store/file/clofork.h"
#include "store/file/lockfile.h"
#include "store/file/peers.h"
#include "store/file/ranges.h"
#include "store/file/sidecar.h"

#define STAMP       "swept"
#define ENTRIES_MAX 100000 /* looked at in one sweep, because hf_close must not take long */
#define YOUNG_MS    2000   /* the client of a FIFO that was just created may be about to lock it */

#define IDLE_MS 60000 /* when space is needed, files idle this long are removed first */
/* looked at to make space; fewer, because an operation waits meanwhile */
#define IDLE_ENTRIES 10000
#define IDLE_FILES   128 /* removed at once, so that the next operations find space too */

#define DEAD_BYTES 4096 /* a larger directory is not read at every start of a client */

#define SECOND_US INT64_C(1000000)
#define DAY_US    (INT64_C(86400) * SECOND_US)

static int64_t us_of(struct timespec ts) {
    return (int64_t)ts.tv_sec * SECOND_US + ts.tv_nsec / 1000;
}

static int64_t ms_of(struct timespec ts) {
    return us_of(ts) / 1000;
}

static struct timespec time_of(int64_t us) {
    return (struct timespec){.tv_sec = us / SECOND_US, .tv_nsec = us % SECOND_US * 1000};
}

static int64_t now_ms(void) {
    return hf__unix_us() / 1000;
}

/* ---- The stamp ---- */

static int open_stamp(int directory) {
    return hf__clofork_open(directory, STAMP, O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY,
                            0600);
}

/* A floor that is more than a day ahead was set by a wrong clock. It is ignored, because it could
   otherwise apply for years. */
static int64_t read_floor(const struct stat *st, int64_t now) {
    int64_t floor = us_of(st->st_mtim);
    return floor < 0 || floor > now + DAY_US ? 0 : floor;
}

uint64_t hf__sweep_floor(int directory) {
    struct stat st;
    if (fstatat(directory, STAMP, &st, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISREG(st.st_mode)) return 0;
    return (uint64_t)read_floor(&st, hf__unix_us());
}

/* Raise the floor to the present, and return it. Only the process that has locked the stamp changes
   the floor, so that it never goes down; other processes only read it. While the clock is behind
   the floor, new files start from the floor. So the floor is then moved ahead of their tokens. */
static int64_t raise_floor(int stamp, bool locked) {
    struct stat st;
    int64_t now = hf__unix_us();
    if (fstat(stamp, &st) != 0 || !S_ISREG(st.st_mode)) return 0;
    int64_t floor = read_floor(&st, now);
    if (!locked) return floor;
    floor = now > floor ? now : floor + SECOND_US;
    const struct timespec times[] = {time_of(now), time_of(floor)};
    (void)futimens(stamp, times);
    if (fstat(stamp, &st) != 0) return 0;
    return read_floor(&st, now); /* as stored: the filesystem may round it down */
}

/* The stamp's age is the time since the last sweep. If the clock was set back, the last sweep may
   appear to be in the future. Such a stamp counts as old. */
static bool is_due(int stamp, int64_t keep_ms) {
    struct stat st;
    if (fstat(stamp, &st) != 0 || !S_ISREG(st.st_mode)) return false;
    int64_t age = now_ms() - ms_of(st.st_atim);
    return age < 0 || age >= keep_ms / 4;
}

/* ---- Lock files ---- */

typedef struct sweeper {
    int directory;
    int64_t floor;     /* a file may be removed if its last token is below this */
    int64_t unused_ms; /* files used more recently stay; negative: any age may be removed */
    bool for_space;    /* latches stay: they hold a count that is still needed */
} sweeper;

static bool is_unused(const sweeper *s, int fd, struct stat *st) {
    if (fstat(fd, st) != 0 || !S_ISREG(st->st_mode)) return false;
    return s->unused_ms < 0 || now_ms() - ms_of(st->st_mtim) > s->unused_ms;
}

/* Whether it is a lock file of ours: the directory may contain other files. */
static bool may_remove(const sweeper *s, const hf__lockfile *file, int fd) {
    hf__head head;
    char *detail = NULL;
    hf_result r = hf__lockfile_read(file, fd, NULL, 0, &head, &detail);
    free(detail);
    bool named = strchr(file->name + strlen(HF__LOCK_START), '.') || strchr(file->name, '%');
    if (!r && !head.version) return named;
    uint64_t last = head.record.token > head.kinds.token ? head.record.token : head.kinds.token;
    return !r && last < (uint64_t)s->floor;
}

/* The file is unlinked while we have all of its ranges, so it has no holder and no waiter. A client
   that has it open sees, once it gets a range, that the name belongs to another file. */
static bool sweep_lock(const sweeper *s, const char *name) {
    struct stat st;
    bool gone = false;
    hf__lockfile file = {.directory = s->directory, .path = "."};
    hf__text_copy(file.name, sizeof file.name, name);
    int fd = hf__clofork_open(s->directory, name, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY, 0);
    if (fd < 0) return false;
    if (is_unused(s, fd, &st) && may_remove(s, &file, fd) && hf__ranges_take(fd)) {
        /* check again: the lock may have been used before we had its ranges */
        if (is_unused(s, fd, &st) && may_remove(s, &file, fd) &&
            hf__lockfile_is_current(&file, st.st_dev, st.st_ino) == 1)
            gone = unlinkat(s->directory, name, 0) == 0;
        hf__ranges_drop(fd); /* also for a child that was forked meanwhile */
    }
    /* Clients keep idle files open, and an open file keeps its space. */
    if (gone && s->for_space && ftruncate(fd, 0) != 0) gone = false;
    hf__clofork_close(fd);
    return gone;
}

/* ---- FIFOs ---- */

static bool is_young(const struct stat *st) {
    int64_t age = now_ms() - ms_of(st->st_ctim);
    return age >= 0 && age <= YOUNG_MS;
}

static void remove_peer_file(int directory, const char *start, const char *id) {
    char name[HF__PEER_FILENAME_MAX];
    (void)snprintf(name, sizeof name, "%s%s", start, id);
    unlinkat(directory, name, 0);
}

/* Opened for reading only: while another process has it open for writing, others do not see the
   death of its client. */
static bool is_dead(int directory, const char *name) {
    struct stat st;
    int fd = hf__clofork_open(directory, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY, 0);
    if (fd < 0) return false;
    bool dead =
        fstat(fd, &st) == 0 && S_ISFIFO(st.st_mode) && !is_young(&st) && hf__hold_holder(fd) == 0;
    hf__clofork_close(fd);
    return dead;
}

/* The life FIFO is removed last: until then no new client can take the id. */
static void sweep_life(int directory, const char *name) {
    if (!is_dead(directory, name)) return;
    int fd = hf__clofork_open(directory, name, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY, 0);
    if (fd < 0) return;
    if (hf__ranges_take(fd)) {
        const char *id = name + strlen(HF__LIFE_START);
        remove_peer_file(directory, HF__WAKE_START, id);
        remove_peer_file(directory, HF__WHO_START, id);
        unlinkat(directory, name, 0);
        hf__ranges_drop(fd);
    }
    hf__clofork_close(fd);
}

/* Other files of a client whose life FIFO is gone. */
static void sweep_orphan(int directory, const char *name, const char *start) {
    struct stat st;
    char life[HF__PEER_FILENAME_MAX] = HF__LIFE_START;
    hf__text_copy(life + strlen(HF__LIFE_START), sizeof life - strlen(HF__LIFE_START),
                  name + strlen(start));
    bool orphan = fstatat(directory, life, &st, AT_SYMLINK_NOFOLLOW) != 0 && errno == ENOENT;
    if (orphan && fstatat(directory, name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
        (S_ISFIFO(st.st_mode) || S_ISLNK(st.st_mode)) && !is_young(&st))
        unlinkat(directory, name, 0);
}

/* ---- The directory ---- */

static bool starts_with(const char *name, const char *with) {
    return !strncmp(name, with, strlen(with));
}

/* Whether the name is one that a client gives its files. Other files of the directory stay. */
static bool is_of_client(const char *name, const char *start) {
    size_t length = strlen(start);
    return starts_with(name, start) && strlen(name + length) == 8 &&
           strspn(name + length, "0123456789abcdef") == 8;
}

/* True: there is more space now. */
static bool sweep_entry(const sweeper *s, const char *name) {
    if (starts_with(name, HF__LOCK_START)) return sweep_lock(s, name);
    if (starts_with(name, HF__LEAD_START) || (starts_with(name, HF__LATCH_START) && !s->for_space))
        return hf__sidecar_sweep(s->directory, name, s->unused_ms);
    if (is_of_client(name, HF__LIFE_START))
        sweep_life(s->directory, name);
    else if (is_of_client(name, HF__WAKE_START))
        sweep_orphan(s->directory, name, HF__WAKE_START);
    else if (is_of_client(name, HF__WHO_START))
        sweep_orphan(s->directory, name, HF__WHO_START);
    return false;
}

static DIR *open_entries(int directory) {
    int fd = openat(directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    if (!dir && fd >= 0) close(fd);
    return dir;
}

static unsigned sweep_entries(const sweeper *s, int entries_max, unsigned files_max) {
    unsigned gone = 0;
    DIR *dir = open_entries(s->directory);
    const struct dirent *entry;
    /* cppcheck-suppress readdirCalled ; the stream is this call's own */
    for (int i = 0; dir && i < entries_max && gone < files_max && (entry = readdir(dir)); i++)
        gone += sweep_entry(s, entry->d_name);
    if (dir) closedir(dir);
    return gone;
}

void hf__sweep(int directory, int64_t keep_ms) {
    int stamp = open_stamp(directory);
    if (stamp < 0) return;
    if (is_due(stamp, keep_ms)) {
        sweeper s = {.directory = directory, .unused_ms = keep_ms};
        s.floor = raise_floor(stamp, hf__ranges_take(stamp));
        (void)sweep_entries(&s, ENTRIES_MAX, ENTRIES_MAX);
    }
    hf__clofork_close(stamp);
}

bool hf__sweep_idle(int directory) {
    int stamp = open_stamp(directory);
    if (stamp < 0) return false;
    bool alone = hf__ranges_take(stamp);
    sweeper s = {.directory = directory, .unused_ms = IDLE_MS, .for_space = true};
    s.floor = raise_floor(stamp, alone);
    unsigned gone = sweep_entries(&s, IDLE_ENTRIES, IDLE_FILES);
    s.unused_ms = -1;
    if (!gone) gone = sweep_entries(&s, IDLE_ENTRIES, IDLE_FILES);
    hf__clofork_close(stamp); /* closing unlocks it */
    return gone || !alone;
}

/* ---- When a client starts ---- */

void hf__sweep_dead(int directory) {
    struct stat st;
    hf__rand chance = {hf__rand_seed()};
    hf__clofork_close(open_stamp(directory));
    if (fstat(directory, &st) != 0) return;
    if (hf__rand_next(&chance) % (uint64_t)(st.st_size + 1) > DEAD_BYTES) return;
    DIR *dir = open_entries(directory);
    const struct dirent *entry;
    /* cppcheck-suppress readdirCalled ; the stream is this call's own */
    for (int i = 0; dir && i < ENTRIES_MAX && (entry = readdir(dir)); i++)
        if (is_of_client(entry->d_name, HF__LIFE_START)) sweep_life(directory, entry->d_name);
    if (dir) closedir(dir);
}
