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
    int saved = errno; /* a signal handler must leave it as it was */
    uint64_t one = 1;
    /* It fails only with the counter full, and then it is readable already. */
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
