/* SPDX-License-Identifier: Apache-2.0 */
#include "world/probe.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "world/client.h"
#include "world/server.h"

#define PREFIX "hf:{"

static const char *const locks[SIM_NAMES] = {"hf:{a}", "hf:{b}", "hf:{c}"};

static rm_key *lock_of(sim_world *w, int name) {
    sim_server_clock(w);
    return rm_look(&w->server, locks[name]);
}

static const char *find_field(const rm_key *key, const char *name) {
    int64_t at = rm_index(key, rm_text(name));
    return at < 0 ? NULL : key->items[at].value.at;
}

/* Reads hexadecimal digits: see sim_client_uuid. */
static int read_hex(const char *at, int length) {
    int n = 0;
    for (; length > 0; length--, at++) n = n * 16 + (*at <= '9' ? *at - '0' : *at - 'a' + 10);
    return n;
}

sim_seen sim_probe(sim_world *w, int name) {
    sim_seen seen = {0};
    const rm_key *key = lock_of(w, name);
    if (!key || key->type != RM_HASH) return seen;
    const char *holder = find_field(key, "n"), *token = find_field(key, "t");
    if (!holder || !token || strlen(holder) < HF__UUID_LENGTH + 2 || holder[HF__UUID_LENGTH] != ':')
        sim_fail(w, name, "the lock's key has unexpected data");
    return (sim_seen){.held = true,
                      .slot = read_hex(holder, 8),
                      .number = read_hex(holder + HF__UUID_LENGTH - 7, 7),
                      .acquire_id = strtoull(holder + HF__UUID_LENGTH + 1, NULL, 10),
                      .token = strtoull(token, NULL, 10),
                      .expires_ms = key->expires_ms};
}

int64_t sim_probe_count(sim_world *w, int name, const char *client, const char *owner) {
    char text[128];
    const rm_key *key = lock_of(w, name);
    if (!key) return -1;
    snprintf(text, sizeof text, "%s:%s", client, owner);
    const char *count = find_field(key, text);
    return count ? strtoll(count, NULL, 10) : -1;
}

/* ---- Several holders ---- */

static sim_holder holder_of(const char *id) {
    return (sim_holder){.slot = read_hex(id, 8),
                        .number = read_hex(id + HF__UUID_LENGTH - 7, 7),
                        .acquire_id = strtoull(id + HF__UUID_LENGTH + 1, NULL, 10),
                        .side = id[HF__UUID_LENGTH] == '#'};
}

static uint64_t number_field(const rm_key *key, const char *name) {
    const char *value = find_field(key, name);
    return value ? strtoull(value, NULL, 10) : 0;
}

/* Reads the exclusive holder. */
static void read_alone(sim_world *w, int name, const rm_key *key, sim_holding *holding) {
    const char *id = find_field(key, "n"), *kind = find_field(key, "k");
    sim_holder h = holder_of(id);
    h.token = number_field(key, "t");
    h.before = number_field(key, "o");
    h.kind = kind ? *kind : 'm';
    h.ends_us = key->expires_ms * 1000 + 999;
    for (size_t i = 0; i < key->count; i++)
        if (key->items[i].text.length > 1) h.count = strtoll(key->items[i].value.at, NULL, 10);
    if (!h.token || (h.side ? h.kind != 'w' && h.kind != 'g' : h.kind != 'm'))
        sim_fail(w, name, "%s has an exclusive holder of kind %c", sim_names[name], h.kind);
    holding->at[holding->count++] = h;
}

