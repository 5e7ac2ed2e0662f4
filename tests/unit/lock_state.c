/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The lock state as bytes, and what the memory and file stores do not use of it: hand-over, clients
 * that cannot be reached, limits. The rules themselves are tested in memory_kinds.c.
 */
#include "t.h"

#include <stdio.h>
#include <stdlib.h>

#include "store/lock_state/operations.h"
#include "store/lock_state/saved_state.h"
#include "store/lock_state/token.h"

#define SECOND_MS 1000
#define BEGIN_US  INT64_C(1800000000000000) /* in 2027 */

/* ---- Helpers --------------------------------------------------------------------------------- */

static hf__client_id client_of(uint64_t number) {
    return (hf__client_id){.high = UINT64_C(0x0123456789ab4def), .low = number};
}

static hf__lock_env make_env(int64_t ms) {
    return (hf__lock_env){.now = ms * HF__MS,
                          .unix_us = BEGIN_US + ms * 1000,
                          .token_clock = BEGIN_US + ms * 1000,
                          .waiter_timeout = 60 * HF__SEC,
                          .queued_retry_ms = 7500,
                          .max_holders = HF__SAVED_HOLDERS_MAX,
                          .max_waiters = HF__SAVED_WAITERS_MAX};
}

static hf__op make_op(hf__verb verb, uint64_t acquire_id, uint32_t kind) {
    return (hf__op){.verb = verb,
                    .acquire_id = acquire_id,
                    .kind = kind,
                    .owner = {.id = acquire_id, .logical = true},
                    .count = 1,
                    .lease_ms = 30 * SECOND_MS,
                    .not_after = HF__NEVER};
}

static hf__op apply_op(hf__lock_state *state, const hf__lock_env *env, uint64_t client, hf__op op) {
    op.result = hf__lock_state_apply(state, env, client_of(client), &op);
    return op;
}

static hf__op acquire_lock(hf__lock_state *state, const hf__lock_env *env, uint64_t client,
                           uint64_t acquire_id, uint32_t kind) {
    hf__op op = make_op(HF__ACQUIRE, acquire_id, kind);
    op.enqueue = true;
    if (kind == HF_PERMITS) op.permits = op.capacity = 1;
    return apply_op(state, env, client, op);
}

static hf_result release_lock(hf__lock_state *state, const hf__lock_env *env, uint64_t client,
                              uint64_t acquire_id, uint32_t kind) {
    return apply_op(state, env, client, make_op(HF__RELEASE, acquire_id, kind)).result;
}

static hf__buffer save_state(const hf__lock_state *state) {
    hf__buffer bytes;
    hf__buffer_init(&bytes, HF__SAVED_MAX);
    assert_int_equal(hf__lock_state_save(state, &bytes), HF_OK);
    return bytes;
}

static hf_result load_bytes(hf__lock_state *state, const void *bytes, size_t length) {
    const char *problem = "";
    hf_result r = hf__lock_state_load(state, bytes, length, &problem);
    assert_true((r == HF_OK) == (problem == NULL));
    return r;
}

/* Replaces the state by what its bytes say. */
static void save_and_load(hf__lock_state *state) {
    hf__buffer bytes = save_state(state);
    hf__lock_state_fini(state);
    assert_int_equal(load_bytes(state, bytes.data, bytes.length), HF_OK);
    hf__buffer_fini(&bytes);
}

static void check_same_bytes(const hf__lock_state *a, const hf__lock_state *b) {
    hf__buffer x = save_state(a), y = save_state(b);
    assert_int_equal(x.length, y.length);
    assert_memory_equal(x.data, y.data, x.length);
    hf__buffer_fini(&x);
    hf__buffer_fini(&y);
}

/* A reader that may upgrade and waits for it, another reader, and a queue of each kind. */
static void fill_mixed_state(hf__lock_state *state) {
    hf__lock_env env = make_env(1000);
    hf__op upgrade = make_op(HF__ACQUIRE, 1, HF_UPGRADABLE);
    upgrade.upgrade = upgrade.enqueue = true;
    assert_int_equal(acquire_lock(state, &env, 1, 1, HF_UPGRADABLE).result, HF_OK);
    assert_int_equal(acquire_lock(state, &env, 2, 1, HF_READ).result, HF_OK);
    assert_int_equal(acquire_lock(state, &env, 3, 7, HF_WRITE).result, HF_BUSY);
    assert_int_equal(acquire_lock(state, &env, 4, 9, HF_MUTEX).result, HF_BUSY);
    assert_int_equal(acquire_lock(state, &env, 4, 9, HF_READ).result, HF_BUSY);
    assert_int_equal(acquire_lock(state, &env, 5, 2, HF_PERMITS).result, HF_BUSY);
    assert_int_equal(apply_op(state, &env, 1, upgrade).result, HF_BUSY);
}

/* ---- Ids of clients -------------------------------------------------------------------------- */

static void test_a_client_s_id_keeps_its_uuid(void **unused) {
    (void)unused;
    for (int i = 0; i < 100; i++) {
        char made[HF__UUID_LENGTH + 1], text[HF__UUID_LENGTH + 1];
        hf__uuid_make(made);
        hf__client_id_to_uuid(hf__client_id_of_uuid(made), text);
        assert_string_equal(text, made);
    }
    char text[HF__UUID_LENGTH + 1];
    hf__client_id id = hf__client_id_of_uuid("01234567-89AB-cdef-0123-456789abcdef");
    assert_true(id.high == UINT64_C(0x0123456789abcdef) && id.low == id.high);
    hf__client_id_to_uuid(id, text);
    assert_string_equal(text, "01234567-89ab-cdef-0123-456789abcdef");
}

