/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The file store compared with the system calls that it uses. An acquire and release is compared
 * with lock and unlock of the kernel alone. A lock that passes between two processes is compared
 * with a byte that passes through a pipe and back.
 */
#include <fcntl.h>
#include <holdfast.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "b_rounds.h"
#include "b_time.h"

#define ROUNDS      40
#define PAIRS       2000
#define PAIR_TARGET 4.0
#define HAND_OVERS  2000

static char directory[] = "/tmp/hf-bench-XXXXXX", url[64];

static hf_client *open_here(void) {
    hf_client *client;
    if (hf_open(url, NULL, &client) != HF_OK) b_fail("%s", hf_error_detail());
    return client;
}

static void take_and_free(hf_client *client, const char *name) {
    hf_hold *hold;
    if (hf_lock(client, name, &hold) != HF_OK || hf_release(hold) != HF_OK)
        b_fail("%s", hf_error_detail());
}

/* ---- The pair ---- */

static void our_pair(void *client) {
    take_and_free(client, "pair");
}

static void set_lock(int fd, short type) {
    struct flock range = {.l_type = type, .l_whence = SEEK_SET, .l_len = 1};
    if (fcntl(fd, F_OFD_SETLK, &range) != 0) b_fail("cannot lock a file");
}

static void bare_pair(void *fd) {
    set_lock(*(int *)fd, F_WRLCK);
    set_lock(*(int *)fd, F_UNLCK);
}

static double our_round(void *client, b_series *each) {
    return b_repeat(our_pair, client, PAIRS, each);
}

static double bare_round(void *fd, b_series *each) {
    return b_repeat(bare_pair, fd, PAIRS, each);
}

static void measure_row(const char *name, double target, b_side sides[2]) {
    b_rounds_run(sides, 2, ROUNDS);
    b_ratio row = b_rounds_ratio(&sides[0], &sides[1]);
    row.name = name;
    row.target = target;
    b_report_ratio(&row);
    b_rounds_fini(sides, 2);
}

static void measure_pairs(void) {
    char path[sizeof directory + 8];
    snprintf(path, sizeof path, "%s/bare", directory);
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    hf_client *client = open_here();
    b_side sides[] = {{.round = our_round, .arg = client}, {.round = bare_round, .arg = &fd}};
    b_section("Uncontended pair, one thread", "holdfast", "OFD lock");
    measure_row("file:", PAIR_TARGET, sides);
    hf_close(client);
    close(fd);
}

/* ---- Hand-over ---- */

static pid_t child_of(void (*run)(const int *fds), const int *fds) {
    pid_t child = fork();
    if (child < 0) b_fail("cannot start a process");
    if (child) return child;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    run(fds);
    _exit(0);
}

static void pass_byte(int from, int to) {
    char byte;
    if (read(from, &byte, 1) != 1) _exit(0);
    if (write(to, &byte, 1) != 1) _exit(0);
}

/* Acquires the lock whenever it does not hold it, so that every release of the other process is a
   hand-over. */
static void run_contender(const int *fds) {
    hf_client *client = open_here();
    (void)fds;
    for (;;) take_and_free(client, "hand-over");
}

static void run_echo(const int *fds) {
    for (;;) pass_byte(fds[0], fds[3]);
}

static double hand_over_round(void *client, b_series *each) {
    int64_t began = b_now();
    for (int i = 0; i < HAND_OVERS / 2; i++) take_and_free(client, "hand-over");
    (void)each;
    return (double)(b_now() - began) / HAND_OVERS; /* there and back */
}

static void round_trip(void *fds) {
    const int *pipes = fds;
    char byte = 0;
    if (write(pipes[1], &byte, 1) != 1 || read(pipes[2], &byte, 1) != 1) b_fail("the pipe broke");
}

static double pipe_round(void *fds, b_series *each) {
    return b_repeat(round_trip, fds, HAND_OVERS / 2, each);
}

/* The second process of one side sleeps while the other side is measured. The lock's process
   would continue to acquire and release, so it is stopped in the meantime. */
static pid_t contender;

static double handover_round(void *client, b_series *each) {
    kill(contender, SIGCONT);
    take_and_free(client, "hand-over");
    double took = hand_over_round(client, each);
    hf_hold *hold; /* the other process waits while we hold it, so it is stopped without the lock */
    if (hf_lock(client, "hand-over", &hold) != HF_OK) b_fail("%s", hf_error_detail());
    kill(contender, SIGSTOP);
    if (hf_release(hold) != HF_OK) b_fail("%s", hf_error_detail());
    return took;
}

static void hand_over(void) {
    int fds[4];
    if (pipe(fds) != 0 || pipe(fds + 2) != 0) b_fail("cannot make a pipe");
    pid_t echoer = child_of(run_echo, fds);
    contender = child_of(run_contender, fds);
    hf_client *client = open_here();
    b_side sides[] = {{.round = handover_round, .arg = client}, {.round = pipe_round, .arg = fds}};
    b_section("From process to process", "hand-over", "pipe, both ways");
    measure_row("two processes, file:", 0, sides);
    kill(contender, SIGKILL);
    kill(echoer, SIGKILL);
    while (wait(NULL) > 0) continue;
    hf_close(client);
}

static void remove_directory(void) {
    char command[sizeof directory + 16];
    snprintf(command, sizeof command, "rm -rf '%s'", directory);
    if (system(command) != 0) return;
}

int main(int argc, char **argv) {
    b_report_begin("file", argc, argv);
    if (!mkdtemp(directory)) b_fail("cannot make a directory in /tmp");
    atexit(remove_directory);
    snprintf(url, sizeof url, "file://%s", directory);
    measure_pairs();
    hand_over();
    return 0;
}
