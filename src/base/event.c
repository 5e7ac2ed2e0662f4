/* SPDX-License-Identifier: Apache-2.0 */
/* Event descriptors: see event.h. */
#include "base/event.h"

#include <errno.h>
#include <stdint.h>
#include <sys/eventfd.h>
#include <unistd.h>

int hf__event_new(void) {
    return eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
}

void hf__event_set(int fd) {
    if (fd < 0) return;
    int saved = errno; /* a signal handler must not change it */
    uint64_t one = 1;
    /* It fails only if the counter is full; the descriptor is readable then. */
    ssize_t written = write(fd, &one, sizeof one);
    (void)written;
    errno = saved;
}

void hf__event_clear(int fd) {
    uint64_t count;
    ssize_t got = read(fd, &count, sizeof count);
    (void)got;
}

void hf__event_free(int fd) {
    if (fd >= 0) close(fd);
}
