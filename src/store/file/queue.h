/* The line of a lock, and its hold: tickets, whom to watch, whom to wake. See lock.h. */
#ifndef HF_STORE_FILE_QUEUE_H
#define HF_STORE_FILE_QUEUE_H

#include "store/file/lock.h"

#define HF__RECHECK_MS         1000    /* a waiter asks now and then, though it will be woken */
#define HF__RETRY_SOON_MS      2       /* what is in the way will be gone in a moment */
#define HF__UNWATCHED_RETRY_MS 50      /* nobody tells us of a death */
#define HF__STALL_LIMIT        HF__SEC /* for how long the first in line may leave a free lock lying */
#define HF__OPEN_TRIES         32      /* against files that are removed while we open them */

/* Who has the door has it for some microseconds, unless the processor is taken from it. */
#define HF__ENTRY_WAIT_MS   250
#define HF__ENTRY_GLANCE_MS 3

/* Take the hold for a mutex, or else the door. 0; EAGAIN: a mutex holds it, or the file is being
   removed; ETIMEDOUT: somebody had the door for all of `patience_ms`; errno. */
int hf__queue_take_hold(hf__lock *lock, const hf__peers *peers, bool mutex, int64_t patience_ms);

/* Drop either, and wake the first in line. True: there was one. */
bool hf__queue_unlock_and_wake(hf__lock *lock, hf__peers *peers);

/* Unlock what could not be unlocked before. True: all of it was. */
bool hf__queue_retry_unlock(hf__lock *lock, hf__peers *peers);

/* Take a ticket and wait behind it. HF_OK: the hold or the door is ours, and the ticket dropped.
   HF_BUSY: placed. */
hf_result hf__queue_join(hf__lock *lock, hf__local_contender *local, hf__peers *peers, hf__op *op,
                         hf__time now);
hf_result hf__queue_wait(hf__lock *lock, hf__local_contender *local, hf__peers *peers, hf__op *op,
                         hf__time now);
void hf__queue_leave(hf__lock *lock, hf__local_contender *local, hf__peers *peers);

/* Whether anybody has a ticket: of ours, or of others. */
bool hf__queue_has_ours(const hf__lock *lock);
bool hf__queue_has_others(const hf__lock *lock);

/* Be told when one of these dies, and of nobody else. How long to wait before looking again, all
   the same. */
int64_t hf__local_watch(hf__local_contender *local, hf__peers *peers, const uint32_t *ids,
                        unsigned count);
void hf__local_unwatch(hf__local_contender *local);

/* HF_BUSY, with what it says. */
hf_result hf__queue_busy(hf__op *op, int64_t retry_ms, bool placed);

/* Let whoever has it go on. */
void hf__queue_back_off(int tries);

/* The file is gone or has to be closed: nothing of ours is held or waited for in it any more. */
void hf__queue_abandon(hf__lock *lock);

#endif
