/* SPDX-License-Identifier: Apache-2.0 */
/* Reads holders and waiters of a lock through a separate open file, as another process sees
   them. */
#ifndef HF_STORE_FILE_INSPECT_H
#define HF_STORE_FILE_INSPECT_H

#include "store/file/slot_table.h"

typedef struct hf__file_snapshot {
    int fd; /* -1: no file, so no holder and no waiter */
    ino_t inode;
    /* By a mutex, described in head.record. The record is all zero if it is not written yet. */
    bool held;
    hf__head head;
    hf__slot_table table;
    unsigned holder_count; /* the first entries of the table; the rest wait */
    /* may exceed HF__WAITERS_MAX; only the first ones are stored */
    uint32_t waiter_count;
    hf__slot waiters[HF__WAITERS_MAX]; /* for a waiter with a ticket only `id` is known */
} hf__file_snapshot;

/* HF_OK also if there is no holder. After HF_OK call hf__file_inspect_end. */
hf_result hf__file_inspect(const hf__lockfile *file, const char *key, size_t length,
                           hf__file_snapshot *snapshot, char **detail);
void hf__file_inspect_end(hf__file_snapshot *snapshot);

#endif
