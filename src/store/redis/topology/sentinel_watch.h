/*
 * Following the primary: one connection to one Sentinel after the other, over which it is asked where
 * the primary is, and listened to for a while in case that changes.
 *
 *   ask --answer--> listen --time is up, a failover--> ask the next (after a failover the same)
 *    \--no answer in time, no use------------------^
 *
 * A node is gone to when most of them have been asked, or all that answer: one that was cut off from the
 * others may still name the old primary, which may be back without its data. They are asked anew before
 * each attempt. While the primary is up one of them is asked every few seconds, so that all are in turn.
 */
#ifndef HF_STORE_REDIS_TOPOLOGY_SENTINEL_WATCH_H
#define HF_STORE_REDIS_TOPOLOGY_SENTINEL_WATCH_H

#include "store/redis/net/link.h"

typedef struct hf__sentinel_watch {
    hf__url url; /* of the Sentinel being asked: parts of the client's URL, none of its own */
    hf__sentinel sentinel;
    hf__link link;
    hf__log *log;

    bool listening;    /* as was last seen */
    bool primary_up;   /* as was last told */
    uint32_t asked_by; /* those that were asked since the primary was last doubted, a bit each */
    uint32_t heard_by; /* and answered */
    unsigned rounds;   /* asked since the primary went away */
    unsigned failed;   /* in a row */
    uint32_t silent;   /* those that failed when last asked, a bit each */
    hf__time leave_at; /* on to the next then */
    hf__time open_until;

    hf_result result; /* none of them was of use; HF_OK: not so */
    char *detail;
} hf__sentinel_watch;

/* Borrows all it is given. NULL: no memory. */
hf__sentinel_watch *hf__sentinel_watch_new(const hf__url *url, const hf__identity *who,
                                           hf__log *log);
void hf__sentinel_watch_free(hf__sentinel_watch *w, bool forked);

void hf__sentinel_watch_tick(hf__sentinel_watch *w, bool primary_up, hf__time now);
hf__time hf__sentinel_watch_due(const hf__sentinel_watch *w);

/* Where the primary is; NULL: not known, or not asked for often enough. */
const hf__address *hf__sentinel_watch_primary(const hf__sentinel_watch *w);

/* It was not there: ask anew. */
void hf__sentinel_watch_recheck(hf__sentinel_watch *w);

/* The first connection may take as long as one may, through whatever Sentinels and nodes. */
bool hf__sentinel_watch_opening(const hf__sentinel_watch *w);

#endif
