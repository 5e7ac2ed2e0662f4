/*
 * Allocations and system calls of the library that fail: one of them, or all of a kind from one on.
 *
 * Other than with t_alloc and t_sys, which wrap the calls of all that is linked, only the library's own and
 * hiredis' calls come here: CMakeLists.txt makes one object of both and gives these calls other names in it.
 * So what a test does for itself always works, and every failure is one that the library has to deal with.
 */
#ifndef FAILING_CALLS_H
#define FAILING_CALLS_H

#include <stdatomic.h>
#include <stdbool.h>

/* Each kind of failure: its name here, and how a person knows it. All allocations are one kind. */
#define CALLS_KINDS(X)       \
    X(memory, "allocation")  \
    X(pthread_create, NULL)  \
    X(socket, NULL)          \
    X(connect, NULL)         \
    X(setsockopt, NULL)      \
    X(getsockopt, NULL)      \
    X(send, NULL)            \
    X(recv, NULL)            \
    X(poll, NULL)            \
    X(eventfd, NULL)         \
    X(read, NULL)            \
    X(write, NULL)           \
    X(epoll_create1, NULL)   \
    X(epoll_ctl, NULL)       \
    X(epoll_wait, NULL)      \
    X(timerfd_create, NULL)  \
    X(timerfd_settime, NULL) \
    X(getrandom, NULL)       \
    X(gethostname, NULL)     \
    X(getaddrinfo, NULL)     \
    X(open, NULL)            \
    X(mkdir, NULL)           \
    X(mkfifoat, NULL)        \
    X(symlinkat, NULL)       \
    X(readlinkat, NULL)      \
    X(unlinkat, NULL)        \
    X(fcntl, NULL)           \
    X(pread, NULL)           \
    X(pwrite, NULL)          \
    X(ftruncate, NULL)       \
    X(fstat, NULL)           \
    X(fstatat, NULL)         \
    X(statx, NULL)           \
    X(fstatfs, NULL)         \
    X(fdopendir, NULL)       \
    X(readdir, NULL)         \
    X(futimens, NULL)

enum {
#define CALLS_ENUM(name, text) CALLS_##name,
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

extern calls *calls_shared; /* before the first call of the library that counts */

const char *calls_name(int kind);

#endif
