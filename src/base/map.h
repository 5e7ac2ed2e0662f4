/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An intrusive hash map, keyed by names. Adding cannot fail: if no memory is left for a larger
 * table, the chains become longer. The hash is seeded, so names that collide cannot be chosen on
 * purpose.
 */
#ifndef HF_BASE_MAP_H
#define HF_BASE_MAP_H

#include <stddef.h>
#include <stdint.h>

#define HF__MAP_MIN 16

typedef struct hf__mapped {
    struct hf__mapped *next;
    const char *key; /* the owner's memory, valid as long as the item is in the map */
    size_t length;
    uint64_t hash;
} hf__mapped;

typedef struct hf__map {
    hf__mapped **table;
    size_t size, count; /* `size` is a power of two */
    uint64_t seed;
    hf__mapped *first[HF__MAP_MIN];
} hf__map;

void hf__map_init(hf__map *m, uint64_t seed);
void hf__map_fini(hf__map *m);
hf__mapped *hf__map_find(const hf__map *m, const char *key, size_t length);

/* The caller sets key and length of `item`, which must not be in the map yet. */
void hf__map_add(hf__map *m, hf__mapped *item);
void hf__map_remove(hf__map *m, hf__mapped *item);

/* For walking and draining: the item after `item` (NULL: the first); NULL at the end. */
hf__mapped *hf__map_next(const hf__map *m, const hf__mapped *item);

#endif
