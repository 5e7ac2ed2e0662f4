/*
 * One lock of the directory, as this client has it open: held, waited for, or idle.
 *
 * Taking it is: take the hold's range; see that the file is still the one that has the name; read whether
 * others may stand in line, and the last token; write the record. Who finds that others stand in line
 * gives the range back and joins them. Waiting is: take a ticket, and ask again when woken, when the
 * one ahead dies, and now and then.
 *
 * No wake-up is lost: a waiter takes its ticket and then tries the hold; who releases drops the hold
 * and then looks for tickets. Whichever comes second sees the other.
 */
#ifndef HF_STORE_FILE_LOCK_H
#define HF_STORE_FILE_LOCK_H

#include "base/map.h"
#include "store/file/lockfile.h"
#include "store/file/peers.h"

typedef struct hf__lock {
    hf__mapped mapped;            /* key: prefix, NUL, name; in this same allocation */
    struct hf__lock *next, *prev; /* among the idle */
    struct hf__lock *next_heard;
    bool heard, idle;
    hf__lockfile file;
    int fd; /* -1: not open */
    dev_t device;
    ino_t inode;
    uint64_t held, standing; /* numbers; 0: not */
    int64_t ticket;          /* while standing */
    hf__peer *ahead;         /* who is watched, while standing */
    unsigned unseen;         /* how often the one ahead could not be watched */
    hf__record record;       /* while held */
    bool served;             /* the hold was come by in line */
    bool wary;               /* there was a line: look for it before taking the hold */
    bool blank;              /* the file was new when it was opened */
    bool soiled;             /* a range of ours could not be unlocked */

    /* Nobody holds it, and the first in line does not take it: stopped, it seems. */
    int64_t stalled_ticket;
    hf__time stalled_since;
} hf__lock;

/* The verbs, as store.h has them. `self` is who we are, for the record. */
hf_result hf__lock_ask(hf__lock *lock, hf__peers *peers, const hf__record *self, hf__op *op,
                       hf__time now);
hf_result hf__lock_renew(hf__lock *lock, hf__op *op, hf__time now);
hf_result hf__lock_release(hf__lock *lock, hf__peers *peers, const hf__op *op);

/* Give up all there is of it and close the file. */
void hf__lock_close(hf__lock *lock, hf__peers *peers);

/* Who holds it, through an open file of its own. HF_NOT_HELD: nobody. The inode and the record, which is
   zero if the holder has not written it yet. */
hf_result hf__lock_look(const hf__lockfile *file, const char *key, size_t length, int *out,
                        ino_t *inode, hf__head *head, char **detail);

/* Who waits: the ids of the first `size`, in order; how many wait in all. */
uint32_t hf__lock_line(const hf__lockfile *file, uint32_t *ids, uint32_t size);

#endif
