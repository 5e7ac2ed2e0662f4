/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which cluster node serves which slot: the reply to CLUSTER SLOTS, as it is parsed, in memory of a
 * fixed size. Nodes are identified by the "host:port" in the reply; an empty host means the host
 * that was asked. Slots of nodes that do not fit have no owner here: any node then redirects the
 * command.
 */
#ifndef HF_STORE_REDIS_PROTOCOL_CLUSTER_SLOTS_H
#define HF_STORE_REDIS_PROTOCOL_CLUSTER_SLOTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HF__SLOT_COUNT 16384
#define HF__SLOT_NODES 1000 /* primaries: the most that Redis recommends */
#define HF__SLOT_TEXT  32768

typedef struct hf__cluster_slots {
    uint16_t owner[HF__SLOT_COUNT]; /* from 1, see hf__cluster_slots_node; 0: unknown */
    unsigned nodes;
    uint32_t at[HF__SLOT_NODES]; /* offset of each node in `text` */
    uint32_t used;
    char text[HF__SLOT_TEXT];

    /* the range that is being parsed */
    int64_t first, last;
    size_t host_length;
    bool good_host;
} hf__cluster_slots;

void hf__cluster_slots_clear(hf__cluster_slots *s);

/* "host:port" of the node that serves the slot; NULL: unknown. */
const char *hf__cluster_slots_owner(const hf__cluster_slots *s, unsigned slot);

/* Assigns the slot to a node, whichever node had it. */
void hf__cluster_slots_set(hf__cluster_slots *s, unsigned slot, const char *where);

/* The value of `owner` for the slots of this node; 0: the node is unknown. */
unsigned hf__cluster_slots_node(const hf__cluster_slots *s, const char *where);

/* Parts of the reply, in order: a range begins; its first (item 0) and last slot (item 1); host and
   port of its primary. */
void hf__cluster_slots_range(hf__cluster_slots *s);
void hf__cluster_slots_number(hf__cluster_slots *s, int item, int64_t number);
void hf__cluster_slots_host(hf__cluster_slots *s, const char *host, size_t length);
void hf__cluster_slots_port(hf__cluster_slots *s, int64_t port);

#endif
