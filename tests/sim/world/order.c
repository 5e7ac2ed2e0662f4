/* SPDX-License-Identifier: Apache-2.0 */
#include "world/order.h"

#include "world/client.h"
#include "world/kinds.h"

#define PASSED_MOST 1

/* A client whose grant expired before it received the message has had its turn. */
static bool was_granted(const sim_world *w, const sim_client *c, int name, uint64_t acquire_id) {
    const sim_seen *seen = &w->checks.names[name].seen;
    return seen->held && seen->slot == c->slot && seen->number == c->number &&
           seen->acquire_id == acquire_id;
}

static bool is_queued(const sim_world *w, const sim_client *c, int name) {
    if (!c || c->life != SIM_RUNNING) return false;
    const hf__entry *e = sim_client_entry(c, name);
    /* A client without messages is passed over. */
    bool listens = c->store.links[SIM_MESSAGES].state == SIM_LINK_UP;
    return listens && e && e->waits.first && e->waits.first->queued_until > sim_client_now(c) &&
           !was_granted(w, c, name, e->waits.first->acquire_id);
}

void sim_order_look(sim_world *w) {
    for (int slot = 0; slot < SIM_SLOTS; slot++)
        for (int name = 0; name < w->plan.names; name++) {
            if (sim_kinds_name(w, name)) continue;
            sim_passed *state = &w->checks.passed[slot][name];
            bool now = is_queued(w, w->clients[slot], name);
            if (now && !state->queued) *state = (sim_passed){0};
            state->queued = now;
        }
}

void sim_order_entered(sim_world *w, const sim_client *c, int name) {
    for (int slot = 0; w->plan.fair && slot < SIM_SLOTS; slot++) {
        sim_passed *state = &w->checks.passed[slot][name];
        if (slot == c->slot || !state->queued || ++state->passed[c->slot] <= PASSED_MOST) continue;
        sim_fail(w, name, "client %d got %s %d times while client %d was queued", c->slot,
                 sim_names[name], state->passed[c->slot], slot);
    }
}
