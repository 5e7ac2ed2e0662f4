/*
 * A small file beside that of a lock, for what is not the hold: written as a whole by one at a
 * time, under an open file description lock, and read without one. Its sum tells a reader that it
 * is being written just now, or was cut by a crash of the machine.
 *
 *   0    magic, length of the key, length of the body, sum
 *   24   the key: prefix, NUL, name
 *        the body
 *
 * A kill does not cut a write within one page in two; what may be longer must not need more than
 * its sum. The file is removed by a sweep, under the same lock: who locked one that has lost its
 * name takes the one that has it.
 */
#ifndef HF_STORE_FILE_SIDECAR_H
#define HF_STORE_FILE_SIDECAR_H

#include "store/file/lockfile.h"

#define HF__SIDECAR_BODY_MAX (HF_VALUE_MAX + 64) /* bytes at most */
#define HF__LATCH_START      "gate." /* as long as HF__LOCK_START, so that what fits there fits here */
#define HF__LEAD_START       "lead."

typedef struct hf__sidecar {
    hf__lockfile file;
    const char *key;
    size_t key_length;
    int fd; /* -1: not open */
} hf__sidecar;

/* Which file; `start` takes the place of HF__LOCK_START. Borrows path and key. */
void hf__sidecar_init(hf__sidecar *s, int directory, const char *path, const char *start,
                      const char *key, size_t length);

/* Read it. HF_NOT_HELD: there is none, or it is empty. HF_BUSY: it is being written, or was cut; if
   it is locked, it was cut. HF_PROTOCOL: it is not this one. */
hf_result hf__sidecar_read(hf__sidecar *s, void *body, size_t *length, char **detail);

/* Open and lock it, making it with `make`; HF_UNREACHABLE: another has it just now. Then read and
   write it; and close it, also after a failure. */
hf_result hf__sidecar_lock(hf__sidecar *s, bool make, char **detail);
hf_result hf__sidecar_write(hf__sidecar *s, const void *body, size_t length, char **detail);
void hf__sidecar_close(hf__sidecar *s);

/* For the sweep: remove a file of this name that has not been written or used for so long. For one
   of a leader the lock beside it must not be held. True: it is gone. */
bool hf__sidecar_sweep(int directory, const char *name, int64_t keep_ms);

#endif
