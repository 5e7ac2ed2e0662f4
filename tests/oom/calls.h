/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Allocations and system calls of the library that fail: one of them, or all of a kind from one on.
 *
 * t_alloc and t_sys wrap the calls of the whole program. Here only calls of the library and of
 * hiredis fail: CMakeLists.txt links both into one object in which these calls have other names. So
 * the test's own calls always work, and the library must handle every failure.
 */
#ifndef OOM_CALLS_H
#define OOM_CALLS_H

#include <stdatomic.h>
#include <stdbool.h>

/* Each kind of failure: its name in code, and its name in reports. All allocations are one kind. */
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

/* In memory that processes share: which call fails, and what has happened. */
typedef struct calls {
    atomic_bool armed;
    atomic_int kind;      /* the kind that fails; -1: none */
    atomic_long first;    /* its nth call, from 1 */
    atomic_bool for_good; /* and all after it */
    atomic_long made[CALLS_COUNT], failed;
} calls;

extern calls *calls_shared;       /* set before the first library call that counts */
extern struct paths *calls_paths; /* optional, for a run without failures: see paths.h */

const char *calls_name(int kind);

#endif
