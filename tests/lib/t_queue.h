/*
 * The line of a lock of the file store, seen from outside: who holds and who waits are ranges of
 * the lock's file that are locked. This is a reading of the format of its own, not the store's:
 *
 *   [0, id)                    the hold of the client with this id
 *   [(t + 1) << 32, … + id)    its ticket t, below 2^62
 *
 *   [2^62 + (s << 32), … )     slot s of the table at 4096, 256 bytes each: in the room, or in its line
 *
 * Who stands there says so in the file, in the word at 16.
 *
 * A test can also stand there itself, as a client that does nothing: close the descriptor to leave.
 */
#ifndef T_QUEUE_H
#define T_QUEUE_H

#include <stdint.h>

/* How many wait; 0 also when there is no such file. */
int t_queue_length(const char *path);

/* The id of the client that holds it, 0: nobody; that of the n-th that waits, from 0. */
uint32_t t_queue_holder(const char *path);
uint32_t t_queue_at(const char *path, int n);

/* Take the hold, a ticket, or the whole file as one that removes it. The file is made at need. */
int t_queue_hold(const char *path, uint32_t id);
int t_queue_join(const char *path, int64_t ticket, uint32_t id);
int t_queue_take_all(const char *path);

#endif
