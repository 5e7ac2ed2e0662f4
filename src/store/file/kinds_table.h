/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kinds table: holders and waiters of all kinds in the table of a lock's file. Under the entry
 * lock it is read from the file, changed by store/lock_state, and our own changes are written back.
 * Then waiters are woken that can be granted now, or that have another waiter ahead of them than
 * before.
 *
 * A waiter in the table watches the waiter ahead of it. The first waiter watches all holders. The
 * next client that reads the table removes the slots of dead clients, and wakes all waiters that
 * can be granted as a result.
 */
#ifndef HF_STORE_FILE_KINDS_TABLE_H
#define HF_STORE_FILE_KINDS_TABLE_H

#include "store/file/lock.h"

/* We have the range of the hold, as hold or as entry lock, and `head` was read under it. The range
   is given back, except with HF_NOT_HELD: a mutex acquires, and the table is empty, so the caller
   takes the hold itself. */
hf_result hf__kinds_acquire(hf__lock *lock, hf__local_contender *local, hf__peers *peers,
                            const hf__record *self, hf__head *head, hf__op *op, hf__time now);

/* These take the entry lock themselves. A renewal needs it only to lower the kind of the hold. */
hf_result hf__kinds_renew(hf__lock *lock, hf__local_contender *local, hf__peers *peers,
                          const hf__record *self, hf__op *op, hf__time now);
hf_result hf__kinds_release(hf__lock *lock, hf__local_contender *local, hf__peers *peers,
                            const hf__record *self, hf__op *op);

/* Another client has had the entry lock for too long. */
hf_result hf__kinds_report_stuck(const hf__lock *lock, char **detail);

#endif
