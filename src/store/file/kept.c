#include "store/file/kept.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
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

int hf__kept_add(int fd) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    if (fd < 0) return fd;
    pthread_once(&once, watch_forks);
    pthread_mutex_lock(&mutex);
    bool added = grow((size_t)fd / 8 + 1);
    if (added) bits[fd / 8] |= (unsigned char)(1u << fd % 8);
    pthread_mutex_unlock(&mutex);
    if (added) return fd;
    close(fd);
    errno = ENOMEM;
    return -1;
}

void hf__kept_close(int fd) {
    if (fd < 0) return;
    pthread_mutex_lock(&mutex);
    bits[fd / 8] &= (unsigned char)~(1u << fd % 8);
    close(fd); /* under the mutex: a number that is used again must not be closed in a child */
    pthread_mutex_unlock(&mutex);
}
