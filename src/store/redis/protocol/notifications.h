/*
 * What the two sessions of a store, one for commands and one that listens, know together: whether
 * grants are being heard, and what one that was heard means. Pure, as they are.
 */
#ifndef HF_STORE_REDIS_PROTOCOL_NOTIFICATIONS_H
#define HF_STORE_REDIS_PROTOCOL_NOTIFICATIONS_H

#include "store/redis/protocol/session.h"

typedef struct hf__notifications {
    hf__session *commands, *messages;
    bool wanted;        /* somebody stood in line: listen */
    hf__time queued_at; /* who did last asked then */
    bool listening;     /* as was told */
    bool must_recheck;  /* to be told */
    bool
        must_claim; /* what is heard is to be asked for: replicas must have it, or another node may */
    bool
        per_name; /* each name has a channel of its own: who waits for it is told when that is heard */
    uint64_t commands_link; /* of the commands, when the connection to listen on was begun */
} hf__notifications;

/* Whether who asked stands in line now. */
bool hf__is_queued(const hf__op *op);

/* What was answered: somebody may stand in line now, and has to listen. */
void hf__notifications_note_answer(hf__notifications *n, const hf__op *op);

/* The connections may have come or gone: whether messages are listened to now. */
void hf__notifications_update(hf__notifications *n, bool listening);

/* A connection to listen on is about to be made. */
void hf__notifications_connecting(hf__notifications *n);

/* The commands go over another connection than when that was begun: perhaps to another server. It is to
   be made anew, and what it has heard is void. */
bool hf__notifications_stale(hf__notifications *n);

/* What was heard next; false: nothing. */
bool hf__notifications_next(hf__notifications *n, hf__notification *notification);

#endif