static void test_only_a_uuid_is_the_id_of_a_client(void **unused) {
    (void)unused;
    static const char *const wrong[] = {"",
                                        "client-1",
                                        "01234567-89ab-cdef-0123-456789abcde",
                                        "01234567-89ab-cdef-0123-456789abcdef0",
                                        "0123456708-9ab-cdef-0123-456789abcdef",
                                        "0123456g-89ab-cdef-0123-456789abcdef"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_true(hf__client_id_is_none(hf__client_id_of_uuid(wrong[i])));
    assert_true(hf__client_id_is_none(hf__client_id_of_number(0)));
    assert_false(hf__client_id_is_none(hf__client_id_of_number(1)));
}

/* ---- Tokens ---------------------------------------------------------------------------------- */

static void test_a_token_is_above_the_last_the_seen_and_the_clock(void **unused) {
    (void)unused;
    assert_int_equal(hf__token_next(0, 0, 0), 1);
    assert_int_equal(hf__token_next(5, 3, 0), 6);
    assert_int_equal(hf__token_next(3, 5, 0), 6);
    assert_int_equal(hf__token_next(5, 5, 6), 6);
    assert_int_equal(hf__token_next(5, 5, 100), 100);
    assert_int_equal(hf__token_next(5, 500, 100), 501);
    assert_int_equal(hf__token_next(5, 3, -100), 6);
}

/* The clock of the server was set back, and the state was saved and loaded meanwhile. */
static void test_tokens_grow_over_a_save_although_the_clock_steps_back(void **unused) {
    (void)unused;
    hf__lock_state state = {0};
    uint64_t last = 0;
    for (int64_t ms = 9000; ms >= 0; ms -= 1000) {
        hf__lock_env env = make_env(10000);
        env.unix_us = env.token_clock = BEGIN_US + ms * 1000;
        uint64_t token = acquire_lock(&state, &env, 1, 1, HF_MUTEX).token;
        assert_true(token > last);
        last = token;
        assert_int_equal(release_lock(&state, &env, 1, 1, HF_MUTEX), HF_OK);
        save_and_load(&state);
        assert_int_equal(state.last_token, last);
    }
    hf__lock_state_fini(&state);
}

/* ---- The bytes ------------------------------------------------------------------------------- */

/* Bytes of version 1. They are in databases: a test that fails here means that the version must
   change, and that version 1 must still be read. */
static const char golden[] = "48464c5300010000000000020000000300000000000f4245" /* head */
                             /* an upgradable holder */
                             "0123456789ab4def0000000000000001000000000000000100000000000f4243"
                             "00000006fcbc428000000000000003e900000000000000110000000000000000"
                             "0000000200000000000000000301000000000000000000000000000000000000"
                             /* a reader */
                             "0123456789ab4def0000000000000002010203040506070800000000000f4244"
                             "00000006fccb84c000000000000003ea00000000000000120000000000000000"
                             "0000000100000000000000000100000000000000000000000000000000000000"
                             /* the upgrade, which waits before all others */
                             "0123456789ab4def0000000000000001000000000000000100000000000f4243"
                             "00000000000f424000000000000003eb00000000000000110000000000007530"
                             "0000000100000000000000000201000000000000000000000000000000000000"
                             /* a mutex */
                             "0123456789ab4def000000000000000300000000000000050000000000000000"
                             "00000000001e848000000000000003ec00000000000000130000000000001388"
                             "0000000100000000000000000001000000000000000000000000000000000000"
                             /* permits: 2 of 7 */
                             "0123456789ab4def000000000000000400000000000000060000000000000000"
                             "00000000002dc6c000000000000003ed0000000000000014000000009a7ec800"
                             "0000000100000002000000070400000000000000000000000000000000000000";

enum { GOLDEN_LENGTH = HF__SAVED_HEAD + 5 * HF__SAVED_SLOT };

static unsigned char *golden_bytes(void) {
    unsigned char *bytes = malloc(GOLDEN_LENGTH);
    assert_int_equal(sizeof golden - 1, 2 * GOLDEN_LENGTH);
    for (size_t i = 0; i < GOLDEN_LENGTH; i++) {
        unsigned byte;
        assert_int_equal(sscanf(golden + 2 * i, "%2x", &byte), 1);
        bytes[i] = (unsigned char)byte;
    }
    return bytes;
}

static hf__contender golden_contender(uint64_t client, uint64_t acquire_id, uint32_t kind) {
    return (hf__contender){.client = client_of(client),
                           .acquire_id = acquire_id,
                           .owner = {.id = 0x10 + client, .logical = client % 2},
                           .kind = kind};
}

static void add_golden_waiter(hf__lock_state *state, hf__contender contender, int64_t lease_ms,
                              hf__time seen_at, int64_t since) {
    hf__waiter *it = hf__lock_state_enqueue(state, &contender, false, 0);
    it->count = 1;
    it->lease_ms = lease_ms;
    it->seen_at = seen_at;
    it->since_unix_ms = since;
}

static void fill_golden_state(hf__lock_state *state) {
    state->last_token = 1000005;
    hf__contender upgradable = golden_contender(1, 1, HF_UPGRADABLE),
                  reader = golden_contender(2, UINT64_C(0x0102030405060708), HF_READ),
                  permits = golden_contender(4, 6, HF_PERMITS);
    hf__holder *first = hf__lock_state_add_holder(state, &upgradable),
               *second = hf__lock_state_add_holder(state, &reader);
    first->count = 2;
    first->token = 1000003;
    first->expires = 30010 * HF__MS;
    first->since_unix_ms = 1001;
    second->count = 1;
    second->token = 1000004;
    second->expires = 30011 * HF__MS;
    second->since_unix_ms = 1002;
    permits.permits = 2;
    permits.capacity = 7;
    add_golden_waiter(state, golden_contender(1, 1, HF_WRITE), 30000, 1 * HF__MS, 1003);
    state->waiters->seen_token = 1000003;
    add_golden_waiter(state, golden_contender(3, 5, HF_MUTEX), 5000, 2 * HF__MS, 1004);
    add_golden_waiter(state, permits, HF_LEASE_MAX_MS, 3 * HF__MS, 1005);
}

static void test_the_bytes_of_version_1_do_not_change(void **unused) {
    (void)unused;
    unsigned char *bytes = golden_bytes();
    hf__lock_state made = {0}, loaded;
    fill_golden_state(&made);
    hf__buffer saved = save_state(&made);
    assert_int_equal(saved.length, GOLDEN_LENGTH);
    assert_memory_equal(saved.data, bytes, GOLDEN_LENGTH);
    assert_int_equal(load_bytes(&loaded, bytes, GOLDEN_LENGTH), HF_OK);
    check_same_bytes(&loaded, &made);
    hf__buffer_fini(&saved);
    hf__lock_state_fini(&made);
    hf__lock_state_fini(&loaded);
    free(bytes);
}

static void test_an_unused_lock_is_24_bytes(void **unused) {
    (void)unused;
    hf__lock_state state = {0};
    hf__buffer bytes = save_state(&state);
    assert_int_equal(bytes.length, HF__SAVED_HEAD);
    hf__buffer_fini(&bytes);
    save_and_load(&state);
    assert_true(!state.holders && !state.waiters && !state.last_token);
}

static void test_a_loaded_state_keeps_the_order_of_the_queue(void **unused) {
    (void)unused;
    hf__lock_state state = {0};
    hf__lock_env env = make_env(1000);
    assert_int_equal(acquire_lock(&state, &env, 1, 1, HF_MUTEX).result, HF_OK);
    for (uint64_t client = 2; client <= 5; client++)
        assert_int_equal(acquire_lock(&state, &env, client, 1, HF_MUTEX).result, HF_BUSY);
    for (uint64_t client = 1; client < 5; client++) {
        save_and_load(&state);
        assert_int_equal(release_lock(&state, &env, client, 1, HF_MUTEX), HF_OK);
        save_and_load(&state);
        for (uint64_t other = 5; other > client + 1; other--)
            assert_int_equal(acquire_lock(&state, &env, other, 1, HF_MUTEX).result, HF_BUSY);
        assert_int_equal(acquire_lock(&state, &env, client + 1, 1, HF_MUTEX).result, HF_OK);
    }
    hf__lock_state_fini(&state);
}

/* ---- Maxima ---------------------------------------------------------------------------------- */

static void fill_largest_state(hf__lock_state *state) {
    hf__lock_env env = make_env(1000);
    for (uint64_t i = 1; i <= HF__SAVED_HOLDERS_MAX; i++)
        assert_int_equal(acquire_lock(state, &env, i, i, HF_READ).result, HF_OK);
    for (uint64_t i = 1; i <= HF__SAVED_WAITERS_MAX; i++)
        assert_true(acquire_lock(state, &env, i, i + 2000, HF_WRITE).queued);
}

static void test_the_largest_state_is_saved_and_loaded(void **unused) {
    (void)unused;
    hf__lock_state state = {0}, loaded;
    fill_largest_state(&state);
    hf__buffer bytes = save_state(&state);
    assert_int_equal(bytes.length, 196632);
    assert_int_equal(bytes.length, HF__SAVED_MAX);
    assert_int_equal(load_bytes(&loaded, bytes.data, bytes.length), HF_OK);
    check_same_bytes(&loaded, &state);
    hf__buffer_fini(&bytes);
    hf__lock_state_fini(&loaded);
    hf__lock_state_fini(&state);
}

static void test_a_full_state_refuses_more_and_stays_savable(void **unused) {
    (void)unused;
    hf__lock_state state = {0}, full = {0};
    fill_largest_state(&full);
    hf__lock_env env = make_env(1000);
    hf__op one_more = acquire_lock(&full, &env, 1, 5000, HF_WRITE);
    assert_int_equal(one_more.result, HF_BUSY);
    assert_false(one_more.queued);
    assert_true(acquire_lock(&full, &env, 9, 2009, HF_WRITE).queued); /* it is queued already */
    for (uint64_t i = 1; i <= HF__SAVED_HOLDERS_MAX; i++)
        assert_int_equal(acquire_lock(&state, &env, i, i, HF_READ).result, HF_OK);
    assert_int_equal(acquire_lock(&state, &env, 1, 5000, HF_READ).result, HF_NOMEM);
    assert_int_equal(acquire_lock(&state, &env, 7, 7, HF_READ).result, HF_OK);
    save_and_load(&full);
    save_and_load(&state);
    hf__lock_state_fini(&full);
    hf__lock_state_fini(&state);
}

static void test_a_state_beyond_the_maximum_is_not_saved(void **unused) {
    (void)unused;
    hf__lock_state state = {0};
    fill_largest_state(&state);
    hf__lock_env env = make_env(1000);
    hf__buffer bytes;
    env.max_waiters = 0;
    assert_true(acquire_lock(&state, &env, 1, 5000, HF_WRITE).queued);
    hf__buffer_init(&bytes, 2 * HF__SAVED_MAX);
    assert_int_equal(hf__lock_state_save(&state, &bytes), HF_NOMEM);
    assert_int_equal(bytes.length, 0);
    hf__buffer_fini(&bytes);
    hf__lock_state_fini(&state);
}

/* A token that was invented, or a clock that ran away: the state could not be loaded again. */
static void test_a_state_that_could_not_be_loaded_is_not_saved(void **unused) {
    (void)unused;
    for (int what = 0; what < 4; what++) {
        hf__lock_state state = {0};
        hf__buffer bytes;
        fill_golden_state(&state);
        if (what == 0) state.last_token = UINT64_C(1) << 63;
        if (what == 1) state.waiters->seen_token = UINT64_MAX;
        if (what == 2) state.waiters->lease_ms = HF_LEASE_MAX_MS + 1;
        if (what == 3) state.holders->expires = -1;
        hf__buffer_init(&bytes, HF__SAVED_MAX);
        hf__buffer_add(&bytes, "before", 6);
        assert_int_equal(hf__lock_state_save(&state, &bytes), HF_INVALID);
        assert_int_equal(bytes.length, 6);
        hf__buffer_fini(&bytes);
        hf__lock_state_fini(&state);
    }
}

/* ---- Bytes that are no state ----------------------------------------------------------------- */

/* Loads an allocation of exactly this size, so that a sanitizer sees a read past its end. A state
   that is accepted is saved as the same bytes. */
static hf_result try_bytes(const void *bytes, size_t length) {
    hf__lock_state state;
    char *copy = malloc(length ? length : 1);
    if (length) memcpy(copy, bytes, length);
    hf_result r = load_bytes(&state, copy, length);
    if (!r) {
        hf__buffer saved = save_state(&state);
        assert_int_equal(saved.length, length);
        assert_memory_equal(saved.data, copy, length);
        hf__buffer_fini(&saved);
    }
    assert_true(!r || (!state.holders && !state.waiters && !state.last_token));
    hf__lock_state_fini(&state);
    free(copy);
    return r;
}

static void test_a_state_of_another_length_is_refused(void **unused) {
    (void)unused;
    char bytes[GOLDEN_LENGTH + 2 * HF__SAVED_SLOT] = {0};
    unsigned char *right = golden_bytes();
    memcpy(bytes, right, GOLDEN_LENGTH);
    for (size_t length = 0; length <= sizeof bytes; length++)
        assert_int_equal(try_bytes(bytes, length), length == GOLDEN_LENGTH ? HF_OK : HF_PROTOCOL);
    free(right);
}

/* The counts are read before anything is allocated by them. */
static void test_counts_beyond_the_maximum_are_refused(void **unused) {
    (void)unused;
    unsigned char *bytes = golden_bytes();
    static const uint32_t counts[] = {4, 1025, 0x80000000, 0xffffffff, 0x2aaaaaab, 0x55555556};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        for (int at = 8; at <= 12; at += 4) {
            unsigned char was[4];
            memcpy(was, bytes + at, 4);
            for (int j = 0; j < 4; j++) bytes[at + j] = (unsigned char)(counts[i] >> (24 - 8 * j));
            assert_int_equal(try_bytes(bytes, GOLDEN_LENGTH), HF_PROTOCOL);
            memcpy(bytes + at, was, 4);
        }
    }
    free(bytes);
}

