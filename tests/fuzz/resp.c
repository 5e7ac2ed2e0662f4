/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The Redis store end to end, against a server with arbitrary answers. Two clients use the public
 * API. The server of wire.h is at the other end of all their connections. The input changes its
 * answers.
 *
 * - Every call ends within its time limit, with a result that is allowed for it.
 * - A client that reports a hold has received it from the server: the token was in its answers.
 * - While the server has not lied or lost data, two clients never hold a lock at once, whatever the
 *   network loses.
 *
 * The input is the number of steps, two bytes for each step, and then the changes of the answers.
 */
#include "fake_time.h"
#include "holdfast.h"
#include "wire.h"

enum { STEPS_MAX = 32, HOLDS_MAX = 4, WAIT_MS = 300, CALL_MS = 5000 };

#define URL "redis+unix:///fuzz?connect_timeout=300ms&command_timeout=300ms&outage=500ms&lease=3s"

static const char *const names[] = {"n", "m"};

typedef struct resp_hold {
    hf_hold *hold;
    int client;
    const char *name; /* NULL: a hold of several names */
    uint32_t kind;
    bool pending; /* the callback has not run yet */
} resp_hold;

static hf_client *clients[WIRE_CLIENTS];
static resp_hold holds[HOLDS_MAX];
static hf_observer *observers[WIRE_CLIENTS];
static bool broken; /* by an operator: its holder may not know yet */

/* ---- Invariants ---- */

static void check_result(hf_result r) {
    FUZZ_CHECK(r >= HF_OK && r < HF_NO_QUORUM && r != HF_FORKED);
    if (r) FUZZ_CHECK(*hf_error_detail() && !strchr(hf_error_detail(), '\n'));
}

static bool was_sent_to(int client, uint64_t token) {
    char text[24];
    snprintf(text, sizeof text, "%llu", (unsigned long long)token);
    return wire_gave(client, text);
}

static bool is_exclusive(uint32_t kind) {
    return kind == HF_MUTEX || kind == HF_WRITE;
}

static void check_pair(const resp_hold *a, const resp_hold *b) {
    if (!a->name || a->name != b->name || a->client == b->client) return;
    if (!is_exclusive(a->kind) && !is_exclusive(b->kind)) return;
    FUZZ_CHECK(!hf_held(a->hold) || !hf_held(b->hold));
}

static void check_holds(void) {
    for (int i = 0; i < HOLDS_MAX; i++) {
        const resp_hold *h = &holds[i];
        if (!h->hold || !hf_held(h->hold)) continue;
        FUZZ_CHECK(hf_fence(h->hold) && was_sent_to(h->client, hf_fence(h->hold)));
        FUZZ_CHECK(hf_remaining_ms(h->hold) <= 3600000);
        for (int k = 0; k < i && !wire.lied && !wire.forgetful && !broken; k++)
            if (holds[k].hold) check_pair(h, &holds[k]);
    }
}

/* ---- Acquire and release ---- */

static void release_hold(resp_hold *h) {
    if (h->hold) check_result(hf_release(h->hold));
    h->hold = NULL;
}

static resp_hold *take_slot(int who, uint8_t arg, uint32_t kind) {
    resp_hold *h = &holds[arg % HOLDS_MAX];
    if (h->pending) return NULL;
    wire.client = h->client;
    release_hold(h);
    wire.client = who;
    *h = (resp_hold){.client = who, .name = names[arg >> 2 & 1], .kind = kind};
    return h;
}

static void acquire_lock(int who, uint8_t arg, uint32_t kind, int64_t wait_ms) {
    resp_hold *h = take_slot(who, arg, kind);
    if (!h) return;
    hf_options options = {.wait_ms = wait_ms, .kind = kind};
    if (kind == HF_PERMITS) options.capacity = 2;
    hf_result r = hf_acquire(clients[who], h->name, &options, &h->hold);
    check_result(r);
    FUZZ_CHECK((r == HF_OK) == (h->hold != NULL));
}

