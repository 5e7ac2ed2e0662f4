/*
 * What the two sessions of a store, one for commands and one that listens, know together: whether
 * grants are being heard, and what one that was heard means. Pure, as they are.
 */
#ifndef HF_STORE_REDIS_PROTOCOL_NOTIFICATIONS_H
#define HF_STORE_REDIS_PROTOCOL_NOTIFICATIONS_H

#include "store/redis/protocol/session.h"

typedef struct hf__hearing {
    hf__session *commands, *messages;
    bool waits;        /* somebody stood in line: listen */
    hf__time stood_at; /* who did last asked then */
    bool listening;    /* as was told */
    bool ask_again;    /* to be told */
    bool claims; /* what is heard is to be asked for: replicas must have it, or another node may */
    bool
        by_name; /* each name has a channel of its own: who waits for it is told when that is heard */
    uint64_t link; /* of the commands, when the connection to listen on was begun */
} hf__hearing;

/* Whether who asked stands in line now. */
bool hf__hearing_stands(const hf__op *op);

/* What was answered: somebody may stand in line now, and has to listen. */
void hf__hearing_complete(hf__hearing *h, const hf__op *op);

/* The connections may have come or gone: whether messages are listened to now. */
void hf__hearing_look(hf__hearing *h, bool listening);

/* A connection to listen on is about to be made. */
void hf__hearing_begin(hf__hearing *h);

/* The commands go over another connection than when that was begun: perhaps to another server. It is to
   be made anew, and what it has heard is void. */
bool hf__hearing_stale(hf__hearing *h);

/* What was heard next; false: nothing. */
bool hf__hearing_news(hf__hearing *h, hf__news *news);

#endif
