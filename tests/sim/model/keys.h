/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The keys of a server: strings, lists, hashes and sorted sets, with or without a time of expiry.
 *
 * Every type is an array of items. Hashes stay in order of insertion and are searched from the
 * front, as Redis does with small hashes. Locks are small.
 */
#ifndef SIM_MODEL_KEYS_H
#define SIM_MODEL_KEYS_H

#include "base/map.h"
#include "model/bytes.h"

typedef enum rm_type { RM_STRING, RM_LIST, RM_HASH } rm_type;

typedef struct rm_item {
    rm_bytes text;  /* string: the value; list: an element; hash: a field */
    rm_bytes value; /* value of a field */
} rm_item;

#define RM_FOREVER INT64_C(-1)

typedef struct rm_key {
    hf__mapped mapped; /* the name, in the same allocation */
    rm_type type;
    int64_t expires_ms; /* Unix time; RM_FOREVER */
    rm_item *items;     /* an empty collection is removed */
    size_t count, capacity;
} rm_key;

typedef struct rm_keys {
    hf__map map;
} rm_keys;

void rm_keys_init(rm_keys *keys);
void rm_keys_fini(rm_keys *keys);
void rm_keys_clear(rm_keys *keys);

/* Returns NULL if there is no such key. A key that has expired at now_ms is removed first. */
rm_key *rm_keys_find(rm_keys *keys, rm_bytes name, int64_t now_ms);
rm_key *rm_keys_make(rm_keys *keys, rm_bytes name, rm_type type);
void rm_keys_remove(rm_keys *keys, rm_key *key);

/* Iterates over all keys, also expired ones: returns the key after `key`; NULL starts. */
rm_key *rm_keys_next(const rm_keys *keys, const rm_key *key);
rm_bytes rm_key_name(const rm_key *key);

/* Items by position. Inserted bytes are copied. */
void rm_insert(rm_key *key, size_t at, rm_bytes text);
void rm_erase(rm_key *key, size_t at);
void rm_set_text(rm_key *key, size_t at, rm_bytes text);
void rm_set_value(rm_key *key, size_t at, rm_bytes value);

/* Returns the position of a text, or -1. `key` may be NULL. */
int64_t rm_index(const rm_key *key, rm_bytes text);

#endif
