/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How the clients of a directory watch and wake each other. Each client has these files there,
 * named by its id:
 *
 *   life.<id>   a FIFO, open and locked as long as the client lives. Other clients poll it, and it
 *               hangs up when the process ends, however it ends. The client also reads from it
 *               requests to end a hold.
 *   wake.<id>   a FIFO from which the client reads wake-ups for its waiters.
 *   who.<id>    while the client waits: a symbolic link without a target, whose text says who it is
 *
 * A message is the inode number of the lock, and the acquire id that it is for.
 *
 * Not thread-safe: used under the client's mutex.
 */
#ifndef HF_STORE_FILE_PEERS_H
#define HF_STORE_FILE_PEERS_H

#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define HF__LIFE_START        "life."
#define HF__WAKE_START        "wake."
#define HF__WHO_START         "who."
#define HF__INTRODUCTION_MAX  400 /* bytes: pid, program, label */
#define HF__PEER_FILENAME_MAX 16

typedef struct hf__peer {
    struct hf__peer *next;
    uint32_t id;
    int life, wake;    /* -1: not open */
    unsigned watchers; /* how many of our waiters watch it */
} hf__peer;

typedef struct hf__peers {
    int directory;
    uint32_t id; /* ours; 0: not joined yet */
    int life, wake;
    int watch;      /* epoll: hang-ups of other clients */
    hf__peer *list; /* most recently used first */
    uint64_t *pollset_version;
    const char *introduction; /* the text of who.<id>; borrowed from the store */
} hf__peers;

/* `pollset_version` is incremented when the descriptors to poll change. Borrowed. */
void hf__peers_init(hf__peers *peers, int directory, uint64_t *pollset_version);
void hf__peers_fini(hf__peers *peers, bool forked);

/* Make our files visible to others: before the first hold (`waits` false) or the first wait. 0 or
   errno. */
int hf__peers_join(hf__peers *peers, bool waits);

/* Watch a client, to learn when it dies. 0; ESRCH: it is dead; another errno: it cannot be
   watched. */
int hf__peers_watch(hf__peers *peers, uint32_t id, hf__peer **out);
void hf__peers_unwatch(hf__peer *peer);

/* Close peers that no waiter watches, except the `keep` most recently used. True: some were
   closed. */
bool hf__peers_trim(hf__peers *peers, unsigned keep);

/* Wake the waiter of another client that has this acquire id; 0: its waiters that have a ticket.
   And ask another client to end its hold. */
void hf__peers_wake(hf__peers *peers, uint32_t id, ino_t lock, uint64_t acquire_id);
void hf__peers_request_break(hf__peers *peers, uint32_t id, ino_t lock);

/* The introduction of a client; false: it has none, or it is gone. */
bool hf__peers_read_introduction(const hf__peers *peers, uint32_t id,
                                 char out[HF__INTRODUCTION_MAX]);

/* The descriptors to poll. Then what arrived: the next message, and the next peer that died; false:
   no more. A peer that died stays valid until it is unwatched. */
int hf__peers_pollset(const hf__peers *peers, struct pollfd *fds, bool reading);
bool hf__peers_next_message(hf__peers *peers, int fd, ino_t *lock, uint64_t *acquire_id);
bool hf__peers_next_death(hf__peers *peers, uint32_t *id);

#endif
