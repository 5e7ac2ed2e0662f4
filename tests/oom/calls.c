/* SPDX-License-Identifier: Apache-2.0 */
/* See calls.h. In the library's object, failing_NAME replaces calls of NAME. */
#include "calls.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/timerfd.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "paths.h"
#include "t_exempt.h"

calls *calls_shared;
paths *calls_paths;

const char *calls_name(int kind) {
    static const char *const names[] = {
#define CALLS_NAME(name) #name,
        CALLS_KINDS(CALLS_NAME)
#undef CALLS_NAME
    };
    return names[kind];
}

/* A separate function, for a breakpoint: the caller of its caller makes the call that fails. */
static bool call_fails(int kind, int error) {
    calls *c = calls_shared;
    if (!c || t_exempt() || !atomic_load(&c->armed)) return false;
    long nth = atomic_fetch_add(&c->made[kind], 1) + 1, first = atomic_load(&c->first);
    if (calls_paths && atomic_load(&c->kind) < 0) paths_note(calls_paths, kind, nth);
    if (atomic_load(&c->kind) != kind || nth < first) return false;
    if (nth > first && !atomic_load(&c->for_good)) return false;
    atomic_fetch_add(&c->failed, 1);
    errno = error;
    return true;
}

#define FAILING(type, kind, failed_value, error, name, parameters, arguments)     \
    type failing_##name parameters;                                               \
    type failing_##name parameters {                                              \
        return call_fails(CALLS_##kind, error) ? (failed_value) : name arguments; \
    }
#define FAILING_INT(error, name, parameters, arguments) \
    FAILING(int, name, -1, error, name, parameters, arguments)
#define FAILING_SIZE(error, name, parameters, arguments) \
    FAILING(ssize_t, name, -1, error, name, parameters, arguments)

/* ---- Memory ---- */

FAILING(void *, allocation, NULL, ENOMEM, malloc, (size_t size), (size))
FAILING(void *, allocation, NULL, ENOMEM, calloc, (size_t count, size_t size), (count, size))
FAILING(void *, allocation, NULL, ENOMEM, realloc, (void *memory, size_t size), (memory, size))
FAILING(char *, allocation, NULL, ENOMEM, strdup, (const char *text), (text))
FAILING(char *, allocation, NULL, ENOMEM, strndup, (const char *text, size_t size), (text, size))

int failing_vasprintf(char **text, const char *format, va_list args)
    __attribute__((format(printf, 2, 0)));
int failing_vasprintf(char **text, const char *format, va_list args) {
    return call_fails(CALLS_allocation, ENOMEM) ? -1 : vasprintf(text, format, args);
}

int failing_asprintf(char **text, const char *format, ...) __attribute__((format(printf, 2, 3)));
int failing_asprintf(char **text, const char *format, ...) {
    va_list args;
    va_start(args, format);
    int n = failing_vasprintf(text, format, args);
    va_end(args);
    return n;
}

/* ---- Threads and names ---- */

FAILING(int, pthread_create, EAGAIN, EAGAIN, pthread_create,
        (pthread_t * thread, const pthread_attr_t *attributes, void *(*start)(void *), void *arg),
        (thread, attributes, start, arg))
FAILING(int, getaddrinfo, EAI_AGAIN, EAGAIN, getaddrinfo,
        (const char *host, const char *service, const struct addrinfo *hints,
         struct addrinfo **result),
        (host, service, hints, result))
FAILING_INT(ENAMETOOLONG, gethostname, (char *name, size_t size), (name, size))
FAILING_SIZE(ENOSYS, getrandom, (void *to, size_t size, unsigned flags), (to, size, flags))

/* ---- Sockets and events ---- */

FAILING_INT(EMFILE, socket, (int domain, int type, int protocol), (domain, type, protocol))
FAILING_INT(ENETUNREACH, connect, (int fd, const struct sockaddr *to, socklen_t length),
            (fd, to, length))
FAILING_INT(ENOPROTOOPT, setsockopt,
            (int fd, int level, int name, const void *value, socklen_t length),
            (fd, level, name, value, length))
FAILING_INT(ENOBUFS, getsockopt, (int fd, int level, int name, void *value, socklen_t *length),
            (fd, level, name, value, length))
FAILING_SIZE(EPIPE, send, (int fd, const void *from, size_t n, int flags), (fd, from, n, flags))
FAILING_SIZE(ECONNRESET, recv, (int fd, void *to, size_t n, int flags), (fd, to, n, flags))
FAILING_INT(ENOMEM, poll, (struct pollfd * fds, nfds_t count, int ms), (fds, count, ms))
FAILING_INT(EMFILE, eventfd, (unsigned start, int flags), (start, flags))
FAILING_SIZE(EIO, read, (int fd, void *to, size_t n), (fd, to, n))

