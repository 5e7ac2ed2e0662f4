/* SPDX-License-Identifier: Apache-2.0 */
#include "world/server.h"

#include <stdio.h>

#include "model/command.h"
#include "world/client.h"
#include "world/probe.h"

#define EPOCH_US INT64_C(1794777709466788)

static int64_t now_us(const sim_world *w) {
    return EPOCH_US + sim_shows(&w->server_clock, w->now) / 1000 + w->stepped_us;
}

void sim_server_clock(sim_world *w) {
    w->server.now_us = now_us(w);
}

int64_t sim_server_ms(const sim_world *w) {
    return now_us(w) / 1000;
}

/* ---- Messages ---- */

static void note_message(void *arg, rm_bytes channel, rm_bytes message) {
    sim_world *w = arg;
    sim_message *noted = &w->recent[w->recent_count++ % SIM_RECENT];
    snprintf(noted->channel, sizeof noted->channel, "%s", channel.at);
    snprintf(noted->text, sizeof noted->text, "%s", message.at);
    SIM_LOG(w, SIM_ANY, "server  publishes to %s: %s", channel.at, message.at);
}

void sim_server_echo(sim_world *w) {
    if (!w->recent_count) return;
    unsigned count = w->recent_count < SIM_RECENT ? w->recent_count : SIM_RECENT;
    const sim_message *noted = &w->recent[sim_draw(w, count)];
    SIM_LOG(w, SIM_ANY, "server  repeats a message to %s: %s", noted->channel, noted->text);
    rm_publish(&w->server, rm_text(noted->channel), rm_text(noted->text));
    sim_net_answers(w);
}

static void grant_of_old(sim_world *w, const sim_client *c, const hf__entry *e, int name) {
    const hf__wait *wait = e->waits.first;
    char channel[SIM_MESSAGE], text[SIM_MESSAGE];
    if (!wait || !wait->acquire_id || !c->core.link || wait->first_link == c->core.link) return;
    sim_probe_channel(channel, sizeof channel, c->slot, c->number);
    sim_probe_grant(text, sizeof text, wait->acquire_id, now_us(w), wait->lease_ms);
    SIM_LOG(w, name, "another server  publishes to %s: %s", channel, text);
    rm_publish(&w->server, rm_text(channel), rm_text(text));
}

static void grants_of_old(sim_world *w, const sim_client *c, int name) {
    const hf__entry *e = c->life == SIM_RUNNING ? sim_client_entry(c, name) : NULL;
    if (!e) return;
    grant_of_old(w, c, e, name);
    for (const hf__entry *side = e->sides.first; side; side = side->side.next)
        grant_of_old(w, c, side, name);
}

void sim_server_old_grants(sim_world *w) {
    for (int slot = 0; slot < w->plan.clients; slot++)
        for (int name = 0; name < w->plan.names; name++) grants_of_old(w, w->clients[slot], name);
    sim_net_answers(w);
}

static void messages_again(void *arg) {
    sim_world *w = arg;
    SIM_LOG(w, SIM_ANY, "server  permits publishing again");
    w->server.refused = NULL;
}

void sim_server_no_messages(sim_world *w, hf__time span) {
    SIM_LOG(w, SIM_ANY, "server  forbids publishing until %.3f ms",
            (double)(w->now + span) / HF__MS);
    w->server.refused = "publish";
    sim_at(w, &w->message_event, w->now + span);
}

/* A monitor subscribes to everything, so PUBLISH counts one receiver too many on every channel. */
static void connect_monitor(sim_world *w) {
    static const char subscribe[] = "*2\r\n$10\r\nPSUBSCRIBE\r\n$1\r\n*\r\n";
    if (!(w->plan.faults & SIM_MONITOR)) return;
    rm_feed(rm_connect(&w->server, NULL), subscribe, sizeof subscribe - 1);
}

/* ---- Restarts ---- */

static void comes_back(void *arg) {
    sim_world *w = arg;
    SIM_LOG(w, SIM_ANY, "server  is back");
    w->server_down = false;
    connect_monitor(w);
}

void sim_server_restart(sim_world *w, bool keep_keys, hf__time away) {
    SIM_LOG(w, SIM_ANY, "server  restarts %s its data, away until %.3f ms",
            keep_keys ? "with" : "without", (double)(w->now + away) / HF__MS);
    rm_restart(&w->server, keep_keys);
    sim_net_server_gone(w);
    w->server_down = true;
    sim_at(w, &w->server_event, w->now + away);
    if (!keep_keys) sim_checks_data_lost(w, SIM_ANY);
}

/* ---- Time ---- */

void sim_server_stall(sim_world *w, hf__time span) {
    SIM_LOG(w, SIM_ANY, "server  stalls until %.3f ms", (double)(w->now + span) / HF__MS);
    w->server_stalled_until = w->now + span;
}

void sim_server_step(sim_world *w, int64_t by_us) {
    SIM_LOG(w, SIM_ANY, "server  its clock is stepped by %.3f ms", (double)by_us / 1000);
    w->stepped_us += by_us;
    sim_checks_stepped(w, by_us);
}

/* ---- Memory ---- */

static void memory_is_free(void *arg) {
    sim_world *w = arg;
    SIM_LOG(w, SIM_ANY, "server  has memory again");
    w->server.memory_full = false;
}

void sim_server_memory(sim_world *w, hf__time full_for) {
    SIM_LOG(w, SIM_ANY, "server  is out of memory until %.3f ms",
            (double)(w->now + full_for) / HF__MS);
    w->server.memory_full = true;
    sim_at(w, &w->memory_event, w->now + full_for);
}

/* ---- Data ---- */

void sim_server_flush(sim_world *w) {
    SIM_LOG(w, SIM_ANY, "server  FLUSHALL");
    for (int i = 0; i < RM_DATABASES; i++) rm_keys_clear(&w->server.db[i]);
    sim_checks_data_lost(w, SIM_ANY);
}

void sim_server_delete(sim_world *w, int name) {
    char key[32];
    snprintf(key, sizeof key, "hf:{%s}", sim_names[name]);
    SIM_LOG(w, name, "server  DEL %s, by hand", key);
    sim_server_clock(w);
    rm_key *found = rm_look(&w->server, key);
    if (found) rm_keys_remove(&w->server.db[0], found);
    sim_checks_data_lost(w, name);
}

void sim_server_spoil(sim_world *w, int name, hf__time span) {
    SIM_LOG(w, name, "server  other data replaces the fence of %s until %.3f ms", sim_names[name],
            (double)(w->now + span) / HF__MS);
    sim_probe_spoil(w, name, span / HF__MS + 1);
    sim_checks_data_lost(w, name);
}

void sim_server_forget_scripts(sim_world *w) {
    SIM_LOG(w, SIM_ANY, "server  SCRIPT FLUSH");
    rm_scripts_forget(&w->server);
}

/* ---- Beginning and end ---- */

void sim_server_init(sim_world *w) {
    rm_init(&w->server);
    w->server.watch = sim_checks_ran;
    w->server.watch_arg = w;
    w->server_event = (sim_event){.fn = comes_back, .arg = w};
    w->server.on_publish = note_message;
    w->memory_event = (sim_event){.fn = memory_is_free, .arg = w};
    w->message_event = (sim_event){.fn = messages_again, .arg = w};
    connect_monitor(w);
}

void sim_server_calm(sim_world *w) {
    w->server_stalled_until = 0;
    if (w->server_down) sim_at(w, &w->server_event, w->now);
    if (w->server.memory_full) sim_at(w, &w->memory_event, w->now);
    if (w->server.refused) sim_at(w, &w->message_event, w->now);
}
