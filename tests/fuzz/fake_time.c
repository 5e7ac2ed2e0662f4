/* SPDX-License-Identifier: Apache-2.0 */
#include "fake_time.h"

#include <errno.h>
#include <poll.h>
#include <sys/random.h>
#include <time.h>

#include "fuzz.h"

enum { LOOKS_MAX = 200000 };

#define BEGIN_BOOT_NS INT64_C(1000000000000)       /* some time after boot */
#define BEGIN_UNIX_NS INT64_C(1800000000000000000) /* in 2027 */
#define NS_PER_MS     INT64_C(1000000)
#define NS_PER_S      INT64_C(1000000000)

static int64_t passed_ns;
static uint64_t drawn;
static fake_time_idle_fn *on_idle;
static unsigned looks;

int __wrap_clock_gettime(clockid_t clock, struct timespec *ts);
int __real_poll(struct pollfd *fds, nfds_t count, int ms);
int __wrap_poll(struct pollfd *fds, nfds_t count, int ms);
int __wrap_nanosleep(const struct timespec *span, struct timespec *left);
ssize_t __wrap_getrandom(void *to, size_t length, unsigned flags);

void fake_time_begin(void) {
    passed_ns = 0;
    drawn = 0;
    looks = 0;
    on_idle = NULL;
}

int64_t fake_time_now_ms(void) {
    return passed_ns / NS_PER_MS;
}

int64_t fake_time_unix_us(void) {
    return (BEGIN_UNIX_NS + passed_ns) / 1000;
}

void fake_time_pass_ms(int64_t ms) {
    passed_ns += ms * NS_PER_MS;
}

void fake_time_on_idle(fake_time_idle_fn *fn) {
    on_idle = fn;
}

void fake_time_call_begins(void) {
    looks = 0;
}

/* Reading the clock takes a microsecond, as it would in reality, so that two readings differ. */
int __wrap_clock_gettime(clockid_t clock, struct timespec *ts) {
    passed_ns += 1000;
    int64_t ns = passed_ns + (clock == CLOCK_REALTIME ? BEGIN_UNIX_NS : BEGIN_BOOT_NS);
    *ts = (struct timespec){.tv_sec = ns / NS_PER_S, .tv_nsec = ns % NS_PER_S};
    return 0;
}

int __wrap_poll(struct pollfd *fds, nfds_t count, int ms) {
    int ready;
    FUZZ_CHECK(++looks < LOOKS_MAX);
    do ready = __real_poll(fds, count, 0);
    while (ready == 0 && ms != 0 && on_idle && on_idle());
    if (ready != 0 || ms == 0) return ready;
    FUZZ_CHECK(ms > 0); /* nothing else can wake the process: it would sleep forever */
    fake_time_pass_ms(ms);
    return 0;
}

int __wrap_nanosleep(const struct timespec *span, struct timespec *left) {
    (void)left;
    passed_ns += span->tv_sec * NS_PER_S + span->tv_nsec;
    return 0;
}

ssize_t __wrap_getrandom(void *to, size_t length, unsigned flags) {
    (void)flags;
    for (size_t i = 0; i < length; i++) {
        drawn = drawn * UINT64_C(6364136223846793005) + 1442695040888963407;
        ((unsigned char *)to)[i] = (unsigned char)(drawn >> 56);
    }
    return (ssize_t)length;
}
