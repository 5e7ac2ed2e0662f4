/*
 * Clients of a directory, to each other. Each has two FIFOs there, named by its id:
 *
 *   life.<id>   open and locked as long as the client lives. Others poll their end of it: it hangs up
 *               when the process ends, however it ends. Also takes orders: somebody wants a hold ended.
 *   wake.<id>   takes wake-ups, for the thread that waits.
 *   who.<id>    of one that waits: a link that points nowhere, but says who it is
 *
 * What is written is the inode number of the lock that it is about, and the number of who is meant.
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
    unsigned watchers; /* how many of our locks wait behind it */
} hf__peer;

typedef struct hf__peers {
    int directory;
    uint32_t id; /* ours; 0: not joined yet */
    int life, wake;
    int watch;      /* epoll: hang-ups of others */
    hf__peer *list; /* the last used first */
    uint64_t *polls;
    const char *introduction; /* what who.<id> says; the store's memory */
} hf__peers;

/* `polls` is counted up whenever there is something new to poll. */
void hf__peers_init(hf__peers *peers, int directory, uint64_t *polls);
void hf__peers_fini(hf__peers *peers, bool forked);

/* Be there for others: before the first hold (`waits` false) or wait. 0 or errno. */
int hf__peers_join(hf__peers *peers, bool waits);

/* Be told when this client dies. 0; ESRCH: it is dead; or errno: we shall not be told. */
int hf__peers_watch(hf__peers *peers, uint32_t id, hf__peer **out);
void hf__peers_unwatch(hf__peer *peer);

/* Close those that nobody waits behind, but for so many. True if there were such. */
bool hf__peers_trim(hf__peers *peers, unsigned keep);

/* Tell a client of a lock: that it may be the turn of this number of its, 0: of one with a ticket; that
   its hold is to end. */
void hf__peers_wake(hf__peers *peers, uint32_t id, ino_t lock, uint64_t acquire_id);
void hf__peers_request_break(hf__peers *peers, uint32_t id, ino_t lock);

/* What a client says of itself; false: nothing, or not any more. */
bool hf__peers_read_introduction(const hf__peers *peers, uint32_t id,
                                 char out[HF__INTRODUCTION_MAX]);

/* What to poll; and what is there: the next lock that something was heard of, the next peer that died,
   false when there is none (more). A peer that died stays valid until it is unwatched. */
int hf__peers_pollset(const hf__peers *peers, struct pollfd *fds, bool reading);
bool hf__peers_next_message(hf__peers *peers, int fd, ino_t *lock, uint64_t *acquire_id);
bool hf__peers_next_death(hf__peers *peers, uint32_t *id);

#endif
