/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One lock of the directory, as this client has it open: held, waited for, or idle.
 *
 * To acquire a mutex, a client takes the range of the hold and checks that the file still has the
 * name. It reads the last token and whether others may be queued, and writes the record. If others
 * are queued, it gives the range back and joins the queue. A waiter takes a ticket. It tries again
 * when it is woken, when the client ahead of it dies, and at regular intervals.
 *
 * Kinds other than the mutex use the *kinds table* (kinds_table.h), a table in the file. The *entry
 * lock* guards it: the range of the hold, taken for a moment. A client that gets the entry lock
 * knows that no mutex holds the lock, and clients enter one by one in queue order. While the kinds
 * table is in use, mutexes are acquired there too. So there is one queue in two parts: first the
 * waiters in the table, then the waiters with tickets. A client that has had the entry lock and
 * cannot be granted yet waits in the table, before all tickets.
 *
 * No wake-up is lost. A waiter takes its ticket first and then tries the hold. A client that
 * releases drops the hold first and then looks for tickets. Whichever comes second sees the other.
 *
 * Not thread-safe: used under the client's mutex.
 */
#ifndef HF_STORE_FILE_LOCK_H
#define HF_STORE_FILE_LOCK_H

#include "base/map.h"
#include "store/file/lockfile.h"
#include "store/file/peers.h"
#include "store/file/slot_table.h"

#define HF__WATCHED_MAX 32 /* blockers beyond this number are found by rechecks */

/* A local contender: one acquire of this client that waits, or that holds in the kinds table. */
typedef struct hf__local_contender {
    struct hf__local_contender *next;
    uint64_t acquire_id;
    int64_t ticket;        /* -1: none */
    int32_t slot;          /* of its hold or its wait in the kinds table; -1: none */
    int32_t upgrade_slot;  /* the slot in which its upgrade waits; -1: none */
    bool holds;            /* in the kinds table; the next fields apply then */
    uint32_t kind;         /* the kind it holds */
    uint64_t token;        /* of its hold */
    uint64_t token_before; /* the token before its upgrade; 0: none */
    bool wake_pending;     /* it may be granted now */

    hf__peer *watched[HF__WATCHED_MAX]; /* while it waits */
    unsigned watched_count;
    unsigned unwatched_tries; /* how often a client could not be watched */

    /* Another waiter ahead can be granted but does not act: that waiter is probably stopped. */
    int64_t stalled_at; /* the ticket or position of that waiter */
    hf__time stalled_since;
} hf__local_contender;

typedef struct hf__lock {
    hf__mapped mapped;            /* key: prefix, NUL, name; part of this allocation */
    struct hf__lock *next, *prev; /* in the list of idle locks */
    struct hf__lock *next_to_notify;
    bool in_notify_list, idle;
    bool has_wake_pending; /* a local contender has wake_pending set */
    bool verify_hold;      /* the core must check whether the hold still exists */
    hf__lockfile file;
    int fd; /* -1: not open */
    dev_t device;
    ino_t inode;
    /* The acquire id of the mutex that holds the range. 0: none, or the hold is in the kinds
       table. */
    uint64_t held;
    hf__record record;         /* valid while `held` */
    hf__local_contender mutex; /* first of the list; those of other kinds follow */
    hf__slot_set slots;        /* the slots whose ranges we have */
    bool was_queued;           /* we got the hold through the queue */
    bool expect_queue;         /* others were queued: look for them before taking the hold */
    bool was_new;              /* the file was empty when it was opened */
    bool unlock_failed;        /* a range of ours could not be unlocked */
    bool retry_unlock;         /* hf__queue_retry_unlock must try it again */
} hf__lock;

void hf__lock_init(hf__lock *lock);

/* The operations of store.h. `self` describes this client, for the record. */
hf_result hf__lock_acquire(hf__lock *lock, hf__peers *peers, const hf__record *self, hf__op *op,
                           hf__time now);
hf_result hf__lock_renew(hf__lock *lock, hf__peers *peers, const hf__record *self, hf__op *op,
                         hf__time now);
hf_result hf__lock_release(hf__lock *lock, hf__peers *peers, const hf__record *self, hf__op *op);

/* Whether we hold it or wait for it. */
bool hf__lock_used(const hf__lock *lock);

/* Release the lock, leave its queue, and close the file. */
void hf__lock_close(hf__lock *lock, hf__peers *peers);

/* Free memory only. In a forked child this is all: the descriptors are closed already. */
void hf__lock_fini(hf__lock *lock);

/* ---- Used by queue.c and kinds_table.c ---- */

hf_result hf__lock_error(const hf__lock *lock, const char *what, int error, char **detail);

#endif