/* As many slots as the head says, one more than the maximum. */
static void test_a_state_with_a_waiter_too_many_is_refused(void **unused) {
    (void)unused;
    hf__lock_state state = {0};
    fill_largest_state(&state);
    hf__buffer bytes = save_state(&state);
    size_t length = bytes.length + HF__SAVED_SLOT;
    unsigned char *more = malloc(length);
    memcpy(more, bytes.data, bytes.length);
    memcpy(more + bytes.length, bytes.data + bytes.length - HF__SAVED_SLOT, HF__SAVED_SLOT);
    more[length - HF__SAVED_SLOT + 16] = 1; /* another acquire id */
    more[15]++;
    assert_int_equal(try_bytes(more, length), HF_PROTOCOL);
    free(more);
    hf__buffer_fini(&bytes);
    hf__lock_state_fini(&state);
}

static void test_another_version_is_refused(void **unused) {
    (void)unused;
    unsigned char *bytes = golden_bytes();
    for (unsigned version = 0; version <= UINT16_MAX; version++) {
        bytes[4] = (unsigned char)(version >> 8);
        bytes[5] = (unsigned char)version;
        assert_int_equal(try_bytes(bytes, GOLDEN_LENGTH), version == 0   ? HF_PROTOCOL
                                                          : version == 1 ? HF_OK
                                                                         : HF_UNSUPPORTED);
    }
    free(bytes);
}

