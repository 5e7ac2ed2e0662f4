/*
 * The room of a lock, while we have its door: read from the table of the file, changed as
 * store/lock_state says, and what has changed of ours is written back. Then those are woken whose turn it
 * is now, or who have somebody else ahead of them than before.
 *
 * Who waits in the room's line watches the one ahead; the first in line all who are inside. What
 * dies is taken out by whoever looks next, who wakes all whose turn it has become.
 */
#ifndef HF_STORE_FILE_KINDS_TABLE_H
#define HF_STORE_FILE_KINDS_TABLE_H

#include "store/file/lock.h"

/* The hold's range is ours, as hold or door, and `head` was read under it. It is given back; but not
   with HF_NOT_HELD: it is a mutex that asks, and nobody is in the room, so the hold is to be had. */
hf_result hf__kinds_acquire(hf__lock *lock, hf__local_contender *local, hf__peers *peers,
                            const hf__record *self, hf__head *head, hf__op *op, hf__time now);

/* These go through the door by themselves. A renewal has to only if it makes less of the hold. */
hf_result hf__kinds_renew(hf__lock *lock, hf__local_contender *local, hf__peers *peers,
                          const hf__record *self, hf__op *op, hf__time now);
hf_result hf__kinds_release(hf__lock *lock, hf__local_contender *local, hf__peers *peers,
                            const hf__record *self, hf__op *op);

/* Somebody has had the door for too long. */
hf_result hf__kinds_report_stuck(const hf__lock *lock, char **detail);

#endif