static void read_holders(sim_world *w, int name, const rm_key *key, sim_holding *holding) {
    const char *multi_acquire = find_field(key, "k"), *upgrades = find_field(key, "g");
    int64_t used = 0, first = INT64_MAX, used_said = (int64_t)number_field(key, "u");
    bool upgrades_held = !upgrades;
    char kind = multi_acquire ? *multi_acquire : '?';
    if (kind == 'p') holding->capacity = (uint32_t)strtoul(multi_acquire + 1, NULL, 10);
    for (size_t i = 0; i < key->count; i++) {
        const char *id = key->items[i].text.at;
        if (!strchr(id, '#')) continue;
        sim_holder h = holder_of(id);
        if (sscanf(key->items[i].value.at, "%" SCNd64 " %" SCNu32 " %*s %" SCNd64 " %" SCNu64,
                   &h.ends_us, &h.weight, &h.count, &h.token) != 4)
            sim_fail(w, name, "a holder of %s has unexpected data", sim_names[name]);
        bool may = upgrades && !strcmp(upgrades, id);
        h.kind = may ? 'u' : kind;
        upgrades_held |= may;
        used += h.weight;
        if (h.ends_us < first) first = h.ends_us;
        if (h.ends_us > key->expires_ms * 1000 + 1000)
            sim_fail(w, name, "a holder of %s outlasts the key by %" PRId64 " us", sim_names[name],
                     h.ends_us - key->expires_ms * 1000);
        if (h.ends_us < w->server.now_us) continue;
        if (holding->count == SIM_HOLDERS)
            sim_fail(w, name, "%s has too many holders", sim_names[name]);
        holding->at[holding->count++] = h;
    }
    if (used != used_said)
        sim_fail(w, name, "%" PRId64 " of %s are in use, but its count is %" PRId64, used,
                 sim_names[name], used_said);
    if ((kind != 'r' && kind != 'p') || (kind == 'p' && used > holding->capacity))
        sim_fail(w, name, "%" PRId64 " of %s are in use, but the capacity is %" PRIu32 ", kind %c",
                 used, sim_names[name], holding->capacity, kind);
    if (!upgrades_held)
        sim_fail(w, name, "the upgradable holder of %s does not hold it", sim_names[name]);
    if ((int64_t)number_field(key, "e") > first)
        sim_fail(w, name, "a holder of %s expires before the earliest recorded expiry",
                 sim_names[name]);
}

void sim_probe_holding(sim_world *w, int name, sim_holding *holding) {
    const rm_key *key = lock_of(w, name);
    holding->count = holding->capacity = 0;
    if (!key || key->type != RM_HASH) return;
    const char *holder = find_field(key, "n");
    if (!holder) sim_fail(w, name, "the lock's key has unexpected data");
    if (*holder == '*')
        read_holders(w, name, key, holding);
    else
        read_alone(w, name, key, holding);
}

/* ---- The queue ---- */

static void key_of(char *out, size_t size, int name, const char *suffix) {
    snprintf(out, size, "%s%s", locks[name], suffix);
}

static bool has_mark(const char *text, const char *mark) {
    const char *at = text ? strchr(text, ' ') : NULL;
    return at && !strncmp(at, mark, strlen(mark));
}

/* `pN/M`, or one letter. */
static char read_spec(const char *spec, uint32_t *weight, uint32_t *capacity) {
    *weight = 1;
    *capacity = 0;
    if (*spec == 'p') (void)sscanf(spec, "p%" SCNu32 "/%" SCNu32, weight, capacity);
    return *spec > ' ' ? *spec : 'm';
}

/* Reads a queue entry, or client:acquire_id alone. */
static sim_waiter read_waiter(const char *entry) {
    char *end;
    sim_waiter s = {.slot = read_hex(entry, 8),
                    .number = read_hex(entry + HF__UUID_LENGTH - 7, 7),
                    .acquire_id = strtoull(entry + HF__UUID_LENGTH + 1, &end, 10),
                    .side = entry[HF__UUID_LENGTH] == '#',
                    .kind = 'm'};
    const char *lease = *end ? strchr(end + 1, ' ') : NULL;
    if (!lease) return s;
    (void)strtoull(lease + 1, &end, 10);
    s.kind = read_spec(end, &s.weight, &s.capacity);
    return s;
}

bool sim_probe_same_position(const sim_waiter *a, const sim_waiter *b) {
    return a->slot == b->slot && a->number == b->number && a->side == b->side &&
           (!a->side || a->acquire_id == b->acquire_id);
}

static void read_note(const rm_key *notes, sim_waiter *s) {
    char uuid[HF__UUID_LENGTH + 1], key[HF__UUID_LENGTH + 24];
    sim_client_uuid(uuid, s->slot, s->number);
    snprintf(key, sizeof key, s->side ? "%s#%" PRIu64 : "%s", uuid, s->acquire_id);
    const char *said = find_field(notes, key);
    if (said) sscanf(said, "%" SCNd64 " %" SCNd64, &s->seen_us, &s->since_us);
}