/* Threads are woken by a number written to an eventfd. This write cannot fail: a full eventfd is
   readable. */
ssize_t failing_write(int fd, const void *from, size_t n);
ssize_t failing_write(int fd, const void *from, size_t n) {
    if (n != sizeof(uint64_t) && call_fails(CALLS_write, EAGAIN)) return -1;
    return write(fd, from, n);
}

FAILING_INT(EMFILE, epoll_create1, (int flags), (flags))
FAILING_INT(ENOMEM, epoll_ctl, (int epoll, int what, int fd, struct epoll_event *event),
            (epoll, what, fd, event))
FAILING_INT(EINTR, epoll_wait, (int epoll, struct epoll_event *events, int count, int ms),
            (epoll, events, count, ms))
FAILING_INT(EMFILE, timerfd_create, (int clock, int flags), (clock, flags))
FAILING_INT(ECANCELED, timerfd_settime,
            (int fd, int flags, const struct itimerspec *at, struct itimerspec *old),
            (fd, flags, at, old))

/* ---- Files ---- */

FAILING_INT(EDQUOT, mkdir, (const char *path, mode_t mode), (path, mode))
FAILING_INT(ENOSPC, mkfifoat, (int at, const char *path, mode_t mode), (at, path, mode))
FAILING_INT(ENOSPC, symlinkat, (const char *to, int at, const char *path), (to, at, path))
FAILING_SIZE(EIO, readlinkat, (int at, const char *path, char *to, size_t n), (at, path, to, n))
FAILING_INT(EIO, unlinkat, (int at, const char *path, int flags), (at, path, flags))
FAILING_SIZE(EIO, pread, (int fd, void *to, size_t n, off_t at), (fd, to, n, at))
FAILING_SIZE(ENOSPC, pwrite, (int fd, const void *from, size_t n, off_t at), (fd, from, n, at))
FAILING_INT(EIO, ftruncate, (int fd, off_t size), (fd, size))
FAILING_INT(EIO, fstat, (int fd, struct stat *st), (fd, st))
FAILING_INT(EIO, fstatat, (int at, const char *path, struct stat *st, int flags),
            (at, path, st, flags))
FAILING_INT(EIO, statx, (int at, const char *path, int flags, unsigned mask, struct statx *st),
            (at, path, flags, mask, st))
FAILING_INT(EIO, fstatfs, (int fd, struct statfs *fs), (fd, fs))
FAILING(DIR *, fdopendir, NULL, ENOMEM, fdopendir, (int fd), (fd))
FAILING(struct dirent *, readdir, NULL, EIO, readdir, (DIR * dir), (dir))
FAILING_INT(EACCES, futimens, (int fd, const struct timespec times[2]), (fd, times))

int failing_open(const char *path, int flags, ...);
int failing_open(const char *path, int flags, ...) {
    va_list args;
    va_start(args, flags);
    mode_t mode = flags & O_CREAT ? va_arg(args, mode_t) : 0;
    va_end(args);
    return call_fails(CALLS_open, EMFILE) ? -1 : open(path, flags, mode);
}

int failing_openat(int at, const char *path, int flags, ...);
int failing_openat(int at, const char *path, int flags, ...) {
    va_list args;
    va_start(args, flags);
    mode_t mode = flags & O_CREAT ? va_arg(args, mode_t) : 0;
    va_end(args);
    return call_fails(CALLS_open, EMFILE) ? -1 : openat(at, path, flags, mode);
}

/* A pointer or a number: both are passed in the same way. */
int failing_fcntl(int fd, int what, ...);
int failing_fcntl(int fd, int what, ...) {
    va_list args;
    va_start(args, what);
    void *arg = va_arg(args, void *);
    va_end(args);
    return call_fails(CALLS_fcntl, ENOLCK) ? -1 : fcntl(fd, what, arg);
}

/* The 64-bit variants, which are called where off_t has 64 bits: here they are the same. */
#define TWIN(type, name, parameters) \
    type failing_##name##64 parameters __attribute__((alias("failing_" #name)))

TWIN(int, open, (const char *path, int flags, ...));
TWIN(int, openat, (int at, const char *path, int flags, ...));
TWIN(int, fcntl, (int fd, int what, ...));
TWIN(ssize_t, pread, (int fd, void *to, size_t n, off_t at));
TWIN(ssize_t, pwrite, (int fd, const void *from, size_t n, off_t at));
TWIN(int, ftruncate, (int fd, off_t size));
TWIN(int, fstat, (int fd, struct stat *st));
TWIN(int, fstatat, (int at, const char *path, struct stat *st, int flags));
TWIN(int, fstatfs, (int fd, struct statfs *fs));
TWIN(struct dirent *, readdir, (DIR * dir));
