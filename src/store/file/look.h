/* Who holds a lock and who waits for it, seen through an open file of its own, as an outsider. */
#ifndef HF_STORE_FILE_LOOK_H
#define HF_STORE_FILE_LOOK_H

#include "store/file/table.h"

typedef struct hf__view {
    int fd; /* -1: there is no file, and so nobody */
    ino_t inode;
    bool held; /* by a mutex, which head.record tells of: all zero if it has not written it yet */
    hf__head head;
    hf__table table;
    unsigned inside;              /* so many of the table are in the room, the first of it */
    uint32_t waiting;             /* how many, of which the first are here: */
    hf__slot line[HF__LINE_SEEN]; /* of one with a ticket the id alone is known */
} hf__view;

/* HF_OK also when nobody holds it. Ended by hf__look_end if it is. */
hf_result hf__look(const hf__lockfile *file, const char *key, size_t length, hf__view *view,
                   char **detail);
void hf__look_end(hf__view *view);

#endif