static void acquire_all(int who, uint8_t arg) {
    resp_hold *h = take_slot(who, arg, HF_MUTEX);
    hf_request requests[] = {{.name = names[0]}, {.name = names[1], .kind = arg & 8 ? HF_READ : 0}};
    if (!h) return;
    h->name = NULL;
    hf_options options = {.wait_ms = arg & 16 ? WAIT_MS : 0};
    hf_result r = hf_acquire_all(clients[who], requests, 2, &options, &h->hold);
    check_result(r);
    FUZZ_CHECK((r == HF_OK) == (h->hold != NULL));
}

static void on_acquired(hf_result r, hf_hold *hold, void *arg) {
    resp_hold *h = arg;
    FUZZ_CHECK(h->pending && (r == HF_OK) == (hold != NULL));
    h->pending = false;
    h->hold = hold;
}

static void acquire_async(int who, uint8_t arg) {
    resp_hold *h = take_slot(who, arg, HF_MUTEX);
    if (!h) return;
    h->pending = true;
    hf_options options = {.wait_ms = 2000};
    hf_result r = hf_acquire_async(clients[who], h->name, &options, on_acquired, h);
    check_result(r);
    if (r) h->pending = false;
}

static void on_released(hf_result r, void *arg) {
    (void)r;
    ++*(int *)arg;
}

static int releases;

/* ---- Calls on a hold ---- */

static void on_hold(uint8_t step, uint8_t arg) {
    resp_hold *h = &holds[arg % HOLDS_MAX];
    if (!h->hold) return;
    wire.client = h->client;
    switch (step) {
    case 3: release_hold(h); break;
    case 7: check_result(hf_extend(h->hold, 60 + 100 * (int64_t)arg)); break;
    case 10: check_result(hf_upgrade(h->hold, WAIT_MS)); break;
    case 11: check_result(hf_downgrade(h->hold)); break;
    case 16: check_result(hf_proclaim(h->hold, "word", 4)); break;
    default:
        check_result(hf_release_async(h->hold, on_released, &releases));
        h->hold = NULL;
        break;
    }
}

/* Export the hold, and let either client adopt it. */
static void export_hold(int who, uint8_t arg) {
    char text[HF_EXPORT_MAX];
    resp_hold *h = &holds[arg % HOLDS_MAX];
    if (!h->hold) return;
    wire.client = h->client;
    hf_result r = hf_export(h->hold, text, sizeof text);
    check_result(r);
    if (r) return;
    wire.client = h->client = who;
    h->hold = NULL;
    if (arg & 8) check_result(hf_extend_exported(clients[who], text, 1000));
    check_result(hf_adopt(clients[who], text, NULL, &h->hold));
}

/* ---- Latches, leaders and inspection ---- */

static void use_latch(int who, uint8_t arg) {
    uint32_t left = 0, by = 1 + arg / 4;
    hf_options options = {.wait_ms = WAIT_MS};
    switch (arg % 4) {
    case 0: check_result(hf_latch_set(clients[who], "n", by)); break;
    case 1: check_result(hf_latch_count_down(clients[who], "n", by, &left)); break;
    case 2: check_result(hf_latch_wait(clients[who], "n", &options)); break;
    default: check_result(hf_latch_left(clients[who], "n", &left)); break;
    }
}

static void campaign_for(int who, uint8_t arg) {
    resp_hold *h = take_slot(who, arg, HF_MUTEX);
    if (h) check_result(hf_campaign(clients[who], h->name, "here", 4, NULL, &h->hold));
}

static void read_leader(int who) {
    hf_leader_info *info = NULL;
    hf_result r = hf_leader(clients[who], "n", &info);
    check_result(r);
    FUZZ_CHECK((r == HF_OK) == (info != NULL));
    if (info) FUZZ_CHECK(info->value && info->value_length <= HF_VALUE_MAX && info->host);
    hf_leader_free(info);
}

static void on_leader(const hf_leader_info *info, void *arg) {
    (void)arg;
    if (info) FUZZ_CHECK(info->value && info->value_length <= HF_VALUE_MAX);
}

static void start_observer(int who) {
    hf_unobserve(observers[who]);
    observers[who] = NULL;
    check_result(hf_observe(clients[who], "n", on_leader, NULL, &observers[who]));
}

