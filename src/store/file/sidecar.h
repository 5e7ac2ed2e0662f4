/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A small file next to a lock's file, for the latch and for the leader's value. It is written as a
 * whole by one process at a time, under an open file description lock, and read without a lock. The
 * checksum shows a reader that the file is being written, or that a crash of the machine cut it
 * short.
 *
 *   0    magic, length of the key, length of the body, checksum
 *   24   the key: prefix, NUL, name
 *        the body
 *
 * A kill cannot interrupt a write within one page. It can cut short a longer write, so only
 * contents that may be lost can be longer. A sweep removes the file under the same lock. So a
 * process that has locked a removed file opens the file that has the name now.
 */
#ifndef HF_STORE_FILE_SIDECAR_H
#define HF_STORE_FILE_SIDECAR_H

#include "store/file/lockfile.h"

#define HF__SIDECAR_BODY_MAX (HF_VALUE_MAX + 64) /* bytes at most */

/* As long as HF__LOCK_START, so that each name that fits there fits here. */
#define HF__LATCH_START "gate."
#define HF__LEAD_START  "lead."

typedef struct hf__sidecar {
    hf__lockfile file;
    const char *key;
    size_t key_length;
    int fd; /* -1: not open */
} hf__sidecar;

/* Sets the file name; `start` replaces HF__LOCK_START. Borrows `path` and `key`. */
void hf__sidecar_init(hf__sidecar *s, int directory, const char *path, const char *start,
                      const char *key, size_t length);

/* Read the body. HF_NOT_HELD: no file, or an empty one. HF_BUSY: it is being written, or it was cut
   short (if we have it locked, it was cut short). HF_PROTOCOL: it is not this lock's file. */
hf_result hf__sidecar_read(hf__sidecar *s, void *body, size_t *length, char **detail);

/* Open and lock the file; `make` creates it. HF_UNREACHABLE: another process has it locked. Then
   read and write it, and close it, also after a failure. */
hf_result hf__sidecar_lock(hf__sidecar *s, bool make, char **detail);
hf_result hf__sidecar_write(hf__sidecar *s, const void *body, size_t length, char **detail);
void hf__sidecar_close(hf__sidecar *s);

/* For the sweep: remove a file of this name that was not written or used for `keep_ms`. A leader's
   file stays while its lock is held. True: it was removed. */
bool hf__sidecar_sweep(int directory, const char *name, int64_t keep_ms);

#endif
