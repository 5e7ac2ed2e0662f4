/* SPDX-License-Identifier: Apache-2.0 */
/* The hold of a lock and its queue of tickets: which clients to watch, and which to wake. See
   lock.h. */
#ifndef HF_STORE_FILE_QUEUE_H
#define HF_STORE_FILE_QUEUE_H

#include "store/file/lock.h"

#define HF__RECHECK_MS         1000 /* how often a waiter rechecks, besides its wake-ups */
#define HF__RETRY_SOON_MS      2    /* the obstacle will be gone in a moment */
#define HF__UNWATCHED_RETRY_MS 50   /* a client ahead cannot be watched, so poll */
#define HF__OPEN_TRIES         32   /* for files that are removed while we open them */

/* How long the first waiter may leave a free lock unused before others may pass it. */
#define HF__STALL_LIMIT HF__SEC

/* A client has the entry lock for some microseconds, unless it loses the processor. */
#define HF__ENTRY_WAIT_MS   250
#define HF__ENTRY_GLANCE_MS 3

/* Take the hold for a mutex, or else the entry lock. 0; EAGAIN: a mutex holds it, or the file is
   being removed; ETIMEDOUT: other clients had the entry lock for all of `patience_ms`; or errno. */
int hf__queue_take_hold(hf__lock *lock, const hf__peers *peers, bool mutex, int64_t patience_ms);

/* Drop the hold or the entry lock, and wake the first waiter with a ticket. True: there is one. */
bool hf__queue_unlock_and_wake(hf__lock *lock, hf__peers *peers);

/* Try again to unlock ranges that could not be unlocked before. True: all are unlocked now. */
bool hf__queue_retry_unlock(hf__lock *lock, hf__peers *peers);

/* Take a ticket and wait behind it. HF_OK: the hold or the entry lock is ours, and the ticket is
   dropped. HF_BUSY: queued. */
hf_result hf__queue_join(hf__lock *lock, hf__local_contender *local, hf__peers *peers, hf__op *op,
                         hf__time now);
hf_result hf__queue_wait(hf__lock *lock, hf__local_contender *local, hf__peers *peers, hf__op *op,
                         hf__time now);
void hf__queue_leave(hf__lock *lock, hf__local_contender *local, hf__peers *peers);

/* Whether this client has a ticket; whether another client has one. */
bool hf__queue_has_ours(const hf__lock *lock);
bool hf__queue_has_others(const hf__lock *lock);

/* Watch these clients and no others, to learn when one dies. Returns how long to wait before a
   recheck, in milliseconds. */
int64_t hf__local_watch(hf__local_contender *local, hf__peers *peers, const uint32_t *ids,
                        unsigned count);
void hf__local_unwatch(hf__local_contender *local);

/* HF_BUSY, with `retry_ms` and `queued` set in `op`. */
hf_result hf__queue_busy(hf__op *op, int64_t retry_ms, bool queued);

/* Pause, so that the client that has the range can run. The pause grows with `tries`. */
void hf__queue_back_off(int tries);

/* The file is gone or must be closed: forget everything we hold or wait for in it. */
void hf__queue_abandon(hf__lock *lock);

#endif
