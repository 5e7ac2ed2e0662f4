/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kinds table: holders and waiters of all kinds in the table of a lock's file. Under the entry
 * lock it is read from the file, changed by store/lock_state, and our own changes are written back.
 * Then two groups of waiters are woken: those that can be granted now, and those that have a new
 * waiter ahead of them.
 *
 * A waiter in the table watches the waiter ahead of it. The first waiter watches all holders. The
 * next client that reads the table removes the slots of dead clients, and wakes all waiters that
 * can be granted as a result.
 */
#ifndef HF_STORE_FILE_KINDS_TABLE_H
#define HF_STORE_FILE_KINDS_TABLE_H

#include "store/file/lock.h"

/* Call it with the range of the hold locked, as hold or as entry lock; `head` was read under it.
   The range is unlocked, except with HF_NOT_HELD. That means that the acquire is for a mutex and
   the table is empty, so the caller takes the hold itself. */
hf_result hf__kinds_acquire(hf__lock *lock, hf__local_contender *local, hf__peers *peers,
                            const hf__record *self, hf__head *head, hf__op *op, hf__time now);

/* These take the entry lock themselves. Call hf__kinds_renew only to lower the kind of the hold:
   any other renewal needs no entry lock. */
hf_result hf__kinds_renew(hf__lock *lock, hf__local_contender *local, hf__peers *peers,
                          const hf__record *self, hf__op *op, hf__time now);
hf_result hf__kinds_release(hf__lock *lock, hf__local_contender *local, hf__peers *peers,
                            const hf__record *self, hf__op *op);

/* Another client has had the entry lock for too long. */
hf_result hf__kinds_report_stuck(const hf__lock *lock, char **detail);

#endif
