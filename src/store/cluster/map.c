/* SPDX-License-Identifier: Apache-2.0 */
/* The map of slots, and the set of slots that have changed. See map.h. */
#include "store/cluster/map.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool hf__slot_map_init(hf__slot_map *m) {
    *m = (hf__slot_map){.now = calloc(1, sizeof *m->now)};
    return m->now != NULL;
}

void hf__slot_map_fini(hf__slot_map *m) {
    free(m->now);
}

/* ---- Addresses ---- */

/* An IPv6 address may begin with a colon, too. */
static bool has_no_host(const char *where) {
    return where[0] == ':' && strrchr(where, ':') == where;
}

void hf__where_full(char out[HF__WHERE_TEXT], const char *host, const char *where) {
    snprintf(out, HF__WHERE_TEXT, "%s%s", has_no_host(where) ? host : "", where);
}

void hf__where_host(char out[HF__WHERE_TEXT], const char *where) {
    const char *colon = strrchr(where, ':');
    size_t length = colon ? (size_t)(colon - where) : strlen(where);
    snprintf(out, HF__WHERE_TEXT, "%.*s", (int)length, where);
}

bool hf__slot_map_owner(const hf__slot_map *m, unsigned slot, char out[HF__WHERE_TEXT]) {
    const char *where = m->known ? hf__cluster_slots_owner(m->now, slot) : NULL;
    if (where) hf__where_full(out, m->host, where);
    return where != NULL;
}

/* The address as the map has it: a node on the same host as the node that sent the map may have
   only a port. */
static const char *address_in_map(const hf__slot_map *m, const char *where) {
    size_t length = strlen(m->host);
    return !strncmp(where, m->host, length) && where[length] == ':' ? where + length : where;
}

static unsigned node_of(const hf__slot_map *m, const char *where) {
    unsigned node = hf__cluster_slots_node(m->now, where);
    return node ? node : hf__cluster_slots_node(m->now, address_in_map(m, where));
}

bool hf__slot_map_has(const hf__slot_map *m, const char *where) {
    unsigned node = node_of(m, where);
    for (unsigned slot = 0; node && slot < HF__SLOT_COUNT; slot++)
        if (m->now->owner[slot] == node) return true;
    return false;
}

/* ---- Changed slots ---- */

static void mark_changed(hf__slot_map *m, unsigned slot) {
    m->changed[slot / 8] |= (uint8_t)(1u << slot % 8);
    m->any_changed = true;
}

static bool same_owner(const hf__slot_map *m, const hf__cluster_slots *next, unsigned slot) {
    const char *before = hf__cluster_slots_owner(m->now, slot),
               *after = hf__cluster_slots_owner(next, slot);
    return before && after ? !strcmp(before, after) : before == after;
}

bool hf__slot_map_adopt(hf__slot_map *m, hf__cluster_slots *next, const char *host) {
    bool changed = !m->known;
    for (unsigned slot = 0; slot < HF__SLOT_COUNT && m->known; slot++) {
        if (same_owner(m, next, slot)) continue;
        changed = true;
        mark_changed(m, slot);
    }
    free(m->now);
    m->now = next;
    m->known = true;
    snprintf(m->host, sizeof m->host, "%s", host);
    return changed;
}

void hf__slot_map_moved(hf__slot_map *m, unsigned slot, const char *where) {
    char before[HF__WHERE_TEXT];
    if (hf__slot_map_owner(m, slot, before) && !strcmp(before, where)) return;
    hf__cluster_slots_set(m->now, slot, where);
    mark_changed(m, slot);
}

void hf__slot_map_node_changed(hf__slot_map *m, const char *where) {
    unsigned node = node_of(m, where);
    for (unsigned slot = 0; node && slot < HF__SLOT_COUNT; slot++)
        if (m->now->owner[slot] == node) mark_changed(m, slot);
}

bool hf__slot_map_take_changed(hf__slot_map *m) {
    if (!m->any_changed) return false;
    memcpy(m->taken, m->changed, sizeof m->taken);
    memset(m->changed, 0, sizeof m->changed);
    m->any_changed = false;
    return true;
}

bool hf__slot_map_was_changed(const hf__slot_map *m, unsigned slot) {
    return m->taken[slot / 8] & 1u << slot % 8;
}
