/*
 * Which node of a cluster has which slot: the answer to CLUSTER SLOTS, as it is parsed, in memory of a fixed
 * size. Nodes are known by "host:port" as they are said, where an empty host is that of who was asked. What
 * does not fit is nobody's: whoever is asked for it then says where it is.
 */
#ifndef HF_STORE_REDIS_PROTOCOL_CLUSTER_SLOTS_H
#define HF_STORE_REDIS_PROTOCOL_CLUSTER_SLOTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HF__SLOT_COUNT 16384
#define HF__SLOT_NODES 1000 /* with a slot of their own: what Redis recommends at most */
#define HF__SLOT_TEXT  32768

typedef struct hf__cluster_slots {
    uint16_t owner[HF__SLOT_COUNT]; /* from 1, see hf__cluster_slots_owner; 0: nobody */
    unsigned nodes;
    uint32_t at[HF__SLOT_NODES]; /* where in `text` each begins */
    uint32_t used;
    char text[HF__SLOT_TEXT];

    /* the range that is coming in */
    int64_t first, last;
    size_t host_length;
    bool good_host;
} hf__cluster_slots;

void hf__cluster_slots_clear(hf__cluster_slots *s);

/* "host:port" of who has it; NULL: nobody that is known. */
const char *hf__cluster_slots_owner(const hf__cluster_slots *s, unsigned slot);

/* It is there, whoever had it. */
void hf__cluster_slots_set(hf__cluster_slots *s, unsigned slot, const char *where);

/* What `owner` says of the slots of a node; 0: it is not known. */
unsigned hf__cluster_slots_node(const hf__cluster_slots *s, const char *where);

/* Parts of the answer, as they come: a range begins; its first (item 0) and last slot (item 1); host and
   port of its primary. */
void hf__cluster_slots_range(hf__cluster_slots *s);
void hf__cluster_slots_number(hf__cluster_slots *s, int item, int64_t number);
void hf__cluster_slots_host(hf__cluster_slots *s, const char *host, size_t length);
void hf__cluster_slots_port(hf__cluster_slots *s, int64_t port);

#endif