/* Every value of every byte is either refused or kept. */
static void test_every_change_of_a_byte_is_refused_or_kept(void **unused) {
    (void)unused;
    unsigned char *bytes = golden_bytes();
    for (size_t i = 0; i < GOLDEN_LENGTH; i++) {
        unsigned char was = bytes[i];
        for (unsigned value = 0; value < 256; value++) {
            bytes[i] = (unsigned char)value;
            (void)try_bytes(bytes, GOLDEN_LENGTH);
        }
        bytes[i] = was;
    }
    free(bytes);
}

typedef struct wrong_byte {
    const char *what;
    size_t slot, at;
    unsigned char value;
} wrong_byte;

static void test_impossible_holders_and_waiters_are_refused(void **unused) {
    (void)unused;
    static const wrong_byte wrong[] = {
        {"a last token below a holder's", 0, 23, 0x43},
        {"a holder without a client", 1, 0, 0},
        {"a holder beside a writer", 2, 76, HF_WRITE},
        {"a second upgradable holder", 2, 76, HF_UPGRADABLE},
        {"a holder with the token of another", 2, 31, 0x43},
        {"a holder with a lease of a waiter", 2, 63, 1},
        {"a lease that ended before all times", 2, 32, 0x80},
        {"a time of birth before 1970", 2, 40, 0x80},
        {"a reader with permits", 2, 71, 1},
        {"a reader with a capacity", 2, 75, 1},
        {"a bit that has no meaning yet", 2, 95, 1},
        {"an owner of a third sort", 2, 77, 2},
        {"an upgrade without an id", 3, 23, 0},
        {"a reader that holds and waits", 3, 76, HF_READ},
        {"a kind that does not exist", 4, 76, 5},
        {"a mutex without an acquire id", 4, 23, 0},
        {"permits of nothing", 5, 71, 0},
        {"more permits than the capacity", 5, 71, 8},
        {"a capacity above the maximum", 5, 72, 1},
        {"a lease above the maximum", 5, 63, 1},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        unsigned char *bytes = golden_bytes();
        size_t from = wrong[i].slot ? HF__SAVED_HEAD + (wrong[i].slot - 1) * HF__SAVED_SLOT : 0;
        if (wrong[i].slot && wrong[i].at == 0) memset(bytes + from, 0, 16);
        bytes[from + wrong[i].at] = wrong[i].value;
        if (try_bytes(bytes, GOLDEN_LENGTH) != HF_PROTOCOL) fail_msg("%s", wrong[i].what);
        free(bytes);
    }
}

static void put_slot_twice(unsigned char *bytes, int from, int to, unsigned char acquire_id) {
    unsigned char *slots = bytes + HF__SAVED_HEAD;
    memcpy(slots + to * HF__SAVED_SLOT, slots + from * HF__SAVED_SLOT, HF__SAVED_SLOT);
    slots[to * HF__SAVED_SLOT + 23] = acquire_id;
}

