/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A lock state as bytes: see saved_state.h.
 *
 * Version 1. All numbers are big-endian. 24 bytes of head, then one slot of 96 bytes for each
 * holder, in order of tokens, and for each waiter, in order of the queue. Nothing follows.
 *
 *   head   0  4  "HFLS"
 *          4  2  version: 1
 *          6  2  0
 *          8  4  holders, at most 1024
 *         12  4  waiters, at most 1024
 *         16  8  last token
 *
 *   slot   0 16  client: its UUID, or 8 bytes of zeros and its number
 *         16  8  acquire id, from 1 up
 *         24  8  holder: its token; waiter: the highest token that its client has seen
 *         32  8  holder: end of the lease; waiter: when it last repeated its acquire; in
 *                nanoseconds on the engine's clock
 *         40  8  since when it holds or waits, in milliseconds since 1970
 *         48  8  owner
 *         56  8  holder: 0; waiter: the lease that it wants, in milliseconds, at most 30 days
 *         64  4  re-entry count
 *         68  4  permits,  1 to capacity;      0 for other kinds
 *         72  4  capacity, 1 to a million;     0 for other kinds
 *         76  1  kind: 0 mutex, 1 reader, 2 writer, 3 upgradable, 4 permits
 *         77  1  1: the owner's number was chosen by the user; 0: it is a thread's
 *         78 18  0
 *
 * At most 24 + 2048 × 96 = 196632 bytes. An uncontended mutex has 120.
 *
 * A state is accepted only in the form in which it would be saved: hf__lock_state_save returns the
 * bytes that were loaded. Numbers that count time or tokens are below 2^63.
 *
 * There are no optional fields. A program that does not know a field would drop it when it saves
 * the state, and so undo what a newer program relies on. So a new field takes bytes that are 0
 * today, and a new version number. A program saves the lowest version that can express the state,
 * and refuses versions that it does not know. So programs of two versions share a lock until the
 * newer one uses what is new.
 */
#include "store/lock_state/saved_state.h"

#include <stdlib.h>

#define MAGIC    UINT32_C(0x48464c53) /* "HFLS" */
#define VERSION  1
#define RESERVED 18 /* bytes at the end of a slot */

/* A holder or a waiter, as its slot has it. */
typedef struct saved_slot {
    hf__contender contender;
    uint64_t token, time, since, lease;
    uint32_t count;
} saved_slot;

static bool permits_are_valid(const hf__contender *it) {
    if (it->kind != HF_PERMITS) return !it->permits && !it->capacity;
    return it->permits && it->permits <= it->capacity && it->capacity <= HF_PERMITS_MAX;
}

static bool slot_is_valid(const saved_slot *slot) {
    const hf__contender *it = &slot->contender;
    return it->acquire_id && it->kind <= HF_PERMITS && !hf__client_id_is_none(it->client) &&
           permits_are_valid(it) && slot->token <= INT64_MAX && slot->time <= INT64_MAX &&
           slot->since <= INT64_MAX && slot->lease <= HF_LEASE_MAX_MS;
}

/* ---- Saving ---- */

static uint8_t *put_number(uint8_t *at, unsigned size, uint64_t value) {
    for (unsigned i = size; i--; value >>= 8) at[i] = (uint8_t)value;
    return at + size;
}

/* False: it could not be loaded again. */
static bool put_slot(uint8_t **to, saved_slot *slot) {
    hf__contender *it = &slot->contender;
    if (it->kind != HF_PERMITS) it->permits = it->capacity = 0;
    if (!slot_is_valid(slot)) return false;
    uint8_t *at = *to;
    at = put_number(at, 8, it->client.high);
    at = put_number(at, 8, it->client.low);
    at = put_number(at, 8, it->acquire_id);
    at = put_number(at, 8, slot->token);
    at = put_number(at, 8, slot->time);
    at = put_number(at, 8, slot->since);
    at = put_number(at, 8, it->owner.id);
    at = put_number(at, 8, slot->lease);
    at = put_number(at, 4, slot->count);
    at = put_number(at, 4, it->permits);
    at = put_number(at, 4, it->capacity);
    at = put_number(at, 1, it->kind);
    at = put_number(at, 1, it->owner.logical);
    memset(at, 0, RESERVED);
    *to = at + RESERVED;
    return true;
}

static bool put_holder(uint8_t **at, const hf__holder *it) {
    saved_slot slot = {.contender = it->contender,
                       .token = it->token,
                       .time = (uint64_t)it->expires,
                       .since = (uint64_t)it->since_unix_ms,
                       .count = it->count};
    return put_slot(at, &slot);
}

