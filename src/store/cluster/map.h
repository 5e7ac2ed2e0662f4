/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which node has which slot, according to the last map; and which slots have moved or changed
 * connection, so that the client checks its locks in them. No I/O.
 *
 * A map may be out of date: a node that is cut off from the others names former owners. A former
 * owner answers MOVED or does not answer. Then another node is asked for the map.
 */
#ifndef HF_STORE_CLUSTER_MAP_H
#define HF_STORE_CLUSTER_MAP_H

#include "store/redis/protocol/cluster_slots.h"

#define HF__WHERE_TEXT 300 /* "host:port" */

typedef struct hf__slot_map {
    bool known;
    hf__cluster_slots *now;
    /* the host of the node that sent the map; nodes without a host in the map are on it, too */
    char host[HF__WHERE_TEXT];
    bool any_changed;
    uint8_t changed[HF__SLOT_COUNT / 8]; /* since the last hf__slot_map_take_changed */
    uint8_t taken[HF__SLOT_COUNT / 8];   /* what that call took */
} hf__slot_map;

/* False: out of memory. hf__slot_map_fini may be called in any case. */
bool hf__slot_map_init(hf__slot_map *m);
void hf__slot_map_fini(hf__slot_map *m);

/* Take ownership of a map that came from the node at this host. True: a slot has moved. */
bool hf__slot_map_adopt(hf__slot_map *m, hf__cluster_slots *next, const char *host);

/* The owner of a slot: "host:port" in `out`; false: not known. */
bool hf__slot_map_owner(const hf__slot_map *m, unsigned slot, char out[HF__WHERE_TEXT]);

/* Whether a node has slots. */
bool hf__slot_map_has(const hf__slot_map *m, const char *where);

/* A node answered that this slot has moved to `where`. */
void hf__slot_map_moved(hf__slot_map *m, unsigned slot, const char *where);

/* The connection to this node was replaced by a new one. */
void hf__slot_map_node_changed(hf__slot_map *m, const char *where);

/* Take the set of changed slots: hf__slot_map_was_changed then reports these. False: none. */
bool hf__slot_map_take_changed(hf__slot_map *m);
bool hf__slot_map_was_changed(const hf__slot_map *m, unsigned slot);

/* The full address of `where`, with `host` added if it has none; and the host of an address. */
void hf__where_full(char out[HF__WHERE_TEXT], const char *host, const char *where);
void hf__where_host(char out[HF__WHERE_TEXT], const char *where);

#endif
