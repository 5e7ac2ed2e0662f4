/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Loaded into a redis-server with LD_PRELOAD. Shifts its wall clock by the number of seconds in the
 * file $HOLDFAST_TEST_STEP, so a test can step the clock while the server runs. See server_clock.c.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static const volatile int64_t *step_s;

__attribute__((constructor)) static void map_step(void) {
    const char *path = getenv("HOLDFAST_TEST_STEP");
    int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    void *memory = fd < 0 ? MAP_FAILED : mmap(NULL, sizeof *step_s, PROT_READ, MAP_SHARED, fd, 0);
    if (fd >= 0) close(fd);
    if (memory != MAP_FAILED) step_s = memory;
}

static int64_t read_step(void) {
    return step_s ? *step_s : 0;
}

/* The function of the next library in search order. */
static void *real_function(const char *name) {
    return dlsym(RTLD_NEXT, name);
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
    static int (*next)(struct timeval *, void *);
    if (!next) *(void **)&next = real_function("gettimeofday");
    int rc = next(now, zone);
    now->tv_sec += (time_t)read_step();
    return rc;
}

int clock_gettime(clockid_t clock, struct timespec *now) {
    static int (*next)(clockid_t, struct timespec *);
    if (!next) *(void **)&next = real_function("clock_gettime");
    int rc = next(clock, now);
    if (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)
        now->tv_sec += (time_t)read_step();
    return rc;
}

time_t time(time_t *now) {
    struct timeval tv;
    gettimeofday(&tv, NULL);
    if (now) *now = tv.tv_sec;
    return tv.tv_sec;
}