/* Of the mutex, a client has one acquire; of other kinds it has several, each once. */
static void test_a_contender_occurs_once(void **unused) {
    (void)unused;
    static const struct {
        int from, to;
        unsigned char acquire_id;
        hf_result expected;
    } cases[] = {{2, 3, 1, HF_PROTOCOL}, /* the upgrade waits twice */
                 {3, 4, 9, HF_PROTOCOL}, /* two mutexes of a client */
                 {4, 3, 6, HF_PROTOCOL}, /* the same permits */
                 {4, 3, 7, HF_OK}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        unsigned char *bytes = golden_bytes();
        put_slot_twice(bytes, cases[i].from, cases[i].to, cases[i].acquire_id);
        assert_int_equal(try_bytes(bytes, GOLDEN_LENGTH), cases[i].expected);
        free(bytes);
    }
}

static void load_mixed_state(void *arg) {
    const hf__buffer *bytes = arg;
    hf__lock_state state;
    hf_result r = load_bytes(&state, bytes->data, bytes->length);
    assert_true(r == HF_OK || r == HF_NOMEM);
    assert_true(!r || (!state.holders && !state.waiters));
    hf__lock_state_fini(&state);
}

static void test_loading_without_memory_leaves_nothing_behind(void **unused) {
    (void)unused;
    hf__lock_state state = {0};
    fill_mixed_state(&state);
    hf__buffer bytes = save_state(&state);
    assert_true(t_alloc_each(load_mixed_state, &bytes, 0) >= 6);
    hf__buffer_fini(&bytes);
    hf__lock_state_fini(&state);
}

/* ---- A release that was repeated ------------------------------------------------------------- */

static hf__op repeat_release(hf__lock_state *state, const hf__lock_env *env, uint64_t token) {
    hf__op op = make_op(HF__RELEASE, 1, HF_MUTEX);
    op.token = token;
    op.retried = true;
    return apply_op(state, env, 1, op);
}

static void test_a_release_that_is_repeated_is_done_if_no_one_was_granted_since(void **unused) {
    (void)unused;
    hf__lock_state state = {0};
    hf__lock_env env = make_env(1000);
    uint64_t token = acquire_lock(&state, &env, 1, 1, HF_MUTEX).token;
    assert_int_equal(repeat_release(&state, &env, token).result, HF_OK); /* the first was lost */
    save_and_load(&state);
    assert_int_equal(repeat_release(&state, &env, token).result, HF_OK);
    assert_int_equal(release_lock(&state, &env, 1, 1, HF_MUTEX), HF_LOST);
    assert_int_equal(acquire_lock(&state, &env, 2, 1, HF_MUTEX).result, HF_OK);
    save_and_load(&state);
    hf__op again = repeat_release(&state, &env, token);
    assert_int_equal(again.result, HF_LOST);
    assert_true(again.outcome_unknown);
    assert_int_equal(state.holders->contender.client.low, 2);
    hf__lock_state_fini(&state);
}

static void test_a_release_of_another_token_ends_the_hold_and_is_lost(void **unused) {
    (void)unused;
    hf__lock_state state = {0};
    hf__lock_env env = make_env(1000);
    hf__op release = make_op(HF__RELEASE, 1, HF_MUTEX);
    release.exact_token = true;
    release.token = acquire_lock(&state, &env, 1, 1, HF_MUTEX).token + 1;
    hf__op done = apply_op(&state, &env, 1, release);
    assert_int_equal(done.result, HF_LOST);
    assert_false(done.outcome_unknown);
    assert_null(state.holders);
    release.token = acquire_lock(&state, &env, 1, 1, HF_MUTEX).token;
    assert_int_equal(apply_op(&state, &env, 1, release).result, HF_OK);
    hf__lock_state_fini(&state);
}

/* ---- Hand-over ------------------------------------------------------------------------------- */

static hf__lock_env make_handing_env(int64_t ms) {
    hf__lock_env env = make_env(ms);
    env.hands_over = true;
    return env;
}

static void test_a_release_hands_over_to_the_first_waiter(void **unused) {
    (void)unused;
    hf__lock_state state = {0};
    hf__lock_env env = make_handing_env(1000);
    uint64_t token = acquire_lock(&state, &env, 1, 1, HF_MUTEX).token;
    assert_int_equal(acquire_lock(&state, &env, 2, 4, HF_MUTEX).retry_ms, 7500);
    assert_true(acquire_lock(&state, &env, 3, 6, HF_MUTEX).queued);
    save_and_load(&state);
    assert_int_equal(release_lock(&state, &env, 1, 1, HF_MUTEX), HF_OK);
    assert_true(state.holders->handed_over && !state.holders->next);
    assert_int_equal(state.holders->contender.client.low, 2);
    assert_true(state.holders->token > token);
    assert_int_equal(state.holders->expires, (1000 + 10000) * HF__MS); /* a third of its lease */
    token = state.holders->token;
    /* its claim is answered with the same token, and has the whole lease */
    save_and_load(&state);
    hf__op claim = acquire_lock(&state, &env, 2, 4, HF_MUTEX);
    assert_int_equal(claim.result, HF_OK);
    assert_int_equal(claim.token, token);
    assert_true(claim.has_waiters);
    assert_int_equal(state.holders->expires, (1000 + 30000) * HF__MS);
    assert_false(state.holders->handed_over);
    hf__lock_state_fini(&state);
}

/* The grantee is gone: its short first lease ends, and whoever comes next hands over. */
static void test_a_lease_that_ended_is_handed_over_by_any_operation(void **unused) {
    (void)unused;
    hf__lock_state state = {0};
    hf__lock_env env = make_handing_env(1000);
    hf__lock_info lock_info = {0};
    hf__op look = make_op(HF__INSPECT, 0, HF_MUTEX);
    look.lock_info = &lock_info;
    acquire_lock(&state, &env, 1, 1, HF_MUTEX);
    acquire_lock(&state, &env, 2, 1, HF_READ);
    acquire_lock(&state, &env, 3, 1, HF_READ);
    acquire_lock(&state, &env, 4, 1, HF_WRITE);
    env = make_handing_env(1000 + 30000);
    save_and_load(&state);
    apply_op(&state, &env, 9, look);
    assert_int_equal(state.holders->contender.client.low, 2);
    assert_int_equal(state.holders->next->contender.client.low, 3);
    assert_true(state.holders->handed_over && state.holders->next->handed_over);
    assert_null(state.holders->next->next);
    assert_false(state.waiters->can_be_granted);
    hf__lock_state_fini(&state);
}

