/*
 * A handle: a small file that says which lock is held on after the command that took it has ended,
 * and how to end that. Either a helper process holds it, or it was exported and nobody does. No
 * secret stands in it; who may write it may have a lock released, so it is its owner's alone (mode
 * 0600).
 */
#ifndef CLI_HOLD_HANDLE_H
#define CLI_HOLD_HANDLE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/safe_file.h"

typedef struct handle_file {
    safe_file location;
    int fd; /* the file itself, from when it was made or read; 0: not open */
} handle_file;

typedef struct handle {
    handle_file file; /* of one that was read */
    char *name;
    char *store; /* its URL, without credentials */
    uint64_t token;
    pid_t helper; /* 0: there is none */
    uint64_t helper_started;
    bool over;             /* appended by the helper: the hold had ended before its release */
    bool unknown;          /* appended by the helper: the result of its release is unknown */
    char *exported;        /* what hf_export has written; NULL: a helper has it */
    int64_t lease_ms;      /* of what was exported */
    int64_t until_unix_ms; /* of what was exported: the end of its lease, by this machine's clock */
} handle;

/* Make the file, empty; one whose lock is surely over is replaced. 0, or the exit code with the
   failure said. handle_close is allowed in every case. */
int handle_create(const char *path, handle_file *f);

/* Fill it: 0, or the exit code with the failure said. A file that was replaced by another is a
   failure, for nobody could release the lock by it. */
int handle_write(const char *path, const handle_file *f, const handle *h);

/* Append what a helper reports as it ends: "over" or "unknown". */
void handle_append_result(const handle_file *f, const char *word);

/* Close the file; handle_remove also removes it. */
void handle_close(handle_file *f);
void handle_remove(handle_file *f);

/* 0, or the exit code with the failure said. handle_fini is allowed in every case. */
int handle_read(const char *path, handle *h);
void handle_fini(handle *h);

/* Read the same open file again, with what a helper has appended since. */
int handle_read_again(const char *path, const handle *h, handle *again);

/* Replace a handle that was read, atomically. */
bool handle_replace(const handle *h);

/* A descriptor of the helper; -1: it has ended. */
int handle_open_helper(const handle *h);

/* When a process began, as the kernel counts; 0: there is none. */
uint64_t handle_process_start(pid_t pid);

int64_t handle_now_ms(void);

#endif
