/*
 * One lock of the directory, as this client has it open: held, waited for, or idle.
 *
 * Taking it is: take the hold's range; see that the file is still the one that has the name; read
 * whether others may stand in line, and the last token; write the record. Who finds that others
 * stand in line gives the range back and joins them. Waiting is: take a ticket, and ask again when
 * woken, when the one ahead dies, and now and then.
 *
 * Other kinds than the mutex are in the *room* (kinds_table.h), which is a table in the file. Its door is
 * the hold's range: who takes it finds the lock free of mutexes, and all of the line goes through
 * it one by one. While somebody is in the room, mutexes are asked for there too. So there is one
 * line, of tickets first and of the room then: who has got through the door and cannot enter yet
 * stands in the room's line, before all who have tickets.
 *
 * No wake-up is lost: a waiter takes its ticket and then tries the hold; who releases drops the
 * hold and then looks for tickets. Whichever comes second sees the other.
 */
#ifndef HF_STORE_FILE_LOCK_H
#define HF_STORE_FILE_LOCK_H

#include "base/map.h"
#include "store/file/lockfile.h"
#include "store/file/peers.h"
#include "store/file/slot_table.h"

#define HF__WATCHED_MAX 32 /* who more is in the way is looked at now and then */

/* A number of ours that waits, or that is in the room. */
typedef struct hf__local_contender {
    struct hf__local_contender *next;
    uint64_t acquire_id;
    int64_t ticket;        /* -1: none */
    int32_t slot;          /* in the room, or in its line; -1: neither */
    int32_t upgrade_slot;  /* the slot in which it waits for its upgrade; -1: it does not */
    bool holds;            /* in the room; with it: */
    uint32_t kind;         /* what it has */
    uint64_t token;        /* under what token */
    uint64_t token_before; /* that of before its upgrade; 0: none */
    bool wake_pending;     /* it may be its turn */

    hf__peer *watched[HF__WATCHED_MAX]; /* while it waits */
    unsigned watched_count;
    unsigned unwatched_tries; /* how often one of them could not be watched */

    /* It could enter, but for one before it that could too and does not: stopped, it seems. */
    int64_t stalled_at; /* the ticket or place of that one */
    hf__time stalled_since;
} hf__local_contender;

typedef struct hf__lock {
    hf__mapped mapped;            /* key: prefix, NUL, name; in this same allocation */
    struct hf__lock *next, *prev; /* among the idle */
    struct hf__lock *next_to_notify;
    bool in_notify_list, idle;
    bool has_wake_pending; /* there is a seat that was called */
    bool verify_hold;      /* what is held is to be looked at */
    hf__lockfile file;
    int fd; /* -1: not open */
    dev_t device;
    ino_t inode;
    uint64_t held;     /* the number of the mutex that holds; 0: none, or it does so in the room */
    hf__record record; /* while held */
    hf__local_contender mutex; /* the first of the seats; those of other kinds follow */
    hf__slot_set slots;        /* whose ranges are ours */
    bool was_queued;           /* the hold was come by in line */
    bool expect_queue;         /* there was a line: look for it before taking the hold */
    bool was_new;              /* the file was new when it was opened */
    bool unlock_failed;        /* a range of ours could not be unlocked */
    bool retry_unlock;         /* it is to be tried again, by hf__queue_retry_unlock */
} hf__lock;

void hf__lock_init(hf__lock *lock);

/* The verbs, as store.h has them. `self` is who we are, for the record. */
hf_result hf__lock_acquire(hf__lock *lock, hf__peers *peers, const hf__record *self, hf__op *op,
                           hf__time now);
hf_result hf__lock_renew(hf__lock *lock, hf__peers *peers, const hf__record *self, hf__op *op,
                         hf__time now);
hf_result hf__lock_release(hf__lock *lock, hf__peers *peers, const hf__record *self, hf__op *op);

/* Something of it is held or waited for. */
bool hf__lock_used(const hf__lock *lock);

/* Give up all there is of it and close the file. */
void hf__lock_close(hf__lock *lock, hf__peers *peers);

/* The same in a child, whose descriptors are closed: memory only. */
void hf__lock_fini(hf__lock *lock);

/* ---- Between its files ---- */

hf_result hf__lock_error(const hf__lock *lock, const char *what, int error, char **detail);

#endif