static void test_an_upgrade_is_handed_over_under_a_new_token(void **unused) {
    (void)unused;
    hf__lock_state state = {0};
    fill_mixed_state(&state);
    hf__lock_env env = make_handing_env(1000);
    uint64_t token = state.holders->token;
    save_and_load(&state);
    assert_int_equal(release_lock(&state, &env, 2, 1, HF_READ), HF_OK);
    assert_int_equal(state.holders->contender.kind, HF_WRITE);
    assert_true(state.holders->handed_over && state.holders->token > token);
    assert_int_equal(state.waiters->contender.client.low, 3);
    save_and_load(&state);
    hf__lock_state_fini(&state);
}

/* The waiter had the lock before, when another server kept it. */
static void test_a_token_by_hand_over_is_above_what_the_waiter_has_seen(void **unused) {
    (void)unused;
    hf__lock_state state = {0};
    hf__lock_env env = make_handing_env(1000);
    hf__op wait = make_op(HF__ACQUIRE, 1, HF_MUTEX);
    wait.enqueue = true;
    wait.token = BEGIN_US + 1000 * INT64_C(1000000);
    acquire_lock(&state, &env, 1, 1, HF_MUTEX);
    apply_op(&state, &env, 2, wait);
    save_and_load(&state);
    release_lock(&state, &env, 1, 1, HF_MUTEX);
    assert_int_equal(state.holders->token, wait.token + 1);
    hf__lock_state_fini(&state);
}

static void test_a_short_lease_is_not_made_longer_by_a_hand_over(void **unused) {
    (void)unused;
    static const int64_t leases[][2] = {{500, 500}, {4000, 2000}, {9000, 3000}, {600000, 10000}};
    for (size_t i = 0; i < sizeof leases / sizeof *leases; i++) {
        hf__lock_state state = {0};
        hf__lock_env env = make_handing_env(1000);
        hf__op wait = make_op(HF__ACQUIRE, 1, HF_WRITE);
        wait.enqueue = true;
        wait.lease_ms = leases[i][0];
        acquire_lock(&state, &env, 1, 1, HF_MUTEX);
        apply_op(&state, &env, 2, wait);
        release_lock(&state, &env, 1, 1, HF_MUTEX);
        assert_int_equal(state.holders->expires, (1000 + leases[i][1]) * HF__MS);
        hf__lock_state_fini(&state);
    }
}

/* ---- Clients that cannot be reached ---------------------------------------------------------- */

static bool client_is_even(const void *store, hf__client_id client) {
    (void)store;
    return client.low % 2 == 0;
}

static void test_a_waiter_that_cannot_be_reached_is_passed_over(void **unused) {
    (void)unused;
    hf__lock_state state = {0};
    hf__lock_env env = make_handing_env(1000);
    env.is_reachable = client_is_even;
    acquire_lock(&state, &env, 2, 1, HF_MUTEX);
    acquire_lock(&state, &env, 3, 1, HF_MUTEX);
    acquire_lock(&state, &env, 4, 1, HF_MUTEX);
    release_lock(&state, &env, 2, 1, HF_MUTEX);
    assert_int_equal(state.holders->contender.client.low, 4);
    assert_int_equal(state.waiters->contender.client.low, 3);
    assert_null(state.waiters->next);
    /* it has kept its position, and is served as soon as it asks or can be reached */
    acquire_lock(&state, &env, 6, 1, HF_MUTEX);
    env.is_reachable = NULL;
    save_and_load(&state);
    release_lock(&state, &env, 4, 1, HF_MUTEX);
    assert_int_equal(state.holders->contender.client.low, 3);
    hf__lock_state_fini(&state);
}

static void test_an_unreachable_waiter_does_not_block_a_newcomer(void **unused) {
    (void)unused;
    hf__lock_state state = {0};
    hf__lock_env env = make_env(1000);
    env.is_reachable = client_is_even;
    acquire_lock(&state, &env, 2, 1, HF_READ);
    assert_int_equal(acquire_lock(&state, &env, 3, 1, HF_WRITE).result, HF_BUSY);
    assert_int_equal(acquire_lock(&state, &env, 4, 1, HF_READ).result, HF_OK);
    assert_int_equal(acquire_lock(&state, &env, 6, 1, HF_WRITE).result, HF_BUSY);
    assert_int_equal(acquire_lock(&state, &env, 8, 1, HF_READ).result, HF_BUSY);
    hf__lock_state_fini(&state);
}

/* ---- Random operations, live and saved ------------------------------------------------------- */

enum { CLIENTS = 6, IDS = 8, STEPS = 3000, SEEDS = 24 };

typedef struct saving_world {
    hf__rand rand;
    hf__lock_state live, saved;
    hf__lock_env env;
    int64_t ms, clock_ms;
    unsigned unreachable; /* clients, as bits */
    uint64_t highest;     /* token of all */
} saving_world;

static uint64_t draw(saving_world *w, uint64_t below) {
    return hf__rand_next(&w->rand) % below;
}

static bool client_is_reachable(const void *store, hf__client_id client) {
    return !(((const saving_world *)store)->unreachable >> client.low & 1);
}

