/* SPDX-License-Identifier: Apache-2.0 */
#include "world/link.h"

#include <stdlib.h>

#include "base/error.h"
#include "world/client.h"
#include "world/world.h"

#define PAUSE       HF__MS
#define RETRY_FIRST (20 * HF__MS)
#define RETRY_MOST  (2 * HF__SEC)

void sim_link_wake(sim_link *l) {
    sim_client_wake(l->client);
}

static void close_wire(sim_link *l) {
    if (l->wire) sim_wire_close(l->wire);
    l->wire = NULL;
}

static void fail_link(sim_link *l, hf_result result, char *detail, hf__time now) {
    free(l->down_detail);
    l->down_detail = detail;
    l->down_result = result;
    l->table->broke(l->half);
    hf__time wait = l->failures < 10 ? RETRY_FIRST << l->failures : RETRY_MOST;
    l->failures++;
    l->retry_at = now + hf__jitter(&l->rand, hf__sooner(wait, RETRY_MOST));
    close_wire(l);
    l->state = SIM_LINK_IDLE;
}

/* ---- Reading and writing ---- */

static void came_up(sim_link *l) {
    l->state = SIM_LINK_UP;
    l->failures = 0;
    l->down_result = HF_OK;
    free(l->down_detail);
    l->down_detail = NULL;
}

static void take_bytes(sim_link *l, hf__time now) {
    hf__buffer came = l->wire->arrived;
    char *detail = NULL;
    hf__buffer_init(&l->wire->arrived, RM_BYTES_MAX);
    l->fed_at = now;
    hf_result r = l->table->feed(l->half, came.data, came.length, now, &detail);
    hf__buffer_fini(&came);
    if (r)
        fail_link(l, r, detail, now);
    else if (l->state == SIM_LINK_LOGIN && l->table->ready(l->half))
        came_up(l);
}

void sim_link_read(sim_link *l, hf__time now) {
    if (!l->wire) return;
    if (l->state == SIM_LINK_CONNECTING && l->wire->open) {
        l->state = SIM_LINK_LOGIN;
        hf_result r = l->table->begin(l->half, now);
        if (r) fail_link(l, r, NULL, now);
    }
    if (l->wire && l->wire->arrived.length) take_bytes(l, now);
    if (l->wire && l->wire->broken)
        fail_link(l, HF_UNREACHABLE, hf__line("the connection broke"), now);
}

bool sim_link_readable(const sim_link *l) {
    const sim_wire *wire = l->wire;
    return wire && (wire->arrived.length || wire->broken ||
                    (wire->open && l->state == SIM_LINK_CONNECTING));
}

/* After a pause, read before writing: see must_read_first in link.c of the store. */
static bool must_look(const sim_link *l, hf__time now) {
    return l->state == SIM_LINK_UP && l->table->must_look(l->half) && now - l->fed_at > PAUSE;
}

void sim_link_flush(sim_link *l, hf__time now) {
    if (must_look(l, now)) sim_link_read(l, now);
    if (l->state != SIM_LINK_LOGIN && l->state != SIM_LINK_UP) return;
    hf__buffer *out = l->table->out(l->half);
    if (!out->length) return;
    sim_wire_send(l->wire, out->data, out->length);
    hf__buffer_cut(out, 0);
    l->table->sent(l->half);
}

/* ---- Time ---- */

static void try_connect(sim_link *l, hf__time now) {
    l->attempt_until = hf__after_ms(now, l->connect_ms);
    l->state = SIM_LINK_CONNECTING;
    l->wire = sim_wire_open(l->client->world, l);
}

static hf__time answer_due(const sim_link *l) {
    hf__time since = l->table->waits_since(l->half);
    return since == HF__NEVER ? HF__NEVER : hf__after_ms(since, l->command_ms);
}

void sim_link_renew(sim_link *l, hf__time now) {
    fail_link(l, HF_UNREACHABLE, NULL, now);
    l->retry_at = now;
    l->failures = 0;
}

void sim_link_tick(sim_link *l, hf__time now) {
    switch (l->state) {
    case SIM_LINK_IDLE:
        if (now >= l->retry_at) try_connect(l, now);
        break;
    case SIM_LINK_CONNECTING:
    case SIM_LINK_LOGIN:
        if (now >= l->attempt_until)
            fail_link(l, HF_UNREACHABLE, hf__line("connecting took too long"), now);
        break;
    case SIM_LINK_UP:
        if (now >= answer_due(l) && !l->wire->arrived.length)
            fail_link(l, HF_UNREACHABLE, hf__line("no answer came in time"), now);
        else
            l->table->tick(l->half, now);
        break;
    case SIM_LINK_SHUT: break;
    }
}

hf__time sim_link_due(const sim_link *l) {
    switch (l->state) {
    case SIM_LINK_IDLE: return l->retry_at;
    case SIM_LINK_CONNECTING:
    case SIM_LINK_LOGIN: return l->attempt_until;
    case SIM_LINK_UP: return hf__sooner(answer_due(l), l->table->due(l->half));
    case SIM_LINK_SHUT: break;
    }
    return HF__NEVER;
}

/* ---- The end ---- */

void sim_link_shut(sim_link *l) {
    l->table->broke(l->half);
    close_wire(l);
    l->state = SIM_LINK_SHUT;
}

void sim_link_fini(sim_link *l) {
    close_wire(l);
    free(l->down_detail);
}
