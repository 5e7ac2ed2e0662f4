/*
 * Allocations and system calls of the library that fail: one of them, or all of a kind from one on.
 *
 * Other than with t_alloc and t_sys, which wrap the calls of all that is linked, only the library's own and
 * hiredis' calls come here: CMakeLists.txt makes one object of both and gives these calls other names in it.
 * So what a test does for itself always works, and every failure is one that the library has to deal with.
 */
#ifndef OOM_CALLS_H
#define OOM_CALLS_H

#include <stdatomic.h>
#include <stdbool.h>

/* Each kind of failure: its name here, and how a person knows it. All allocations are one kind. */
#define CALLS_KINDS(X) \
    X(allocation)      \
    X(pthread_create)  \
    X(socket)          \
    X(connect)         \
    X(setsockopt)      \
    X(getsockopt)      \
    X(send)            \
    X(recv)            \
    X(poll)            \
    X(eventfd)         \
    X(read)            \
    X(write)           \
    X(epoll_create1)   \
    X(epoll_ctl)       \
    X(epoll_wait)      \
    X(timerfd_create)  \
    X(timerfd_settime) \
    X(getrandom)       \
    X(gethostname)     \
    X(getaddrinfo)     \
    X(open)            \
    X(mkdir)           \
    X(mkfifoat)        \
    X(symlinkat)       \
    X(readlinkat)      \
    X(unlinkat)        \
    X(fcntl)           \
    X(pread)           \
    X(pwrite)          \
    X(ftruncate)       \
    X(fstat)           \
    X(fstatat)         \
    X(statx)           \
    X(fstatfs)         \
    X(fdopendir)       \
    X(readdir)         \
    X(futimens)

enum {
#define CALLS_ENUM(name) CALLS_##name,
    CALLS_KINDS(CALLS_ENUM)
#undef CALLS_ENUM
        CALLS_COUNT
};

/* In memory that processes share: what is to fail, and what has happened. */
typedef struct calls {
    atomic_bool armed;
    atomic_int kind;      /* which kind is to fail; -1: none */
    atomic_long first;    /* its nth call, from 1 */
    atomic_bool for_good; /* and all after it */
    atomic_long made[CALLS_COUNT], failed;
} calls;

extern calls *calls_shared;       /* before the first call of the library that counts */
extern struct paths *calls_paths; /* if set, of a run where nothing fails: see paths.h */

const char *calls_name(int kind);

#endif