static void pass_time(saving_world *w) {
    w->ms += draw(w, 20) ? (int64_t)draw(w, 60) : (int64_t)draw(w, 5000);
    w->clock_ms = draw(w, 50) ? w->clock_ms + 10 : w->clock_ms - (int64_t)draw(w, 60000);
    bool hands_over = w->env.hands_over;
    w->env = make_env(w->ms);
    w->env.unix_us = w->env.token_clock = BEGIN_US + w->clock_ms * 1000;
    w->env.waiter_timeout = HF__SEC;
    w->env.hands_over = hands_over;
    w->env.max_holders = w->env.max_waiters = 5;
    if (!draw(w, 30)) w->unreachable = (unsigned)draw(w, 1u << (CLIENTS + 1));
    if (!draw(w, 10)) w->unreachable = 0;
    w->env.is_reachable = client_is_reachable;
    w->env.store = w;
}

/* Mostly the token of a holder. */
static uint64_t draw_token(saving_world *w, const hf__contender *contender) {
    const hf__holder *it = contender ? hf__lock_state_find_holder(&w->live, contender) : NULL;
    if (!it) it = w->live.holders;
    return it && draw(w, 10) ? it->token : draw(w, 3);
}

static hf__op draw_acquire(saving_world *w) {
    static const uint32_t kinds[] = {HF_MUTEX,      HF_READ,  HF_READ,
                                     HF_UPGRADABLE, HF_WRITE, HF_PERMITS};
    hf__op op = make_op(HF__ACQUIRE, 1 + draw(w, IDS), kinds[draw(w, 6)]);
    op.lease_ms = 1 + (int64_t)draw(w, 3000);
    op.count = 1 + (uint32_t)draw(w, 3);
    op.owner.logical = draw(w, 2);
    op.enqueue = draw(w, 4);
    op.inherits_position = !draw(w, 3);
    op.upgrade = op.kind == HF_UPGRADABLE && draw(w, 2);
    if (!draw(w, 20)) op.not_after = (w->ms - 1) * HF__MS;
    if (!draw(w, 20)) op.token = w->live.last_token + draw(w, 1000);
    if (op.kind == HF_PERMITS) {
        op.capacity = draw(w, 20) ? 4 : 3;
        op.permits = 1 + (uint32_t)draw(w, 3);
    }
    return op;
}

static hf__op draw_upgrade(saving_world *w, const hf__contender *upgradable) {
    hf__op op = make_op(HF__ACQUIRE, upgradable->acquire_id, HF_UPGRADABLE);
    op.upgrade = true;
    op.enqueue = draw(w, 4);
    return op;
}

static hf__op draw_op(saving_world *w, uint64_t *client, hf__lock_info *lock_info) {
    hf__op op = draw_acquire(w);
    uint64_t verb = draw(w, 20);
    const hf__holder *upgradable = w->live.holders;
    *client = 1 + draw(w, CLIENTS);
    while (upgradable && upgradable->contender.kind != HF_UPGRADABLE) upgradable = upgradable->next;
    if (upgradable && verb < 6) {
        *client = upgradable->contender.client.low;
        return draw_upgrade(w, &upgradable->contender);
    }
    if (verb < 11) return op;
    if (verb == 11) op.verb = HF__INSPECT;
    if (verb == 12) op.verb = draw(w, 3) ? HF__RELEASE : HF__BREAK;
    if (verb > 12) op.verb = verb < 16 ? HF__RENEW : HF__RELEASE;
    op.lock_info = lock_info;
    /* mostly about a holder */
    const hf__holder *it = w->live.holders;
    for (uint64_t i = draw(w, 3); it && it->next && i; i--) it = it->next;
    if (it && draw(w, 6)) {
        *client = it->contender.client.low;
        op.acquire_id = it->contender.acquire_id;
        op.kind = draw(w, 4) ? it->contender.kind : HF_READ;
    }
    op.upgrade = false;
    op.retried = !draw(w, 3);
    op.exact_token = !draw(w, 3);
    op.token = draw_token(w, it ? &it->contender : NULL);
    return op;
}

static void check_same_answer(const hf__op *a, const hf__op *b) {
    assert_int_equal(a->result, b->result);
    assert_int_equal(a->token, b->token);
    assert_int_equal(a->retry_ms, b->retry_ms);
    assert_int_equal(a->holder_token, b->holder_token);
    assert_int_equal(a->capacity, b->capacity);
    assert_int_equal(a->queued, b->queued);
    assert_int_equal(a->has_waiters, b->has_waiters);
    assert_int_equal(a->outcome_unknown, b->outcome_unknown);
}

static void check_same_effects(const hf__lock_state *a, const hf__lock_state *b) {
    const hf__holder *holder = b->holders;
    const hf__waiter *waiter = b->waiters;
    for (const hf__holder *it = a->holders; it; it = it->next, holder = holder->next)
        assert_true(holder && holder->handed_over == it->handed_over);
    for (const hf__waiter *it = a->waiters; it; it = it->next, waiter = waiter->next)
        assert_true(waiter && waiter->can_be_granted == it->can_be_granted);
    check_same_bytes(a, b);
}

/* Every new token is above all earlier ones. */
static void check_tokens(saving_world *w) {
    uint64_t highest = w->highest;
    assert_true(hf__lock_state_holders_are_valid(&w->live));
    for (const hf__holder *it = w->live.holders; it; it = it->next)
        if (it->token > highest) highest = it->token;
    assert_true(w->live.last_token >= highest);
    w->highest = w->live.last_token;
}

static void take_step(saving_world *w) {
    hf__lock_info seen = {0}, seen_saved = {0};
    uint64_t client, before = w->live.last_token;
    pass_time(w);
    if (!draw(w, 40)) {
        hf__client_id gone = client_of(1 + draw(w, CLIENTS));
        hf__lock_state_remove_client(&w->live, gone);
        hf__lock_state_remove_client(&w->saved, gone);
    }
    hf__op op = draw_op(w, &client, &seen), saved_op = op;
    if (op.lock_info) saved_op.lock_info = &seen_saved;
    op.result = hf__lock_state_apply(&w->live, &w->env, client_of(client), &op);
    saved_op.result = hf__lock_state_apply(&w->saved, &w->env, client_of(client), &saved_op);
    check_same_answer(&op, &saved_op);
    assert_memory_equal(&seen, &seen_saved, sizeof seen);
    assert_true(w->live.last_token >= before);
    check_tokens(w);
    check_same_effects(&w->live, &w->saved);
    save_and_load(&w->saved);
}

