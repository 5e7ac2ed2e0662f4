/*
 * Nothing grows: files of locks that were not used for long go, and FIFOs of clients that died.
 *
 * A lock's file keeps the last token of the lock. Without the file the next token comes from the
 * clock, which may be set back. So each directory has a *floor*: the mtime of its stamp, above each
 * token that was removed with a file. A new file starts from it. The floor is a timestamp, not file
 * contents, because it is raised when the filesystem is full. The stamp's atime is the time of the
 * last sweep.
 */
#ifndef HF_STORE_FILE_SWEEP_H
#define HF_STORE_FILE_SWEEP_H

#include <stdbool.h>
#include <stdint.h>

/* Sweep the directory, unless somebody did within a quarter of `keep_ms`. A lock's file is removed when
   its last use is longer ago than that, nobody holds it and nobody waits. */
void hf__sweep(int directory, int64_t keep_ms);

/* The filesystem is full: remove some files of locks that nobody holds or waits for, long unused
   ones first. True: there is more room now, or another process is making some. */
bool hf__sweep_idle(int directory);

/* A client starts: make the stamp, and remove the FIFOs of clients that died. A large directory is
   read less often, in proportion, so that the average cost of a start stays the same. */
void hf__sweep_dead(int directory);

/* All tokens of removed files are below this; 0: no file was removed. */
uint64_t hf__sweep_floor(int directory);

#endif
