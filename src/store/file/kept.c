#include "store/file/kept.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

/* One bit a descriptor. The mutex is held across a fork, so that the child finds it whole. */
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static unsigned char *bits;
static size_t size;

static void before_fork(void) {
    pthread_mutex_lock(&mutex);
}

static void in_parent(void) {
    pthread_mutex_unlock(&mutex);
}

static void in_child(void) {
    for (size_t i = 0; i < size * 8; i++)
        if (bits[i / 8] & 1u << i % 8) close((int)i);
    if (size) memset(bits, 0, size);
    pthread_mutex_unlock(&mutex);
}

static void watch_forks(void) {
    pthread_atfork(before_fork, in_parent, in_child);
}

static bool grow(size_t wanted) {
    if (wanted <= size) return true;
    unsigned char *larger = realloc(bits, wanted * 2);
    if (!larger) return false;
    memset(larger + size, 0, wanted * 2 - size);
    bits = larger;
    size = wanted * 2;
    return true;
}

static void begin(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, watch_forks);
    pthread_mutex_lock(&mutex);
}

/* Note what was opened, and let forks go on. */
static int end(int fd) {
    int error = errno;
    if (fd >= 0 && grow((size_t)fd / 8 + 1)) {
        bits[fd / 8] |= (unsigned char)(1u << fd % 8);
    } else if (fd >= 0) {
        close(fd);
        fd = -1;
        error = ENOMEM;
    }
    pthread_mutex_unlock(&mutex);
    errno = error;
    return fd;
}

int hf__kept_open(int directory, const char *name, int flags, mode_t mode) {
    begin();
    return end(openat(directory, name, flags | O_CLOEXEC, mode));
}

int hf__kept_epoll(void) {
    begin();
    return end(epoll_create1(EPOLL_CLOEXEC));
}

void hf__kept_close(int fd) {
    if (fd < 0) return;
    pthread_mutex_lock(&mutex);
    bits[fd / 8] &= (unsigned char)~(1u << fd % 8);
    close(fd); /* under the mutex: a number that is used again must not be closed in a child */
    pthread_mutex_unlock(&mutex);
}