static void test_a_state_that_is_saved_between_operations_is_the_same(void **unused) {
    (void)unused;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        saving_world w = {.rand = {seed}, .ms = 1000, .clock_ms = 1000};
        w.env.hands_over = seed % 2;
        for (int i = 0; i < STEPS; i++) take_step(&w);
        hf__lock_state_fini(&w.live);
        hf__lock_state_fini(&w.saved);
    }
}

/* ---- Two savers compete ---------------------------------------------------------------------- */

/* An engine that writes bytes only if its version of them is still the one that was read. */
typedef struct engine {
    hf__buffer bytes;
    uint64_t version;
} engine;

/* A client between reading and writing. */
typedef struct saver {
    hf__lock_state state;
    uint64_t version, client;
    hf__op asked, op; /* as it was asked, and as it was answered */
    bool busy;
} saver;

static void begin_saving(const engine *e, saver *s, const hf__lock_env *env) {
    s->state = (hf__lock_state){0};
    s->version = e->version;
    s->op = s->asked;
    if (e->version) assert_int_equal(load_bytes(&s->state, e->bytes.data, e->bytes.length), HF_OK);
    s->op.result = hf__lock_state_apply(&s->state, env, client_of(s->client), &s->op);
    s->busy = true;
}

/* False: another one was faster. */
static bool end_saving(engine *e, saver *s) {
    hf__buffer bytes = save_state(&s->state);
    bool is_current = e->version == s->version;
    if (is_current) {
        hf__buffer_fini(&e->bytes);
        e->bytes = bytes;
        e->version++;
    } else {
        hf__buffer_fini(&bytes);
    }
    hf__lock_state_fini(&s->state);
    s->busy = false;
    return is_current;
}

/* The operations that were written are the same as if they had been applied one after the other, in
   the order of the writes: none is lost and none takes effect twice. */
static void test_savers_that_compete_lose_nothing(void **unused) {
    (void)unused;
    enum { SAVERS = 4 };
    saving_world w = {.rand = {7}, .ms = 1000, .clock_ms = 1000};
    saver savers[SAVERS] = {0};
    engine e = {0};
    unsigned written = 0, refused = 0;
    hf__buffer_init(&e.bytes, HF__SAVED_MAX);
    w.env = make_handing_env(1000);
    while (written < 4000) {
        saver *s = &savers[draw(&w, SAVERS)];
        hf__lock_info lock_info = {0};
        if (!s->busy) {
            do s->asked = draw_op(&w, &s->client, &lock_info);
            while (s->asked.verb == HF__INSPECT);
            begin_saving(&e, s, &w.env);
        } else if (end_saving(&e, s)) {
            hf__op live = s->asked;
            live.result = hf__lock_state_apply(&w.live, &w.env, client_of(s->client), &live);
            check_same_answer(&live, &s->op);
            written++;
        } else {
            refused++;
            begin_saving(&e, s, &w.env);
        }
    }
    assert_true(refused > 1000);
    assert_int_equal(e.version, written);
    save_and_load(&w.live);
    hf__buffer bytes = save_state(&w.live);
    assert_int_equal(bytes.length, e.bytes.length);
    assert_memory_equal(bytes.data, e.bytes.data, bytes.length);
    hf__buffer_fini(&bytes);
    hf__buffer_fini(&e.bytes);
    for (int i = 0; i < SAVERS; i++) hf__lock_state_fini(&savers[i].state);
    hf__lock_state_fini(&w.live);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_client_s_id_keeps_its_uuid),
        cmocka_unit_test(test_only_a_uuid_is_the_id_of_a_client),
        cmocka_unit_test(test_a_token_is_above_the_last_the_seen_and_the_clock),
        cmocka_unit_test(test_tokens_grow_over_a_save_although_the_clock_steps_back),
        cmocka_unit_test(test_the_bytes_of_version_1_do_not_change),
        cmocka_unit_test(test_an_unused_lock_is_24_bytes),
        cmocka_unit_test(test_a_loaded_state_keeps_the_order_of_the_queue),
        cmocka_unit_test(test_the_largest_state_is_saved_and_loaded),
        cmocka_unit_test(test_a_full_state_refuses_more_and_stays_savable),
        cmocka_unit_test(test_a_state_beyond_the_maximum_is_not_saved),
        cmocka_unit_test(test_a_state_that_could_not_be_loaded_is_not_saved),
        cmocka_unit_test(test_a_state_of_another_length_is_refused),
        cmocka_unit_test(test_counts_beyond_the_maximum_are_refused),
        cmocka_unit_test(test_a_state_with_a_waiter_too_many_is_refused),
        cmocka_unit_test(test_another_version_is_refused),
        cmocka_unit_test(test_every_change_of_a_byte_is_refused_or_kept),
        cmocka_unit_test(test_impossible_holders_and_waiters_are_refused),
        cmocka_unit_test(test_a_contender_occurs_once),
        cmocka_unit_test(test_loading_without_memory_leaves_nothing_behind),
        cmocka_unit_test(test_a_release_that_is_repeated_is_done_if_no_one_was_granted_since),
        cmocka_unit_test(test_a_release_of_another_token_ends_the_hold_and_is_lost),
        cmocka_unit_test(test_a_release_hands_over_to_the_first_waiter),
        cmocka_unit_test(test_a_lease_that_ended_is_handed_over_by_any_operation),
        cmocka_unit_test(test_an_upgrade_is_handed_over_under_a_new_token),
        cmocka_unit_test(test_a_token_by_hand_over_is_above_what_the_waiter_has_seen),
        cmocka_unit_test(test_a_short_lease_is_not_made_longer_by_a_hand_over),
        cmocka_unit_test(test_a_waiter_that_cannot_be_reached_is_passed_over),
        cmocka_unit_test(test_an_unreachable_waiter_does_not_block_a_newcomer),
        cmocka_unit_test(test_a_state_that_is_saved_between_operations_is_the_same),
        cmocka_unit_test(test_savers_that_compete_lose_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
