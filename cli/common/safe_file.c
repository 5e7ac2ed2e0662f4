/* SPDX-License-Identifier: Apache-2.0 */
#include "common/safe_file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/rand.h"

#define TRIES 16

bool safe_file_open(safe_file *f, const char *path) {
    const char *slash = strrchr(path, '/');
    char dir[PATH_MAX];
    size_t length = slash ? (size_t)(slash - path) : 0;
    *f = (safe_file){.base = slash ? slash + 1 : path};
    errno = !*path ? ENOENT : !*f->base ? EISDIR : ENAMETOOLONG;
    if (!*f->base || length >= sizeof dir) return false;
    memcpy(dir, path, length);
    dir[length] = '\0';
    f->dir = open(length ? dir : slash ? "/" : ".", O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (f->dir > 0) return true;
    f->dir = 0;
    return false;
}

void safe_file_close(safe_file *f) {
    if (f->dir) close(f->dir);
    f->dir = 0;
}

static int create_file(const safe_file *f, const char *base, mode_t mode) {
    const int flags = O_WRONLY | O_APPEND | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
    return openat(f->dir, base, flags, mode);
}

int safe_file_create(const safe_file *f, mode_t mode) {
    return create_file(f, f->base, mode);
}

/* O_NONBLOCK, because a FIFO with this name would block forever. */
int safe_file_open_existing(const safe_file *f) {
    return openat(f->dir, f->base, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
}

bool safe_file_is_current(const safe_file *f, int fd) {
    struct stat open_one, named;
    return fstat(fd, &open_one) == 0 &&
           fstatat(f->dir, f->base, &named, AT_SYMLINK_NOFOLLOW) == 0 &&
           open_one.st_dev == named.st_dev && open_one.st_ino == named.st_ino;
}

void safe_file_remove(const safe_file *f, int fd) {
    if (safe_file_is_current(f, fd)) unlinkat(f->dir, f->base, 0);
}

bool write_all(int fd, const char *text, size_t length) {
    while (length) {
        ssize_t n = write(fd, text, length);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return false;
        text += n;
        length -= (size_t)n;
    }
    return true;
}

/* Uses a name that does not exist yet, so that no other file in the directory is touched. */
static int create_temporary(const safe_file *f, char temporary[NAME_MAX + 1], mode_t mode) {
    hf__rand chance = {hf__rand_seed()};
    for (int i = 0; i < TRIES; i++) {
        int n = snprintf(temporary, NAME_MAX + 1, "%s.%08" PRIx32, f->base,
                         (uint32_t)hf__rand_next(&chance));
        errno = ENAMETOOLONG;
        if (n < 0 || n > NAME_MAX) return -1;
        int fd = create_file(f, temporary, mode);
        if (fd >= 0 || errno != EEXIST) return fd;
    }
    return -1;
}

/* Writes the new content to a temporary file and renames it. */
bool safe_file_replace(const safe_file *f, mode_t mode, const char *text, size_t length,
                       bool durable) {
    char temporary[NAME_MAX + 1];
    int fd = create_temporary(f, temporary, mode);
    if (fd < 0) return false;
    bool good = write_all(fd, text, length) && (!durable || fsync(fd) == 0);
    good = close(fd) == 0 && good && renameat(f->dir, temporary, f->dir, f->base) == 0;
    int error = errno;
    if (!good) unlinkat(f->dir, temporary, 0);
    errno = error;
    return good;
}
