/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The queue of a file store's lock, seen from outside. Holders and waiters are locked ranges of the
 * lock's file. This code reads the format on its own and shares none with the store:
 *
 *   [0, id)                    the hold of the client with this id
 *   [(t + 1) << 32, … + id)    its ticket t, below 2^62
 *   [2^62 + (s << 32), … )     slot s of the table at 4096, 256 bytes each: a holder or a waiter of
 *                              the shared kinds
 *
 * A waiter also sets the word at 16.
 *
 * A test can hold or queue itself, as a client that does nothing. It leaves by closing the
 * descriptor.
 */
#ifndef T_QUEUE_H
#define T_QUEUE_H

#include <stdint.h>

/* The number of waiters; 0 if the file does not exist. */
int t_queue_length(const char *path);

/* The id of the client that holds the lock, 0: none; that of the n-th waiter, from 0. */
uint32_t t_queue_holder(const char *path);
uint32_t t_queue_at(const char *path, int n);

/* Lock the range of a hold, of a ticket, or the whole file as a client that removes it. Creates
   the file if needed. */
int t_queue_hold(const char *path, uint32_t id);
int t_queue_join(const char *path, int64_t ticket, uint32_t id);
int t_queue_take_all(const char *path);

#endif
