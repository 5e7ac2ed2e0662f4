/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keeps the directory small: removes files of locks that were not used for long, and the FIFOs of
 * dead clients.
 *
 * A lock's file keeps the last token of the lock. Without the file the next token comes from the
 * clock, which may be set back. So each directory has a *floor*: a lower bound for the tokens of
 * new files, higher than every token that was removed with a file. It is the mtime of a file, the
 * stamp. It is not stored as file contents, because it must be raised even when the filesystem is
 * full. The stamp's atime is the time of the last sweep.
 */
#ifndef HF_STORE_FILE_SWEEP_H
#define HF_STORE_FILE_SWEEP_H

#include <stdbool.h>
#include <stdint.h>

/* Sweep the directory, unless a client did so within the last quarter of `keep_ms`. A lock's file
   is removed if it was not used for `keep_ms` and has no holder and no waiter. */
void hf__sweep(int directory, int64_t keep_ms);

/* The filesystem is full: remove some files of locks without holder and waiter, long unused ones
   first. True: there is more space now, or another process is making some. */
bool hf__sweep_idle(int directory);

/* Call when a client starts: makes the stamp, and removes the FIFOs of dead clients. The larger the
   directory is, the less often it is read, so that the average cost of a start stays the same. */
void hf__sweep_dead(int directory);

/* All tokens of removed files are below this; 0: no file was removed. */
uint64_t hf__sweep_floor(int directory);

#endif
