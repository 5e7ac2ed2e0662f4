/* SPDX-License-Identifier: Apache-2.0 */
/* See t_files.h, and t_alloc.c for how it works. */
#include "t_files.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stddef.h>
#include <sys/epoll.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include "t_exempt.h"

static struct t_inject calls = {.what = "call on a file"};

static bool must_fail(int error) {
    if (!t_inject_hit(&calls)) return false;
    errno = error;
    return true;
}

#define WRAP(type, failed, error, name, parameters, arguments)        \
    type __real_##name parameters;                                    \
    type __wrap_##name parameters;                                    \
    type __wrap_##name parameters {                                   \
        return must_fail(error) ? (failed) : __real_##name arguments; \
    }

/* Each function with a size in its types has a 64-bit variant, which is called where off_t has
   64 bits. Some have another variant that optimised code calls (_FORTIFY_SOURCE). */
WRAP(int, -1, EDQUOT, mkdir, (const char *path, mode_t mode), (path, mode))
WRAP(int, -1, ENOSPC, mkfifoat, (int at, const char *path, mode_t mode), (at, path, mode))
WRAP(int, -1, EIO, unlinkat, (int at, const char *path, int flags), (at, path, flags))
WRAP(ssize_t, -1, EIO, pread, (int fd, void *to, size_t n, off_t at), (fd, to, n, at))
WRAP(ssize_t, -1, EIO, pread64, (int fd, void *to, size_t n, off64_t at), (fd, to, n, at))
WRAP(ssize_t, -1, EIO, __pread_chk, (int fd, void *to, size_t n, off_t at, size_t object_size),
     (fd, to, n, at, object_size))
WRAP(ssize_t, -1, EIO, __pread64_chk, (int fd, void *to, size_t n, off64_t at, size_t object_size),
     (fd, to, n, at, object_size))
WRAP(ssize_t, -1, ENOSPC, pwrite, (int fd, const void *from, size_t n, off_t at), (fd, from, n, at))
WRAP(ssize_t, -1, ENOSPC, pwrite64, (int fd, const void *from, size_t n, off64_t at),
     (fd, from, n, at))
WRAP(int, -1, EIO, fstat, (int fd, struct stat *st), (fd, st))
WRAP(int, -1, EIO, fstat64, (int fd, struct stat64 *st), (fd, st))
WRAP(int, -1, EIO, fstatat, (int at, const char *path, struct stat *st, int flags),
     (at, path, st, flags))
WRAP(int, -1, EIO, fstatat64, (int at, const char *path, struct stat64 *st, int flags),
     (at, path, st, flags))
WRAP(int, -1, EIO, statx,
     (int at, const char *path, int flags, unsigned int mask, struct statx *st),
     (at, path, flags, mask, st))
WRAP(int, -1, EIO, fstatfs, (int fd, struct statfs *fs), (fd, fs))
WRAP(int, -1, EIO, fstatfs64, (int fd, struct statfs64 *fs), (fd, fs))
WRAP(int, -1, ENOMEM, epoll_ctl, (int epoll, int what, int fd, struct epoll_event *event),
     (epoll, what, fd, event))
WRAP(DIR *, NULL, ENOMEM, fdopendir, (int fd), (fd))
WRAP(int, -1, EACCES, futimens, (int fd, const struct timespec times[2]), (fd, times))

/* ---- With an optional last argument ---------------------------------------------------------- */

#define WRAP_OPEN(name, parameters, arguments)                    \
    int __real_##name parameters;                                 \
    int __wrap_##name parameters;                                 \
    int __wrap_##name parameters {                                \
        va_list args;                                             \
        va_start(args, flags);                                    \
        mode_t mode = flags & O_CREAT ? va_arg(args, mode_t) : 0; \
        va_end(args);                                             \
        return must_fail(EMFILE) ? -1 : __real_##name arguments;  \
    }

WRAP_OPEN(open, (const char *path, int flags, ...), (path, flags, mode))
WRAP_OPEN(open64, (const char *path, int flags, ...), (path, flags, mode))
WRAP_OPEN(openat, (int at, const char *path, int flags, ...), (at, path, flags, mode))
WRAP_OPEN(openat64, (int at, const char *path, int flags, ...), (at, path, flags, mode))
WRAP(int, -1, EMFILE, __openat_2, (int at, const char *path, int flags), (at, path, flags))
WRAP(int, -1, EMFILE, __openat64_2, (int at, const char *path, int flags), (at, path, flags))

/* A pointer or an integer: both are passed in the same way. */
#define WRAP_FCNTL(name)                                              \
    int __real_##name(int fd, int what, ...);                         \
    int __wrap_##name(int fd, int what, ...);                         \
    int __wrap_##name(int fd, int what, ...) {                        \
        va_list args;                                                 \
        va_start(args, what);                                         \
        void *arg = va_arg(args, void *);                             \
        va_end(args);                                                 \
        return must_fail(ENOLCK) ? -1 : __real_##name(fd, what, arg); \
    }

WRAP_FCNTL(fcntl)
WRAP_FCNTL(fcntl64)

/* ---- Driving --------------------------------------------------------------------------------- */

void t_files_fail_at(int64_t n, bool forever) {
    t_inject_arm(&calls, n, forever);
}

void t_files_reset(void) {
    t_exempt_reset();
    t_inject_arm(&calls, 0, false);
}

int64_t t_files_each(t_inject_fn *fn, void *arg, int64_t max) {
    return t_inject_each(&calls, fn, arg, max);
}
