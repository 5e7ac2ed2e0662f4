/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A saved lock state of arbitrary bytes, and operations on it.
 *
 * - Bytes that are accepted are saved as the same bytes.
 * - A state that is saved and loaded after each operation gives the same answers as one that is
 *   not.
 *
 * The input is a byte that says how many operations, ten bytes for each, and the state.
 */
#include "fuzz.h"

#include "store/lock_state/operations.h"
#include "store/lock_state/saved_state.h"

enum { OPS_MAX = 15, HANDS_OVER = 16 };

static hf__buffer save_state(const hf__lock_state *state, hf_result expected) {
    hf__buffer bytes;
    hf__buffer_init(&bytes, HF__SAVED_MAX);
    FUZZ_CHECK(hf__lock_state_save(state, &bytes) == expected);
    return bytes;
}

static hf_result load_bytes(hf__lock_state *state, const void *bytes, size_t length) {
    const char *problem = "";
    hf_result r = hf__lock_state_load(state, bytes, length, &problem);
    FUZZ_CHECK((r == HF_OK) == !problem && (!problem || *problem));
    FUZZ_CHECK(r == HF_OK || r == HF_PROTOCOL || r == HF_UNSUPPORTED);
    return r;
}

static void check_bytes(const hf__lock_state *state, const void *bytes, size_t length) {
    hf__buffer saved = save_state(state, HF_OK);
    FUZZ_CHECK(saved.length == length && !memcmp(saved.data, bytes, length));
    hf__buffer_fini(&saved);
}

static void save_and_load(hf__lock_state *state) {
    hf__buffer bytes = save_state(state, HF_OK);
    hf__lock_state_fini(state);
    FUZZ_CHECK(load_bytes(state, bytes.data, bytes.length) == HF_OK);
    check_bytes(state, bytes.data, bytes.length);
    hf__buffer_fini(&bytes);
}

static bool is_odd(const void *store, hf__client_id client) {
    (void)store;
    return client.low & 1;
}

/* The identity of a contender of the state, or one of a few others. */
static void choose_contender(const hf__lock_state *state, uint8_t nth, hf__client_id *client,
                             hf__op *op) {
    const hf__holder *holder = state->holders;
    const hf__waiter *waiter = state->waiters;
    *client = (hf__client_id){.low = 1 + nth / 64};
    op->acquire_id = 1 + nth % 8;
    for (; holder && nth; nth--) holder = holder->next;
    for (; !holder && waiter && nth; nth--) waiter = waiter->next;
    const hf__contender *found = holder ? &holder->contender : waiter ? &waiter->contender : NULL;
    if (!found) return;
    *client = found->client;
    op->acquire_id = found->acquire_id;
    op->token = holder ? holder->token : waiter->seen_token;
}

static hf__op take_op(input *in, const hf__lock_state *state, hf__client_id *client) {
    static const hf__verb verbs[] = {HF__ACQUIRE, HF__RENEW,   HF__RELEASE,
                                     HF__BREAK,   HF__ACQUIRE, HF__INSPECT};
    hf__op op = {.verb = verbs[input_byte(in) % 6], .not_after = HF__NEVER};
    choose_contender(state, input_byte(in), client, &op);
    op.kind = input_byte(in) % (HF_PERMITS + 1);
    op.permits = 1 + input_byte(in) % 4;
    op.capacity = op.permits + input_byte(in) % 4;
    op.count = input_byte(in);
    op.lease_ms = input_byte(in) * INT64_C(100);
    uint8_t flags = input_byte(in);
    op.enqueue = flags & 1;
    op.upgrade = flags & 2;
    op.inherits_position = flags & 4;
    op.owner.logical = flags & 8;
    op.retried = flags & 32;
    op.exact_token = flags & 64;
    if (flags & 16) op.token += flags;
    return op;
}

static hf__lock_env take_env(input *in, hf__time *now, bool hands_over) {
    uint8_t flags = input_byte(in);
    *now += input_byte(in) * 100 * HF__MS;
    hf__lock_env env = {.now = *now,
                        .waiter_timeout = HF__SEC,
                        .queued_retry_ms = 400,
                        .max_holders = 1 + flags % 8,
                        .max_waiters = 1 + flags / 8 % 8,
                        .hands_over = hands_over};
    if (flags & 64) env.unix_us = env.token_clock = *now / 1000;
    if (flags & 128) env.is_reachable = is_odd;
    return env;
}

static void check_same(const hf__lock_state *live, const hf__lock_state *saved, const hf__op *a,
                       const hf__op *b) {
    FUZZ_CHECK(a->result == b->result && a->token == b->token && a->retry_ms == b->retry_ms);
    FUZZ_CHECK(a->queued == b->queued && a->has_waiters == b->has_waiters);
    FUZZ_CHECK(a->outcome_unknown == b->outcome_unknown);
    FUZZ_CHECK(a->capacity == b->capacity && a->holder_token == b->holder_token);
    FUZZ_CHECK(hf__lock_state_holders_are_valid(live));
    hf__buffer bytes = save_state(live, HF_OK);
    check_bytes(saved, bytes.data, bytes.length);
    hf__buffer_fini(&bytes);
}

static void apply_ops(hf__lock_state *live, hf__lock_state *saved, input *in, uint8_t plan) {
    hf__time now = live->holders ? live->holders->expires - HF__SEC : 0;
    if (now < 0 || now > HF__NEVER / 2) now = 0;
    for (int left = plan & OPS_MAX; left; left--) {
        hf__lock_info info = {0}, saved_info = {0};
        hf__client_id client;
        hf__lock_env env = take_env(in, &now, plan & HANDS_OVER);
        hf__op op = take_op(in, live, &client), saved_op = op;
        op.lock_info = &info;
        saved_op.lock_info = &saved_info;
        /* a token of the input's may be the highest there is */
        if (live->last_token > INT64_MAX / 2 || op.token > INT64_MAX / 2) return;
        op.result = hf__lock_state_apply(live, &env, client, &op);
        saved_op.result = hf__lock_state_apply(saved, &env, client, &saved_op);
        check_same(live, saved, &op, &saved_op);
        FUZZ_CHECK(!memcmp(&info, &saved_info, sizeof info));
        save_and_load(saved);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    input all = {data, size}, ops = {0};
    uint8_t plan = input_byte(&all);
    hf__lock_state live, saved;
    ops.left = 10 * (size_t)(plan & OPS_MAX);
    ops.at = input_bytes(&all, &ops.left);
    if (load_bytes(&live, all.at, all.left) == HF_OK) {
        check_bytes(&live, all.at, all.left);
        FUZZ_CHECK(load_bytes(&saved, all.at, all.left) == HF_OK);
        apply_ops(&live, &saved, &ops, plan);
        hf__lock_state_fini(&saved);
    }
    hf__lock_state_fini(&live);
    return 0;
}
