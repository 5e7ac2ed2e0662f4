/*
 * A handle: a small file that says which lock is held on after the command that took it has ended, and
 * how to end that. Either a helper process holds it, or it was exported and nobody does. No secret
 * stands in it; who may write it may have a lock released, so it is its owner's alone (mode 0600).
 */
#ifndef CLI_HANDLE_H
#define CLI_HANDLE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

typedef struct handle {
    char *name;
    char *store; /* its URL, without user and password */
    uint64_t token;
    pid_t helper; /* 0: there is none */
    uint64_t helper_began;
    bool over,
        unknown;    /* the helper says: it was over before; what came of its release is not known */
    char *exported; /* what hf_export has written; NULL: a helper has it */
    int64_t lease_ms;      /* of what was exported */
    int64_t until_unix_ms; /* of what was exported: the end of its lease, by this machine's clock */
} handle;

/* Make the file, empty; one whose lock is surely over is replaced. 0, or the exit code with the
   failure said. */
int handle_create(const char *path, int *fd);

/* Fill it; closes the descriptor. False: it could not be, errno says why. */
bool handle_write(int fd, const handle *h);

/* What a helper has to add, as it ends: "over" or "unknown". `fd` is the file, opened by handle_mark_open. */
int handle_mark_open(const char *path);
void handle_mark(int fd, const char *word);

/* Write it anew, in one step. */
bool handle_replace(const char *path, const handle *h);

/* 0, or the exit code with the failure said. handle_fini is allowed in every case. */
int handle_read(const char *path, handle *h);
void handle_fini(handle *h);

/* A descriptor of the helper; -1: it has ended. */
int handle_helper(const handle *h);

/* When a process began, as the kernel counts; 0: there is none. */
uint64_t handle_began(pid_t pid);

int64_t handle_now_ms(void);

#endif
