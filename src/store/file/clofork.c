/* SPDX-License-Identifier: Apache-2.0 */
/* The bit set of close-on-fork descriptors, and the fork handlers. See clofork.h. */
#include "store/file/clofork.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

/* One bit per descriptor. The mutex is held across a fork, so that the child sees complete bits. */
static pthread_mutex_t noted_mutex = PTHREAD_MUTEX_INITIALIZER;
static unsigned char *noted_bits;
static size_t noted_size;

static void lock_before_fork(void) {
    pthread_mutex_lock(&noted_mutex);
}

static void unlock_in_parent(void) {
    pthread_mutex_unlock(&noted_mutex);
}

static void close_in_child(void) {
    for (size_t i = 0; i < noted_size * 8; i++)
        if (noted_bits[i / 8] & 1u << i % 8) close((int)i);
    if (noted_size) memset(noted_bits, 0, noted_size);
    pthread_mutex_unlock(&noted_mutex);
}

static void register_fork_handlers(void) {
    pthread_atfork(lock_before_fork, unlock_in_parent, close_in_child);
}

static bool grow_bits(size_t wanted) {
    if (wanted <= noted_size) return true;
    unsigned char *larger = realloc(noted_bits, wanted * 2);
    if (!larger) return false;
    memset(larger + noted_size, 0, wanted * 2 - noted_size);
    noted_bits = larger;
    noted_size = wanted * 2;
    return true;
}

static void begin_open(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, register_fork_handlers);
    pthread_mutex_lock(&noted_mutex);
}

/* Register the descriptor, and let forks continue. */
static int note_opened(int fd) {
    int error = errno;
    if (fd >= 0 && grow_bits((size_t)fd / 8 + 1)) {
        noted_bits[fd / 8] |= (unsigned char)(1u << fd % 8);
    } else if (fd >= 0) {
        close(fd);
        fd = -1;
        error = ENOMEM;
    }
    pthread_mutex_unlock(&noted_mutex);
    errno = error;
    return fd;
}

int hf__clofork_open(int directory, const char *name, int flags, mode_t mode) {
    begin_open();
    return note_opened(openat(directory, name, flags | O_CLOEXEC, mode));
}

int hf__clofork_epoll(void) {
    begin_open();
    return note_opened(epoll_create1(EPOLL_CLOEXEC));
}

void hf__clofork_close(int fd) {
    if (fd < 0) return;
    pthread_mutex_lock(&noted_mutex);
    noted_bits[fd / 8] &= (unsigned char)~(1u << fd % 8);
    /* Under the mutex: once the number is reused, a child must not close it. */
    close(fd);
    pthread_mutex_unlock(&noted_mutex);
}
