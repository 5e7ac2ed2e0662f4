/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Run a command on a machine that pauses now and then, as a virtual machine does when its host is
 * busy: a thread of real-time priority on each core blocks everything else for a while. A test that
 * fails only under it depends on timing.
 *
 *     stalls MS EVERY_MS COMMAND...      pauses of MS, every EVERY_MS on average
 *
 * It exits with the command's status. The kernel reserves 5 % of each second for other threads, so
 * the longest pause is nearly a second.
 */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { CORES_MAX = 64, PRIORITY = 50 };

static pthread_barrier_t all;
static int64_t stall_ns, every_ns;

static int64_t now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static void sleep_ns(int64_t ns) {
    nanosleep(&(struct timespec){.tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000}, NULL);
}

static void *block_core(void *arg) {
    cpu_set_t core;
    CPU_ZERO(&core);
    CPU_SET((size_t)(intptr_t)arg, &core);
    int error = pthread_setaffinity_np(pthread_self(), sizeof core, &core);
    if (!error)
        error = pthread_setschedparam(pthread_self(), SCHED_FIFO,
                                      &(struct sched_param){.sched_priority = PRIORITY});
    if (error) {
        fprintf(stderr, "stalls: no real-time priority: %s; run it as root\n", strerror(error));
        exit(71);
    }
    unsigned chance = (unsigned)getpid(); /* the same on each core */
    for (;;) {
        sleep_ns(every_ns / 2 + (int64_t)((double)rand_r(&chance) / RAND_MAX * (double)every_ns));
        pthread_barrier_wait(&all);
        for (int64_t until = now_ns() + stall_ns; now_ns() < until;) {
        }
    }
    return NULL;
}

static int64_t read_ms(const char *text) {
    char *end;
    long ms = strtol(text, &end, 10);
    if (*end || ms < 1 || ms > 60000) {
        fprintf(stderr, "stalls: not a number of milliseconds: %s\n", text);
        exit(64);
    }
    return ms * 1000000;
}

/* Called before any thread starts. */
static pid_t start_command(char **command) {
    pid_t child = fork();
    if (child) return child;
    execvp(*command, command);
    fprintf(stderr, "stalls: %s: %s\n", *command, strerror(errno));
    _exit(69);
}

int main(int argc, char **argv) {
    if (argc < 4) {
        fputs("usage: stalls MS EVERY_MS COMMAND...\n", stderr);
        return 64;
    }
    stall_ns = read_ms(argv[1]);
    every_ns = read_ms(argv[2]);
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    if (cores > CORES_MAX) cores = CORES_MAX;
    pthread_barrier_init(&all, NULL, (unsigned)cores);
    pid_t child = start_command(argv + 3);
    for (intptr_t i = 0; i < cores; i++) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, block_core, (void *)i) != 0) return 71;
    }
    int status;
    while (waitpid(child, &status, 0) < 0) {
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
