#include "store/file/sweep.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "store/file/kept.h"
#include "store/file/lockfile.h"
#include "store/file/peers.h"
#include "store/file/ranges.h"
#include "store/file/slate.h"

#define STAMP       "swept"
#define ENTRIES_MAX 100000 /* looked at in one sweep: closing a client must not take long */
#define NEWBORN_MS  60000  /* a FIFO this young may be that of a client which is about to lock it */

static int64_t ms_of(struct timespec ts) {
    return (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

static int64_t now_ms(void) {
    struct timespec ts;
    clock_gettime(CLOCK_REALTIME, &ts);
    return ms_of(ts);
}

/* The stamp's age says when the last sweep was; who touches it does the next. A clock that was set
   back makes it look young for long, so what lies in the future counts as old. */
static bool due(int directory, int64_t keep_ms) {
    struct stat st;
    bool there = fstatat(directory, STAMP, &st, AT_SYMLINK_NOFOLLOW) == 0;
    if (there && !S_ISREG(st.st_mode)) return false;
    int64_t age = there ? now_ms() - ms_of(st.st_mtim) : 0;
    if (there && age >= 0 && age < keep_ms / 4) return false;
    int fd =
        openat(directory, STAMP, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);
    bool touched = fd >= 0 && futimens(fd, NULL) == 0;
    if (fd >= 0) close(fd);
    return touched && there; /* in a new directory there is nothing to sweep */
}

/* One of ours, as far as can be seen: a directory may have other files in it. The next token of a new file
   comes from the clock: the last one has to be behind it. */
static bool may_go(const hf__lockfile *file, int fd) {
    hf__head head;
    char *detail = NULL;
    hf_result r = hf__lockfile_read(file, fd, NULL, 0, &head, &detail);
    free(detail);
    bool named = strchr(file->name + strlen(HF__LOCK_START), '.') || strchr(file->name, '%');
    if (!r && !head.version) return named;
    uint64_t last = head.record.token > head.room.token ? head.record.token : head.room.token;
    return !r && (int64_t)(last / 1000) < now_ms();
}

static bool unused_for(int fd, int64_t ms, struct stat *st) {
    return fstat(fd, st) == 0 && S_ISREG(st->st_mode) && now_ms() - ms_of(st->st_mtim) > ms;
}

/* Unlinked while all of its ranges are ours: nobody holds it, nobody waits, and whoever has it open
   sees, once he gets a range, that the name is no longer that of his file. */
static void sweep_lock(int directory, const char *name, int64_t keep_ms) {
    struct stat st;
    hf__lockfile file = {.directory = directory, .path = "."};
    hf__text_copy(file.name, sizeof file.name, name);
    int fd = hf__kept_open(directory, name, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY, 0);
    if (fd < 0) return;
    if (unused_for(fd, keep_ms, &st) && may_go(&file, fd) && hf__ranges_take(fd)) {
        if (unused_for(fd, keep_ms, &st) && hf__lockfile_current(&file, st.st_dev, st.st_ino) == 1)
            unlinkat(directory, name, 0);
        hf__ranges_drop(fd); /* also for a child that was forked meanwhile */
    }
    hf__kept_close(fd);
}

static void sweep_life(int directory, const char *name) {
    struct stat st;
    int fd = hf__kept_open(directory, name, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY, 0);
    if (fd < 0) return;
    bool old =
        fstat(fd, &st) == 0 && S_ISFIFO(st.st_mode) && now_ms() - ms_of(st.st_ctim) > NEWBORN_MS;
    if (old && hf__ranges_take(fd)) {
        unlinkat(directory, name, 0);
        hf__ranges_drop(fd);
    }
    hf__kept_close(fd);
}

/* What else a client has there, once its sign of life is gone. */
static void sweep_orphan(int directory, const char *name, const char *start) {
    struct stat st;
    char life[HF__PEER_NAME] = HF__LIFE_START;
    hf__text_copy(life + strlen(HF__LIFE_START), sizeof life - strlen(HF__LIFE_START),
                  name + strlen(start));
    bool orphan = fstatat(directory, life, &st, AT_SYMLINK_NOFOLLOW) != 0 && errno == ENOENT;
    if (orphan && fstatat(directory, name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
        (S_ISFIFO(st.st_mode) || S_ISLNK(st.st_mode)) && now_ms() - ms_of(st.st_ctim) > NEWBORN_MS)
        unlinkat(directory, name, 0);
}

static bool starts(const char *name, const char *with) {
    return !strncmp(name, with, strlen(with));
}

/* Named as a client names what is its own: other files of the directory are none of our business. */
static bool of_client(const char *name, const char *start) {
    size_t length = strlen(start);
    return starts(name, start) && strlen(name + length) == 8 &&
           strspn(name + length, "0123456789abcdef") == 8;
}

static void sweep_entry(int directory, const char *name, int64_t keep_ms) {
    if (starts(name, HF__LOCK_START))
        sweep_lock(directory, name, keep_ms);
    else if (starts(name, HF__LATCH_START) || starts(name, HF__LEAD_START))
        hf__slate_sweep(directory, name, keep_ms);
    else if (of_client(name, HF__LIFE_START))
        sweep_life(directory, name);
    else if (of_client(name, HF__WAKE_START))
        sweep_orphan(directory, name, HF__WAKE_START);
    else if (of_client(name, HF__WHO_START))
        sweep_orphan(directory, name, HF__WHO_START);
}

void hf__sweep(int directory, int64_t keep_ms) {
    if (!due(directory, keep_ms)) return;
    int fd = openat(directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    if (!dir && fd >= 0) close(fd);
    struct dirent *entry;
    /* cppcheck-suppress readdirCalled ; the stream is this call's own */
    for (int i = 0; dir && i < ENTRIES_MAX && (entry = readdir(dir)); i++)
        sweep_entry(directory, entry->d_name, keep_ms);
    if (dir) closedir(dir);
}
