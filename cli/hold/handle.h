/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A handle is a small file. It names a lock that is held after its command has ended, and says how
 * to release the lock. Either a helper process holds the lock, or it was exported and no process
 * does. The file contains no secret. Anyone who can write it can have a lock released, so its mode
 * is 0600.
 */
#ifndef CLI_HOLD_HANDLE_H
#define CLI_HOLD_HANDLE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/safe_file.h"

typedef struct handle_file {
    safe_file location;
    int fd; /* the open file; 0: not open */
} handle_file;

typedef struct handle {
    handle_file file; /* set by handle_read */
    char *name;
    char *store; /* the URL, without credentials */
    uint64_t token;
    pid_t helper; /* 0: there is none */
    uint64_t helper_started;
    bool over;             /* appended by the helper: the hold had ended before its release */
    bool unknown;          /* appended by the helper: the result of its release is unknown */
    char *exported;        /* the text from hf_export; NULL: a helper holds the lock */
    int64_t lease_ms;      /* of an exported hold */
    int64_t until_unix_ms; /* of an exported hold: the end of its lease, by the local clock */
} handle;

/* Creates an empty file. Replaces the handle of a lock that has certainly ended. Returns 0, or the
   exit code after printing the error. handle_close may be called in any case. */
int handle_create(const char *path, handle_file *f);

/* Writes the handle. Returns 0, or the exit code after printing the error. It is an error if
   another file has replaced it, because nobody could release the lock then. */
int handle_write(const char *path, const handle_file *f, const handle *h);

/* Appends the result of a helper when it ends: "over" or "unknown". */
void handle_append_result(const handle_file *f, const char *word);

/* Closes the file; handle_remove removes it too. */
void handle_close(handle_file *f);
void handle_remove(handle_file *f);

/* Returns 0, or the exit code after printing the error. handle_fini may be called in any case. */
int handle_read(const char *path, handle *h);
void handle_fini(handle *h);

/* Reads the same open file again, with what the helper has appended since. */
int handle_read_again(const char *path, const handle *h, handle *again);

/* Atomically replaces a handle that was read. */
bool handle_replace(const handle *h);

/* A pidfd of the helper; -1: it has ended. */
int handle_open_helper(const handle *h);

/* The start time of a process in clock ticks of the kernel; 0: no such process. */
uint64_t handle_process_start(pid_t pid);

int64_t handle_now_ms(void);

#endif