static void inspect_lock(int who, uint8_t arg) {
    hf_info *info = NULL;
    hf_result r = hf_inspect(clients[who], names[arg & 1], &info);
    check_result(r);
    FUZZ_CHECK((r == HF_OK) == (info != NULL));
    if (info) FUZZ_CHECK(info->client && info->owner && info->host && info->program && info->label);
    for (uint32_t i = 0; info && i < info->waiting && i < 64; i++)
        FUZZ_CHECK(info->waiters[i].client && info->waiters[i].label);
    hf_info_free(info);
}

static int32_t note_name(const char *name, const hf_info *info, void *arg) {
    FUZZ_CHECK(*name && strlen(name) <= HF_NAME_MAX && info->client);
    return ++*(int *)arg > 50;
}

/* ---- Steps ---- */

static void dispatch_clients(int64_t ms) {
    fake_time_pass_ms(ms);
    for (int i = 0; i < 3 * WIRE_CLIENTS; i++) {
        wire.client = i % WIRE_CLIENTS;
        if (clients[wire.client]) check_result(hf_dispatch(clients[wire.client]));
    }
}

static void close_client(int who) {
    wire.client = who;
    int64_t began = fake_time_now_ms();
    hf_close(clients[who]);
    FUZZ_CHECK(fake_time_now_ms() - began < CALL_MS);
    clients[who] = NULL;
    hf_unobserve(observers[who]);
    observers[who] = NULL;
    for (int i = 0; i < HOLDS_MAX; i++) {
        if (holds[i].client != who) continue;
        FUZZ_CHECK(!holds[i].pending && (!holds[i].hold || !hf_held(holds[i].hold)));
        release_hold(&holds[i]);
    }
}

static void open_client(int who) {
    hf_client_options options = {.flags = HF_NO_THREAD, .label = "fuzz"};
    wire.client = who;
    hf_result r = hf_open(URL, &options, &clients[who]);
    check_result(r);
    FUZZ_CHECK((r == HF_OK) == (clients[who] != NULL));
}

static void do_step(uint8_t step, uint8_t arg) {
    int who = wire.client = step >> 7, listed = 0;
    if (!clients[who]) open_client(who);
    if (!clients[who]) return;
    switch (step & 0x1f) {
    case 0: acquire_lock(who, arg, HF_MUTEX, 0); break;
    case 1: acquire_lock(who, arg, HF_MUTEX, WAIT_MS); break;
    case 2: acquire_async(who, arg); break;
    case 4: inspect_lock(who, arg); break;
    case 5:
        broken = true;
        check_result(hf_break(clients[who], names[arg & 1], arg & 2 ? 7 : 0));
        break;
    case 6: check_result(hf_list(clients[who], arg & 1 ? "n*" : NULL, note_name, &listed)); break;
    case 8: acquire_lock(who, arg, (arg >> 3) % 5u, 0); break;
    case 9: acquire_lock(who, arg, (arg >> 3) % 5u, WAIT_MS); break;
    case 12: acquire_all(who, arg); break;
    case 13: use_latch(who, arg); break;
    case 14: campaign_for(who, arg); break;
    case 15: read_leader(who); break;
    case 17: export_hold(who, arg); break;
    case 18: dispatch_clients(20 * (int64_t)arg); break;
    case 19: close_client(who); break;
    case 20: start_observer(who); break;
    case 21: wire_mishap(arg); break;
    default: on_hold(step & 0x1f, arg); break;
    }
}

static void run_step(const uint8_t *steps, size_t count) {
    for (size_t i = 0; i + 1 < count; i += 2) {
        int64_t began = fake_time_now_ms();
        fake_time_call_begins();
        do_step(steps[i], steps[i + 1]);
        FUZZ_CHECK((steps[i] & 0x1f) == 18 || fake_time_now_ms() - began < CALL_MS);
        check_holds();
        dispatch_clients(0);
        check_holds();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    input in = {data, size};
    size_t count = 2 * (input_byte(&in) % (STEPS_MAX + 1u));
    const uint8_t *steps = input_bytes(&in, &count);
    fake_time_begin();
    wire_begin(in);
    broken = false;
    for (int i = 0; i < WIRE_CLIENTS; i++) open_client(i);
    run_step(steps, count);
    for (int i = 0; i < WIRE_CLIENTS; i++) close_client(i);
    wire_end();
    return 0;
}
