/* SPDX-License-Identifier: Apache-2.0 */
/* See t_sys.h, and t_alloc.c for how it works. */
#include "t_sys.h"

#include <errno.h>
#include <pthread.h>

#include "t_exempt.h"

static struct t_inject calls = {.what = "system call"};

static bool must_fail(void) {
    if (!t_inject_hit(&calls)) return false;
    errno = EMFILE;
    return true;
}

#define WRAP(name, parameters, arguments)                  \
    int __real_##name parameters;                          \
    int __wrap_##name parameters;                          \
    int __wrap_##name parameters {                         \
        return must_fail() ? -1 : __real_##name arguments; \
    }

WRAP(socket, (int domain, int type, int protocol), (domain, type, protocol))
WRAP(eventfd, (unsigned int start, int flags), (start, flags))
WRAP(pipe2, (int ends[2], int flags), (ends, flags))
WRAP(epoll_create1, (int flags), (flags))
WRAP(timerfd_create, (int clock, int flags), (clock, flags))

int __real_pthread_create(pthread_t *thread, const pthread_attr_t *attributes,
                          void *(*start)(void *), void *arg);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes,
                          void *(*start)(void *), void *arg);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes,
                          void *(*start)(void *), void *arg) {
    return must_fail() ? EAGAIN : __real_pthread_create(thread, attributes, start, arg);
}

void t_sys_fail_at(int64_t n, bool forever) {
    t_inject_arm(&calls, n, forever);
}

void t_sys_reset(void) {
    t_exempt_reset();
    t_inject_arm(&calls, 0, false);
}

int64_t t_sys_count(void) {
    return atomic_load(&calls.calls);
}

int64_t t_sys_failed(void) {
    return atomic_load(&calls.failed);
}

int64_t t_sys_each(t_inject_fn *fn, void *arg, int64_t max) {
    return t_inject_each(&calls, fn, arg, max);
}
