/* SPDX-License-Identifier: Apache-2.0 */
/* An intrusive hash map: see map.h. */
#include "base/map.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* FNV-1a over seed and key, with a final step so that the low bits depend on all input. */
static uint64_t hash_key(uint64_t seed, const char *key, size_t length) {
    uint64_t h = UINT64_C(14695981039346656037) ^ seed;
    for (size_t i = 0; i < length; i++) h = (h ^ (unsigned char)key[i]) * UINT64_C(1099511628211);
    h ^= h >> 32;
    return h * UINT64_C(0x9E3779B97F4A7C15) >> 7 ^ h;
}

void hf__map_init(hf__map *m, uint64_t seed) {
    memset(m, 0, sizeof *m);
    m->table = m->first;
    m->size = HF__MAP_MIN;
    m->seed = seed;
}

void hf__map_fini(hf__map *m) {
    if (m->table != m->first) free(m->table);
}

hf__mapped *hf__map_find(const hf__map *m, const char *key, size_t length) {
    uint64_t h = hash_key(m->seed, key, length);
    hf__mapped *item = m->table[h & (m->size - 1)];
    while (item && !(item->hash == h && item->length == length && !memcmp(item->key, key, length)))
        item = item->next;
    return item;
}

static void resize_table(hf__map *m, size_t size) {
    hf__mapped **table = calloc(size, sizeof *table);
    if (!table) return;
    for (size_t i = 0; i < m->size; i++) {
        while (m->table[i]) {
            hf__mapped *item = m->table[i];
            m->table[i] = item->next;
            item->next = table[item->hash & (size - 1)];
            table[item->hash & (size - 1)] = item;
        }
    }
    if (m->table != m->first) free(m->table);
    m->table = table;
    m->size = size;
}

void hf__map_add(hf__map *m, hf__mapped *item) {
    if (m->count >= m->size) resize_table(m, m->size * 2);
    item->hash = hash_key(m->seed, item->key, item->length);
    hf__mapped **slot = &m->table[item->hash & (m->size - 1)];
    item->next = *slot;
    *slot = item;
    m->count++;
}

void hf__map_remove(hf__map *m, hf__mapped *item) {
    hf__mapped **slot = &m->table[item->hash & (m->size - 1)];
    while (*slot != item) slot = &(*slot)->next;
    *slot = item->next;
    m->count--;
}

hf__mapped *hf__map_next(const hf__map *m, const hf__mapped *item) {
    if (item && item->next) return item->next;
    for (size_t i = item ? (item->hash & (m->size - 1)) + 1 : 0; i < m->size; i++)
        if (m->table[i]) return m->table[i];
    return NULL;
}