void sim_probe_queue(sim_world *w, int name, sim_queue *queue) {
    char text[32];
    const rm_key *lock = lock_of(w, name);
    queue->lock_says = lock && lock->type == RM_HASH && has_mark(find_field(lock, "n"), " q");
    key_of(text, sizeof text, name, ":f");
    const rm_key *fence = rm_look(&w->server, text);
    queue->fence_says =
        fence && fence->type == RM_STRING && has_mark(fence->items[0].text.at, " q");
    key_of(text, sizeof text, name, ":q");
    const rm_key *entries = rm_look(&w->server, text);
    queue->count = entries ? entries->count : 0;
    if (queue->count > SIM_QUEUE) sim_fail(w, name, "%s has too many waiters", text);
    for (size_t i = 0; i < queue->count; i++) queue->at[i] = read_waiter(entries->items[i].text.at);
    key_of(text, sizeof text, name, ":i");
    const rm_key *notes = rm_look(&w->server, text);
    for (size_t i = 0; notes && i < queue->count; i++) read_note(notes, &queue->at[i]);
}

void sim_probe_channel(char *out, size_t size, int slot, int number) {
    char uuid[HF__UUID_LENGTH + 1];
    sim_client_uuid(uuid, slot, number);
    snprintf(out, size, "hf:c:%s", uuid);
}

bool sim_probe_listens(const sim_world *w, int slot, int number) {
    char channel[64];
    sim_probe_channel(channel, sizeof channel, slot, number);
    for (const rm_conn *conn = w->server.conns; conn; conn = conn->next)
        for (size_t i = 0; i < conn->subscribed; i++)
            if (!conn->channels[i].pattern && rm_is(conn->channels[i].name, channel)) return true;
    return false;
}

void sim_probe_grant(char *out, size_t size, uint64_t acquire_id, int64_t server_us,
                     int64_t lease_ms) {
    int64_t third = lease_ms / 3 > 2000 ? lease_ms / 3 : 2000;
    if (third > 10000) third = 10000;
    snprintf(out, size, "%" PRIu64 " %" PRId64 " %" PRId64 " %" PRId64, acquire_id, server_us,
             server_us, third < lease_ms ? third : lease_ms);
}

static void remove_key(sim_world *w, int name, const char *suffix) {
    char text[32];
    key_of(text, sizeof text, name, suffix);
    rm_key *key = rm_look(&w->server, text);
    if (key) rm_keys_remove(&w->server.db[0], key);
}

void sim_probe_spoil(sim_world *w, int name, int64_t span_ms) {
    char text[32];
    sim_server_clock(w);
    remove_key(w, name, ":q");
    remove_key(w, name, ":i");
    remove_key(w, name, ":f");
    key_of(text, sizeof text, name, ":f");
    rm_key *key = rm_keys_make(&w->server.db[0], rm_text(text), RM_LIST);
    rm_insert(key, 0, rm_text("no fence"));
    key->expires_ms = sim_server_ms(w) + span_ms;
}

int sim_probe_name(rm_bytes key, bool *is_lock) {
    size_t prefix = strlen(PREFIX);
    *is_lock = false;
    if (key.length <= prefix || memcmp(key.at, PREFIX, prefix) != 0) return SIM_ANY;
    for (int i = 0; i < SIM_NAMES; i++) {
        size_t length = strlen(sim_names[i]), end = prefix + length;
        if (key.length <= end || memcmp(key.at + prefix, sim_names[i], length) != 0) continue;
        if (key.at[end] != '}') continue;
        *is_lock = key.length == end + 1;
        return i;
    }
    return SIM_ANY;
}

/* ---- Scripts ---- */

static bool answered_with(const rm_ran *ran, const char *with) {
    size_t length = strlen(with);
    return ran->answer.length >= length && !memcmp(ran->answer.at, with, length);
}

/* Returns the number at the end of an answer. */
static uint64_t last_number(rm_bytes answer) {
    const char *colon = memrchr(answer.at, ':', answer.length);
    int64_t n = 0;
    if (colon)
        (void)rm_integer((rm_bytes){colon + 1, (size_t)(answer.at + answer.length - colon) - 3},
                         &n);
    return (uint64_t)n;
}

uint64_t sim_probe_next(const rm_ran *ran) {
    if (sim_probe_script(ran->sha1) != &hf__script_shared_release || ran->arg_count <= 6) return 0;
    return strtoull(strrchr(ran->args[4].at, '#') + 1, NULL, 10);
}

