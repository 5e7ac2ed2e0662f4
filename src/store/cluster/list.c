/* SPDX-License-Identifier: Apache-2.0 */
/* Runs hf_list over all nodes, one after the other. A node that joins during the walk is visited as
   well. A name whose slot moves meanwhile may be found twice. */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "store/cluster/cluster_internal.h"

typedef struct cluster_walk {
    unsigned count; /* of visited nodes; the last one is in use */
    char nodes[HF__CLUSTER_NODES_MAX][HF__WHERE_TEXT];
} cluster_walk;

static bool was_visited(const cluster_walk *w, const char *where) {
    for (unsigned i = 0; i < w->count; i++)
        if (!strcmp(w->nodes[i], where)) return true;
    return false;
}

/* Go to the next node that has slots; false: there is none. */
static bool visit_next_node(const hf__cluster *c, cluster_walk *w) {
    for (unsigned slot = 0; slot < HF__SLOT_COUNT && w->count < HF__CLUSTER_NODES_MAX; slot++) {
        char *next = w->nodes[w->count];
        if (hf__slot_map_owner(&c->map, slot, next) && !was_visited(w, next)) {
            w->count++;
            return true;
        }
    }
    return false;
}

hf_result hf__cluster_list_begin(const hf__cluster *c, hf__list_walk *l) {
    if (!l->state) l->state = calloc(1, sizeof(cluster_walk));
    if (!l->state) return HF_NOMEM;
    l->free_state = free;
    cluster_walk *w = l->state;
    return w->count || visit_next_node(c, w) ? HF_OK : HF_UNREACHABLE;
}

const char *hf__cluster_list_at(const hf__list_walk *l) {
    const cluster_walk *w = l->state;
    return w->nodes[w->count - 1];
}

void hf__cluster_listed(const hf__cluster *c, hf__list_walk *l) {
    if (!l->finished || !visit_next_node(c, l->state)) return;
    l->finished = false;
    l->cursor = 0;
    l->last[0] = '\0';
}
