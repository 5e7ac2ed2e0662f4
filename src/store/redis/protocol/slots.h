/*
 * Which node of a cluster has which slot: the answer to CLUSTER SLOTS, as it is parsed, in memory of a fixed
 * size. Nodes are known by "host:port" as they are said, where an empty host is that of who was asked. What
 * does not fit is nobody's: whoever is asked for it then says where it is.
 */
#ifndef HF_STORE_REDIS_PROTOCOL_SLOTS_H
#define HF_STORE_REDIS_PROTOCOL_SLOTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HF__SLOTS      16384
#define HF__SLOT_NODES 1000 /* with a slot of their own: what Redis recommends at most */
#define HF__SLOT_TEXT  32768

typedef struct hf__slots {
    uint16_t owner[HF__SLOTS]; /* from 1, see hf__slots_owner; 0: nobody */
    unsigned nodes;
    uint32_t at[HF__SLOT_NODES]; /* where in `text` each begins */
    uint32_t used;
    char text[HF__SLOT_TEXT];

    /* the range that is coming in */
    int64_t first, last;
    size_t host_length;
    bool good_host;
} hf__slots;

void hf__slots_clear(hf__slots *s);

/* "host:port" of who has it; NULL: nobody that is known. */
const char *hf__slots_owner(const hf__slots *s, unsigned slot);

/* It is there, whoever had it. */
void hf__slots_set(hf__slots *s, unsigned slot, const char *where);

/* What `owner` says of the slots of a node; 0: it is not known. */
unsigned hf__slots_node(const hf__slots *s, const char *where);

/* Parts of the answer, as they come: a range begins; its first (item 0) and last slot (item 1); host and
   port of its primary. */
void hf__slots_range(hf__slots *s);
void hf__slots_number(hf__slots *s, int item, int64_t number);
void hf__slots_host(hf__slots *s, const char *host, size_t length);
void hf__slots_port(hf__slots *s, int64_t port);

#endif
