/*
 * Which node has which slot, as was said last; and which slots are not where they were, or on another connection than
 * they were, so that whoever has something in them looks again. Pure.
 *
 * What one says may be old: a node that was cut off from the others names owners that are none any more. Those say so
 * themselves (MOVED), or do not answer; then another node is asked.
 */
#ifndef HF_STORE_CLUSTER_MAP_H
#define HF_STORE_CLUSTER_MAP_H

#include "store/redis/protocol/cluster_slots.h"

#define HF__WHERE_TEXT 300 /* "host:port" */

typedef struct hf__slot_map {
    bool known;
    hf__cluster_slots *now;
    char host[HF__WHERE_TEXT]; /* of whom `now` is: those without a host are there, too */
    bool any_changed;
    uint8_t changed[HF__SLOT_COUNT / 8]; /* since the last telling */
    uint8_t taken[HF__SLOT_COUNT / 8];   /* what is being told */
} hf__slot_map;

/* False: no memory. hf__slot_map_fini is allowed all the same. */
bool hf__slot_map_init(hf__slot_map *m);
void hf__slot_map_fini(hf__slot_map *m);

/* Take what has come in, from the node at this host. Whether anything is elsewhere than it was. */
bool hf__slot_map_adopt(hf__slot_map *m, hf__cluster_slots *next, const char *host);

/* Where a slot is: "host:port" in `out`; false: not known. */
bool hf__slot_map_owner(const hf__slot_map *m, unsigned slot, char out[HF__WHERE_TEXT]);

/* Whether a node has slots. */
bool hf__slot_map_has(const hf__slot_map *m, const char *where);

/* A node said that a slot is there. */
void hf__slot_map_moved(hf__slot_map *m, unsigned slot, const char *where);

/* The connection to this node is another one. */
void hf__slot_map_node_changed(hf__slot_map *m, const char *where);

/* Take what has changed: from now on hf__slot_map_was_changed is true of that. False: nothing was. */
bool hf__slot_map_take_changed(hf__slot_map *m);
bool hf__slot_map_was_changed(const hf__slot_map *m, unsigned slot);

/* "host:port" → host; and, of one without a host, put that of `host` before it. */
void hf__where_full(char out[HF__WHERE_TEXT], const char *host, const char *where);
void hf__where_host(char out[HF__WHERE_TEXT], const char *where);

#endif