static bool put_waiter(uint8_t **at, const hf__waiter *it) {
    saved_slot slot = {.contender = it->contender,
                       .token = it->seen_token,
                       .time = (uint64_t)it->seen_at,
                       .since = (uint64_t)it->since_unix_ms,
                       .lease = (uint64_t)it->lease_ms,
                       .count = it->count};
    return put_slot(at, &slot);
}

static bool put_state(uint8_t *at, const hf__lock_state *state, uint32_t holders,
                      uint32_t waiters) {
    bool valid = state->last_token <= INT64_MAX;
    at = put_number(at, 4, MAGIC);
    at = put_number(at, 4, (uint64_t)VERSION << 16);
    at = put_number(at, 4, holders);
    at = put_number(at, 4, waiters);
    at = put_number(at, 8, state->last_token);
    for (const hf__holder *it = state->holders; it && valid; it = it->next)
        valid = put_holder(&at, it);
    for (const hf__waiter *it = state->waiters; it && valid; it = it->next)
        valid = put_waiter(&at, it);
    return valid;
}

hf_result hf__lock_state_save(const hf__lock_state *state, hf__buffer *out) {
    uint32_t holders = 0, waiters = 0;
    for (const hf__holder *it = state->holders; it; it = it->next) holders++;
    for (const hf__waiter *it = state->waiters; it; it = it->next) waiters++;
    if (holders > HF__SAVED_HOLDERS_MAX || waiters > HF__SAVED_WAITERS_MAX) return HF_NOMEM;
    size_t length = HF__SAVED_HEAD + (size_t)(holders + waiters) * HF__SAVED_SLOT;
    char *at = hf__buffer_room(out, length);
    if (!at) return HF_NOMEM;
    if (put_state((uint8_t *)at, state, holders, waiters)) return HF_OK;
    hf__buffer_cut(out, out->length - length);
    return HF_INVALID;
}

/* ---- Loading ---- */

static uint64_t take_number(const uint8_t **at, unsigned size) {
    uint64_t value = 0;
    for (unsigned i = 0; i < size; i++) value = value << 8 | *(*at)++;
    return value;
}

static bool take_zeros(const uint8_t **at, unsigned size) {
    bool zero = true;
    while (size--) zero = !*(*at)++ && zero;
    return zero;
}

/* False: no holder and no waiter has such a slot. */
static bool take_slot(const uint8_t **at, saved_slot *slot) {
    hf__contender *it = &slot->contender;
    it->client.high = take_number(at, 8);
    it->client.low = take_number(at, 8);
    it->acquire_id = take_number(at, 8);
    slot->token = take_number(at, 8);
    slot->time = take_number(at, 8);
    slot->since = take_number(at, 8);
    it->owner.id = take_number(at, 8);
    slot->lease = take_number(at, 8);
    slot->count = (uint32_t)take_number(at, 4);
    it->permits = (uint32_t)take_number(at, 4);
    it->capacity = (uint32_t)take_number(at, 4);
    it->kind = (uint32_t)take_number(at, 1);
    uint64_t logical = take_number(at, 1);
    it->owner.logical = logical == 1;
    return take_zeros(at, RESERVED) && logical <= 1 && slot_is_valid(slot);
}

typedef struct saved_head {
    uint32_t holders, waiters;
    uint64_t last_token;
} saved_head;

/* Afterwards the length is right, and no later step needs to check it. */
static hf_result take_head(const uint8_t **at, size_t length, saved_head *head,
                           const char **problem) {
    *problem = "is damaged: its state is too short, or not one of Holdfast";
    if (length < HF__SAVED_HEAD || take_number(at, 4) != MAGIC) return HF_PROTOCOL;
    uint64_t version = take_number(at, 2);
    *problem = "was used by a newer version of Holdfast, which keeps its state in another form";
    if (version > VERSION) return HF_UNSUPPORTED;
    *problem = "is damaged: the head of its state has impossible values";
    if (!version || !take_zeros(at, 2)) return HF_PROTOCOL;
    head->holders = (uint32_t)take_number(at, 4);
    head->waiters = (uint32_t)take_number(at, 4);
    head->last_token = take_number(at, 8);
    if (head->holders > HF__SAVED_HOLDERS_MAX || head->waiters > HF__SAVED_WAITERS_MAX ||
        head->last_token > INT64_MAX)
        return HF_PROTOCOL;
    *problem = "is damaged: its state has another length than its head says";
    if (length != HF__SAVED_HEAD + (size_t)(head->holders + head->waiters) * HF__SAVED_SLOT)
        return HF_PROTOCOL;
    return HF_OK;
}

