/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names a client in a lock state: 128 bits, compared by value. It is the client's UUID, or a number
 * if the store has numbered its clients. So a state refers to no memory of the store, and can be
 * saved by one process and loaded by another. All clients of a lock have ids of the same sort.
 */
#ifndef HF_STORE_LOCK_STATE_CLIENT_ID_H
#define HF_STORE_LOCK_STATE_CLIENT_ID_H

#include <stdbool.h>
#include <stdint.h>

#include "base/rand.h"

/* All zero: no client. */
typedef struct hf__client_id {
    uint64_t high, low;
} hf__client_id;

static inline bool hf__client_id_is_same(hf__client_id a, hf__client_id b) {
    return a.high == b.high && a.low == b.low;
}

static inline bool hf__client_id_is_none(hf__client_id id) {
    return !id.high && !id.low;
}

/* The id of a client that has a number. 0: no client. */
static inline hf__client_id hf__client_id_of_number(uint64_t number) {
    return (hf__client_id){.low = number};
}

/* The id of a client that has a UUID; all zero if `uuid` is not one. Upper and lower case are the
   same id. */
hf__client_id hf__client_id_of_uuid(const char *uuid);

/* The UUID of an id, in lower case. */
void hf__client_id_to_uuid(hf__client_id id, char out[HF__UUID_LENGTH + 1]);

#endif