sim_effect sim_probe_effect(const rm_ran *ran, uint64_t *token, uint64_t *wanted) {
    const hf__script *script = sim_probe_script(ran->sha1);
    *token = *wanted = 0;
    if (script == &hf__script_acquire && answered_with(ran, "*5\r\n:0\r\n")) {
        *wanted = strtoull(strrchr(ran->args[0].at, ':') + 1, NULL, 10);
        return SIM_BUSY;
    }
    if (script == &hf__script_shared_acquire && answered_with(ran, "*5\r\n:0\r\n") &&
        ran->args[5].at[0] != 'g') {
        *wanted = strtoull(strrchr(ran->args[0].at, '#') + 1, NULL, 10);
        return SIM_BUSY;
    }
    if (sim_probe_next(ran) && answered_with(ran, "*5\r\n:0\r\n")) {
        *wanted = sim_probe_next(ran);
        return SIM_BUSY;
    }
    if (script == &hf__script_shared_renew && answered_with(ran, "*2\r\n:0\r\n")) {
        *token = strtoull(ran->args[4].at, NULL, 10);
        return SIM_DENIED;
    }
    if (script == &hf__script_shared_renew && answered_with(ran, "*3\r\n:1\r\n")) return SIM_KEPT;
    if (script == &hf__script_renew && answered_with(ran, ":-")) {
        *token = strtoull(ran->args[4].at, NULL, 10);
        return SIM_DENIED;
    }
    if (script == &hf__script_renew && answered_with(ran, ":")) return SIM_KEPT;
    if (script == &hf__script_break && answered_with(ran, "*3\r\n:1\r\n")) {
        *token = last_number(ran->answer);
        *wanted = strtoull(ran->args[0].at, NULL, 10);
        return SIM_BROKE;
    }
    return SIM_NO_EFFECT;
}

bool sim_probe_released(const rm_ran *ran, const sim_seen *holder) {
    if (sim_probe_script(ran->sha1) != &hf__script_release || answered_with(ran, ":0"))
        return false;
    sim_waiter actor = read_waiter(ran->args[0].at);
    return actor.slot == holder->slot && actor.number == holder->number &&
           actor.acquire_id >= holder->acquire_id;
}

bool sim_probe_of_many(const rm_ran *ran) {
    return sim_probe_script(ran->sha1) == &hf__script_acquire_all;
}

bool sim_probe_acquired_all(const rm_ran *ran) { /* two or three names */
    return sim_probe_of_many(ran) &&
           (answered_with(ran, "*4\r\n:1\r\n") || answered_with(ran, "*5\r\n:1\r\n"));
}

/* Returns the index of the argument with the acquire id that the script acts for on this name. */
static size_t actor_at(const rm_ran *ran, int name) {
    bool is_lock;
    for (size_t i = 0; sim_probe_of_many(ran) && i < ran->key_count; i += 4)
        if (sim_probe_name(ran->keys[i], &is_lock) == name) return 5 + i / 2;
    return 0;
}

bool sim_probe_actor(const rm_ran *ran, int name, int *slot, int *number, uint64_t *acquire_id) {
    const hf__script *script = sim_probe_script(ran->sha1);
    if (script != &hf__script_acquire && script != &hf__script_release &&
        script != &hf__script_shared_acquire && script != &hf__script_shared_renew &&
        script != &hf__script_shared_release && script != &hf__script_renew &&
        script != &hf__script_acquire_all)
        return false;
    sim_waiter actor = read_waiter(ran->args[actor_at(ran, name)].at);
    *slot = actor.slot;
    *number = actor.number;
    *acquire_id = actor.acquire_id;
    return true;
}

bool sim_probe_succeeds(const rm_ran *ran) {
    return sim_probe_script(ran->sha1) == &hf__script_acquire && ran->arg_count > 6 &&
           rm_is(ran->args[6], "2");
}

bool sim_probe_is_acquire(const rm_ran *ran) {
    const hf__script *script = sim_probe_script(ran->sha1);
    return script == &hf__script_acquire || script == &hf__script_shared_acquire ||
           script == &hf__script_acquire_all;
}

bool sim_probe_failed(const rm_ran *ran) {
    return answered_with(ran, "-");
}

const hf__script *sim_probe_script(const char *sha1) {
    for (size_t i = 0; sim_scripts[i]; i++)
        if (!strcmp(sim_scripts[i]->sha1, sha1)) return sim_scripts[i];
    return NULL;
}
