/*
 * An intrusive hash map from names to what is kept for them. Adding cannot fail: when a larger
 * table cannot be had, chains grow instead. Hashing is seeded, so that names chosen by others
 * cannot be made to collide.
 */
#ifndef HF_BASE_MAP_H
#define HF_BASE_MAP_H

#include <stddef.h>
#include <stdint.h>

#define HF__MAP_MIN 16

typedef struct hf__mapped {
    struct hf__mapped *next;
    const char *key; /* the owner's memory, as long as it is in the map */
    size_t length;
    uint64_t hash;
} hf__mapped;

typedef struct hf__map {
    hf__mapped **table;
    size_t size, count; /* size is a power of two */
    uint64_t seed;
    hf__mapped *first[HF__MAP_MIN];
} hf__map;

void hf__map_init(hf__map *m, uint64_t seed);
void hf__map_fini(hf__map *m);
hf__mapped *hf__map_find(const hf__map *m, const char *key, size_t length);

/* The key and length of `item` are set by the caller; it must not be in the map yet. */
void hf__map_add(hf__map *m, hf__mapped *item);
void hf__map_remove(hf__map *m, hf__mapped *item);

/* Any item, or NULL when empty: for draining. And a walk: what follows `item` (NULL: the first). */
hf__mapped *hf__map_next(const hf__map *m, const hf__mapped *item);

#endif
