/* SPDX-License-Identifier: Apache-2.0 */
#include "store/redis/protocol/cluster_slots.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define WHERE_MAX 300

void hf__cluster_slots_clear(hf__cluster_slots *s) {
    memset(s->owner, 0, sizeof s->owner);
    s->nodes = 0;
    s->used = 0;
    hf__cluster_slots_range(s);
}

const char *hf__cluster_slots_owner(const hf__cluster_slots *s, unsigned slot) {
    unsigned owner = s->owner[slot];
    return owner ? s->text + s->at[owner - 1] : NULL;
}

unsigned hf__cluster_slots_node(const hf__cluster_slots *s, const char *where) {
    for (unsigned i = 0; i < s->nodes; i++)
        if (!strcmp(s->text + s->at[i], where)) return i + 1;
    return 0;
}

/* Returns the node's index from 1; 0: the table is full. */
static unsigned find_or_add(hf__cluster_slots *s, const char *where) {
    unsigned found = hf__cluster_slots_node(s, where);
    size_t size = strlen(where) + 1;
    if (found) return found;
    if (s->nodes == HF__SLOT_NODES || size > HF__SLOT_TEXT - s->used) return 0;
    memcpy(s->text + s->used, where, size);
    s->at[s->nodes++] = s->used;
    s->used += (uint32_t)size;
    return s->nodes;
}

void hf__cluster_slots_set(hf__cluster_slots *s, unsigned slot, const char *where) {
    s->owner[slot] = (uint16_t)find_or_add(s, where);
}

/* ---- The reply, as it is parsed ---- */

void hf__cluster_slots_range(hf__cluster_slots *s) {
    s->first = s->last = -1;
    s->good_host = false;
}

void hf__cluster_slots_number(hf__cluster_slots *s, int item, int64_t number) {
    if (item == 0) s->first = number;
    if (item == 1) s->last = number;
}

/* The host is stored behind the used part of `text` until its port is known. A server writes an
   unknown host as '?' or as an empty string. */
void hf__cluster_slots_host(hf__cluster_slots *s, const char *host, size_t length) {
    s->good_host = length < WHERE_MAX - 8 && length <= HF__SLOT_TEXT - s->used;
    if (!s->good_host) return;
    if (length == 1 && *host == '?') length = 0;
    memcpy(s->text + s->used, host, length);
    s->host_length = length;
}

void hf__cluster_slots_port(hf__cluster_slots *s, int64_t port) {
    char where[WHERE_MAX];
    if (s->first < 0 || s->last < s->first || s->last >= HF__SLOT_COUNT) return;
    if (port <= 0 || port > 65535 || !s->good_host) return;
    snprintf(where, sizeof where, "%.*s:%" PRId64, (int)s->host_length, s->text + s->used, port);
    unsigned owner = find_or_add(s, where);
    for (int64_t slot = s->first; slot <= s->last; slot++) s->owner[slot] = (uint16_t)owner;
}