static hf_result load_holders(hf__lock_state *state, const uint8_t **at, uint32_t count) {
    saved_slot slot;
    for (; count; count--) {
        if (!take_slot(at, &slot) || slot.lease) return HF_PROTOCOL;
        hf__holder *made = hf__lock_state_add_holder(state, &slot.contender);
        if (!made) return HF_NOMEM;
        made->token = slot.token;
        made->expires = (hf__time)slot.time;
        made->since_unix_ms = (int64_t)slot.since;
        made->count = slot.count;
    }
    return hf__lock_state_holders_are_valid(state) ? HF_OK : HF_PROTOCOL;
}

/* The waiters are appended as they are: the queue is not searched for each. */
static hf_result load_waiters(hf__lock_state *state, const uint8_t **at, uint32_t count) {
    saved_slot slot;
    for (hf__waiter **link = &state->waiters; count; count--) {
        if (!take_slot(at, &slot)) return HF_PROTOCOL;
        hf__waiter *made = calloc(1, sizeof *made);
        if (!made) return HF_NOMEM;
        made->contender = slot.contender;
        made->seen_token = slot.token;
        made->seen_at = (hf__time)slot.time;
        made->since_unix_ms = (int64_t)slot.since;
        made->lease_ms = (int64_t)slot.lease;
        made->count = slot.count;
        made->next = *link;
        *link = made;
        link = &made->next;
    }
    return HF_OK;
}

/* ---- No contender occurs twice ---- */

/* Contenders are equal here if a state must not have both: a client has one mutex acquire. */
static int compare_contenders(const void *x, const void *y) {
    const hf__contender *a = *(const hf__contender *const *)x,
                        *b = *(const hf__contender *const *)y;
    bool a_mutex = a->kind == HF_MUTEX, b_mutex = b->kind == HF_MUTEX;
    if (a->client.high != b->client.high) return a->client.high < b->client.high ? -1 : 1;
    if (a->client.low != b->client.low) return a->client.low < b->client.low ? -1 : 1;
    if (a_mutex != b_mutex) return a_mutex ? -1 : 1;
    if (a_mutex || a->acquire_id == b->acquire_id) return 0;
    return a->acquire_id < b->acquire_id ? -1 : 1;
}

static bool occurs_twice(const hf__contender *const *sorted, size_t count) {
    for (size_t i = 1; i < count; i++)
        if (compare_contenders(&sorted[i - 1], &sorted[i]) == 0) return true;
    return false;
}

/* The upgradable holder, of which there is one at most, may also wait as a writer. */
static const hf__contender *find_upgradable(const hf__lock_state *state) {
    const hf__holder *it = state->holders;
    while (it && it->contender.kind != HF_UPGRADABLE) it = it->next;
    return it ? &it->contender : NULL;
}

static bool is_upgrade_of(const hf__contender *upgradable, const hf__contender *waiter) {
    return upgradable && waiter->kind == HF_WRITE && !compare_contenders(&upgradable, &waiter);
}

static hf_result check_contenders(const hf__lock_state *state, const saved_head *head) {
    size_t count = 0, most = head->holders + head->waiters;
    const hf__contender **all = most < 2 ? NULL : malloc(most * sizeof *all);
    if (most < 2) return HF_OK;
    if (!all) return HF_NOMEM;
    const hf__contender *upgradable = find_upgradable(state);
    for (const hf__holder *it = state->holders; it; it = it->next) all[count++] = &it->contender;
    for (const hf__waiter *it = state->waiters; it; it = it->next) {
        bool is_upgrade = is_upgrade_of(upgradable, &it->contender);
        if (is_upgrade) upgradable = NULL; /* it waits once */
        if (!is_upgrade) all[count++] = &it->contender;
    }
    qsort(all, count, sizeof *all, compare_contenders);
    bool twice = occurs_twice(all, count);
    free(all);
    return twice ? HF_PROTOCOL : HF_OK;
}

hf_result hf__lock_state_load(hf__lock_state *state, const void *bytes, size_t length,
                              const char **problem) {
    const uint8_t *at = bytes;
    saved_head head;
    *state = (hf__lock_state){0};
    hf_result r = take_head(&at, length, &head, problem);
    if (r) return r;
    state->last_token = head.last_token;
    r = load_holders(state, &at, head.holders);
    if (!r) r = load_waiters(state, &at, head.waiters);
    if (!r) r = check_contenders(state, &head);
    *problem = r ? "is damaged: its state has an impossible holder or waiter" : NULL;
    if (r == HF_NOMEM) *problem = "cannot be read: no memory is left";
    if (r) hf__lock_state_fini(state);
    return r;
}
