/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Follows the primary. One connection goes from Sentinel to Sentinel. Each Sentinel is asked where
 * the primary is. Then the connection waits for a while for messages about a failover.
 *
 *   ask --answer--> listen --time is up, or a failover--> ask the next (after a failover, the same)
 *    \--no answer in time, or not usable-------------^
 *
 * A node is used only when a majority of the Sentinels have answered, or every one that can be
 * reached. A Sentinel that is cut off from the others may still name the old primary, which may be
 * back without its data. Sentinels are asked again before each attempt to connect. While the
 * primary is up, one of them is asked every few seconds, in turn.
 */
#ifndef HF_STORE_REDIS_TOPOLOGY_SENTINEL_WATCH_H
#define HF_STORE_REDIS_TOPOLOGY_SENTINEL_WATCH_H

#include "store/redis/net/link.h"

typedef struct hf__sentinel_watch {
    hf__url url; /* of the Sentinel being asked; its parts belong to the client's URL */
    hf__sentinel sentinel;
    hf__link link;
    hf__log *log;

    bool listening;       /* as last seen */
    bool primary_up;      /* as last set by the store */
    uint32_t asked_by;    /* Sentinels asked since the primary was last in doubt, a bit each */
    uint32_t answered_by; /* those of them that answered */
    unsigned rounds;      /* rounds since the primary went away */
    unsigned failed;      /* in a row */
    uint32_t silent;      /* Sentinels that failed when last asked, a bit each */
    hf__time leave_at;    /* when to go on to the next */
    hf__time open_until;

    hf_result result; /* why no Sentinel was usable; HF_OK: at least one was */
    char *detail;
} hf__sentinel_watch;

/* Borrows all arguments. NULL: out of memory. */
hf__sentinel_watch *hf__sentinel_watch_new(const hf__url *url, const hf__identity *who,
                                           hf__log *log);
void hf__sentinel_watch_free(hf__sentinel_watch *w, bool forked);

void hf__sentinel_watch_tick(hf__sentinel_watch *w, bool primary_up, hf__time now);
hf__time hf__sentinel_watch_due(const hf__sentinel_watch *w);

/* Where the primary is; NULL: unknown, or too few Sentinels have answered. */
const hf__address *hf__sentinel_watch_primary(const hf__sentinel_watch *w);

/* The primary could not be reached: ask all Sentinels again. */
void hf__sentinel_watch_recheck(hf__sentinel_watch *w);

/* Whether the first connection is still being made; all attempts together have connect_timeout. */
bool hf__sentinel_watch_opening(const hf__sentinel_watch *w);

#endif
