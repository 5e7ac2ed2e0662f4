/* SPDX-License-Identifier: Apache-2.0 */
#include "model/keys.h"

#include <stdlib.h>

void rm_keys_init(rm_keys *keys) {
    hf__map_init(&keys->map, 1); /* a fixed seed: runs must be repeatable */
}

void rm_keys_fini(rm_keys *keys) {
    rm_keys_clear(keys);
    hf__map_fini(&keys->map);
}

void rm_keys_clear(rm_keys *keys) {
    for (rm_key *key; (key = rm_keys_next(keys, NULL));) rm_keys_remove(keys, key);
}

rm_key *rm_keys_find(rm_keys *keys, rm_bytes name, int64_t now_ms) {
    rm_key *key = (rm_key *)hf__map_find(&keys->map, name.at, name.length);
    if (!key || key->expires_ms == RM_FOREVER || now_ms <= key->expires_ms) return key;
    rm_keys_remove(keys, key);
    return NULL;
}

rm_key *rm_keys_make(rm_keys *keys, rm_bytes name, rm_type type) {
    rm_key *key = rm_alloc(sizeof *key + name.length + 1);
    *key = (rm_key){.type = type, .expires_ms = RM_FOREVER};
    char *copy = (char *)(key + 1);
    memcpy(copy, name.at, name.length);
    copy[name.length] = '\0';
    key->mapped.key = copy;
    key->mapped.length = name.length;
    hf__map_add(&keys->map, &key->mapped);
    return key;
}

static void free_item(rm_item *item) {
    free((char *)item->text.at);
    free((char *)item->value.at);
}

void rm_keys_remove(rm_keys *keys, rm_key *key) {
    hf__map_remove(&keys->map, &key->mapped);
    for (size_t i = 0; i < key->count; i++) free_item(&key->items[i]);
    free(key->items);
    free(key);
}

rm_key *rm_keys_next(const rm_keys *keys, const rm_key *key) {
    return (rm_key *)hf__map_next(&keys->map, key ? &key->mapped : NULL);
}

rm_bytes rm_key_name(const rm_key *key) {
    return (rm_bytes){key->mapped.key, key->mapped.length};
}

/* ---- Items ---- */

static rm_bytes copy_bytes(rm_bytes b) {
    return (rm_bytes){rm_copy(b), b.length};
}

static void replace_bytes(rm_bytes *old, rm_bytes with) {
    rm_bytes made = copy_bytes(with); /* `with` may be a part of the old value */
    free((char *)old->at);
    *old = made;
}

void rm_insert(rm_key *key, size_t at, rm_bytes text) {
    if (key->count == key->capacity) {
        key->capacity = key->capacity ? key->capacity * 2 : 4;
        key->items = rm_realloc(key->items, key->capacity * sizeof *key->items);
    }
    rm_item *item = key->items + at;
    memmove(item + 1, item, (key->count - at) * sizeof *item);
    *item = (rm_item){.text = copy_bytes(text)};
    key->count++;
}

void rm_erase(rm_key *key, size_t at) {
    rm_item *item = key->items + at;
    free_item(item);
    key->count--;
    memmove(item, item + 1, (key->count - at) * sizeof *item);
}

void rm_set_text(rm_key *key, size_t at, rm_bytes text) {
    replace_bytes(&key->items[at].text, text);
}

void rm_set_value(rm_key *key, size_t at, rm_bytes value) {
    replace_bytes(&key->items[at].value, value);
}

int64_t rm_index(const rm_key *key, rm_bytes text) {
    for (size_t i = 0; key && i < key->count; i++)
        if (rm_same(key->items[i].text, text)) return (int64_t)i;
    return -1;
}
