/* Who holds a lock and who waits for it, seen through an open file of its own, as an outsider. */
#ifndef HF_STORE_FILE_INSPECT_H
#define HF_STORE_FILE_INSPECT_H

#include "store/file/slot_table.h"

typedef struct hf__file_snapshot {
    int fd; /* -1: there is no file, and so nobody */
    ino_t inode;
    bool held; /* by a mutex, which head.record tells of: all zero if it has not written it yet */
    hf__head head;
    hf__slot_table table;
    unsigned holder_count;             /* so many of the table are in the room, the first of it */
    uint32_t waiter_count;             /* how many, of which the first are here: */
    hf__slot waiters[HF__WAITERS_MAX]; /* of one with a ticket the id alone is known */
} hf__file_snapshot;

/* HF_OK also when nobody holds it. Ended by hf__file_inspect_end if it is. */
hf_result hf__file_inspect(const hf__lockfile *file, const char *key, size_t length,
                           hf__file_snapshot *snapshot, char **detail);
void hf__file_inspect_end(hf__file_snapshot *snapshot);

#endif
