/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every Lua script with any keys and arguments, over any keys of a server: in the simulator's Lua
 * 5.1, over its model of Redis. A script answers or returns an error. After an error:
 *
 * - nobody holds a lock that did not hold it before;
 * - an acquire, a renewal or a count has changed nothing, with three exceptions: a fence may be
 *   higher, present keys may live longer, and an older hold of the same client, which the acquire
 *   replaces, may have ended;
 * - a release may have released the lock, and no other client has lost its queue position;
 * - a request for notifications of a latch or a leader may be recorded or forgotten.
 *
 * Whatever its answer, a script leaves no lock and no registration without an expiry, and no fence
 * lower than before.
 *
 * The input is lines of fields separated by tabs:
 *
 *     S key value               a string         any field may contain \x00 and other bytes
 *     L key element...          a list
 *     H key field value...      a hash
 *     E key ms                  the key expires
 *     C channel                 somebody is subscribed to the channel
 *     M                         memory is full from now on
 *     P command                 no user may run this command from now on
 *     R script keys argument... run it; keys are ascending digits, such as 0123
 *
 * A key is a digit: an index into the names below. The server's clock always shows NOW.
 */
#include "fuzz.h"

#include "base/map.h"
#include "model/lua.h"
#include "model/model.h"
#include "store/redis/protocol/script.h"
#include "world/probe.h"

#define NOW_US INT64_C(1800000000000000)

enum { FIELDS_MAX = 64, RUNS_MAX = 16 };

/* The keys of two names: the lock, its fence, its queue, when queued clients were last seen, the
   latch, and who is notified of the latch or the leader. Then the key of a client's
   registration. */
static const char *const keys[] = {
    "hf:{a}",   "hf:{a}:f", "hf:{a}:q", "hf:{a}:w", "hf:{a}:l",
    "hf:{a}:x", "hf:{b}",   "hf:{b}:f", "hf:{b}:q", "hf:client:c",
};

static rm_server server;
static rm_conn *conn;

typedef struct input_line {
    rm_bytes field[FIELDS_MAX];
    size_t count;
} input_line;

static bool next_line(input *in, input_line *l) {
    if (!in->left) return false;
    const uint8_t *end = memchr(in->at, '\n', in->left);
    size_t length = end ? (size_t)(end - in->at) : in->left;
    const char *at = (const char *)input_bytes(in, &length), *stop = at + length;
    if (end) (void)input_byte(in);
    for (l->count = 0; l->count < FIELDS_MAX; l->count++) {
        const char *tab = at < stop ? memchr(at, '\t', (size_t)(stop - at)) : NULL;
        l->field[l->count] = (rm_bytes){at, (size_t)((tab ? tab : stop) - at)};
        if (!tab) {
            l->count++;
            break;
        }
        at = tab + 1;
    }
    return true;
}

static rm_bytes key_name(rm_bytes digit, size_t at) {
    char c = at < digit.length ? digit.at[at] : '9';
    return rm_text(keys[c >= '0' && c <= '9' ? c - '0' : 9]);
}

/* ---- Keys before the script ---- */

static void add_items(const input_line *l, rm_key *key) {
    size_t step = key->type == RM_HASH ? 2 : 1;
    for (size_t i = 2; i + step <= l->count; i += step) {
        if (key->type == RM_HASH && rm_index(key, l->field[i]) >= 0) continue;
        rm_insert(key, key->count, l->field[i]);
        if (step == 2) rm_set_value(key, key->count - 1, l->field[i + 1]);
        if (key->type == RM_STRING) break;
    }
    if (!key->count) rm_keys_remove(&server.db[0], key);
}

static void put_key(const input_line *l, rm_type type) {
    rm_bytes name = key_name(l->field[1], 0);
    rm_key *old = rm_keys_find(&server.db[0], name, NOW_US / 1000);
    if (old) rm_keys_remove(&server.db[0], old);
    add_items(l, rm_keys_make(&server.db[0], name, type));
}

static void end_key(const input_line *l) {
    int64_t ms = 0;
    rm_key *key = rm_keys_find(&server.db[0], key_name(l->field[1], 0), NOW_US / 1000);
    if (!key || l->count < 3 || !rm_integer(l->field[2], &ms) || ms < 1 || ms > 1000000000) return;
    key->expires_ms = NOW_US / 1000 + ms;
}

/* A command in RESP, from a client that does not use the lock. */
static void send_command(rm_conn *c, const rm_bytes *words, size_t count) {
    hf__buffer out;
    hf__buffer_init(&out, RM_BYTES_MAX);
    rm_array(&out, count);
    for (size_t i = 0; i < count; i++) rm_bulk(&out, words[i]);
    rm_feed(c, out.data, out.length);
    hf__buffer_fini(&out);
}

static void listen_to(const input_line *l) {
    rm_bytes words[] = {rm_text("SUBSCRIBE"), l->field[1]};
    if (l->count > 1) send_command(rm_connect(&server, NULL), words, 2);
}

/* ---- Comparing the keys ---- */

static int by_name(const void *a, const void *b) {
    rm_bytes x = rm_key_name(*(rm_key *const *)a), y = rm_key_name(*(rm_key *const *)b);
    size_t least = x.length < y.length ? x.length : y.length;
    int order = memcmp(x.at, y.at, least);
    return order ? order : (x.length > y.length) - (x.length < y.length);
}

enum { KEYS_MAX = 256, NAMES = 2, LINE_MAX = 256, NOTES = 3, WATCHERS = 5, WHO = 9 };

/* For each name: the indexes of its keys above. */
static const int locks[NAMES] = {0, 6}, fences[NAMES] = {1, 7}, lines[NAMES] = {2, 8};

static bool is_fence(rm_bytes name) {
    return rm_same(name, rm_text(keys[fences[0]])) || rm_same(name, rm_text(keys[fences[1]]));
}

/* A lock without a holder: a grant that is undone may leave nothing of it. Or a lock with several
   holders: those whose lease has ended are removed. */
static bool is_open_lock(const rm_key *key) {
    bool lock = rm_same(rm_key_name(key), rm_text(keys[locks[0]])) ||
                rm_same(rm_key_name(key), rm_text(keys[locks[1]]));
    int64_t at = lock && key->type == RM_HASH ? rm_index(key, rm_text("n")) : -1;
    return lock && key->type == RM_HASH &&
           (at < 0 || (key->items[at].value.length && *key->items[at].value.at == '*'));
}

static rm_bytes asker; /* of an acquire: client:id */

/* A hold of the same client, under an acquire id that is not higher than the present one: the
   client no longer knows it. */
static bool is_replaced(const rm_key *key) {
    int64_t at = key->type == RM_HASH ? rm_index(key, rm_text("n")) : -1;
    const char *sign = asker.length ? memchr(asker.at, ':', asker.length) : NULL;
    size_t client = sign ? (size_t)(sign - asker.at) + 1 : 0;
    if (at < 0 || !client || key->items[at].value.length <= client) return false;
    if (memcmp(key->items[at].value.at, asker.at, client) != 0) return false;
    char *held = rm_copy(key->items[at].value), *asked = rm_copy(asker);
    bool older = strtod(held + client, NULL) <= strtod(asked + client, NULL);
    free(held);
    free(asked);
    return older;
}

/* Queue entries of clients that no longer send requests may be removed; the view contains the part
   that is checked. Clients do not rely on notifications of latches and leaders. */
static bool is_queue_key(rm_bytes name) {
    return rm_same(name, rm_text(keys[lines[0]])) || rm_same(name, rm_text(keys[lines[1]])) ||
           rm_same(name, rm_text(keys[NOTES])) || rm_same(name, rm_text(keys[WATCHERS]));
}

static bool is_shown(const rm_key *key) {
    rm_bytes name = rm_key_name(key);
    bool there = key->expires_ms == RM_FOREVER || key->expires_ms > NOW_US / 1000;
    return there && !is_fence(name) && !is_open_lock(key) && !is_replaced(key) &&
           !is_queue_key(name) && !rm_same(name, rm_text(keys[WHO]));
}

/* A client's registration must expire too. */
static bool is_known_for_ever(void) {
    const rm_key *key = rm_look(&server, keys[WHO]);
    return key && key->expires_ms == RM_FOREVER;
}

/* The mark for a possible queue follows the holder, and does not change who holds. */
static rm_bytes without_mark(rm_bytes value) {
    if (value.length > 1 && !memcmp(value.at + value.length - 2, " q", 2)) value.length -= 2;
    return value;
}

/* Writes all keys except fences and queues, without their expiry. */
static void write_keys(hf__buffer *out) {
    rm_key *all[KEYS_MAX], *key = NULL;
    size_t count = 0;
    hf__buffer_init(out, RM_BYTES_MAX);
    while (count < KEYS_MAX && (key = rm_keys_next(&server.db[0], key)))
        if (is_shown(key)) all[count++] = key;
    qsort(all, count, sizeof *all, by_name);
    for (size_t i = 0; i < count; i++) {
        rm_bulk(out, rm_key_name(all[i]));
        rm_number(out, all[i]->type);
        for (size_t k = 0; k < all[i]->count; k++) {
            rm_bulk(out, all[i]->items[k].text);
            if (all[i]->type == RM_HASH) rm_bulk(out, without_mark(all[i]->items[k].value));
        }
    }
}

static bool same_bytes(const hf__buffer *a, const hf__buffer *b) {
    return a->length == b->length && (!a->length || !memcmp(a->data, b->data, a->length));
}

/* The checked state of one name. */
typedef struct view {
    bool endless;
    double token;      /* of the fence; 0: there is none */
    hf__buffer holder; /* `n`, without its mark */
    unsigned inside;   /* holders, of a shared lock */
    char *line[LINE_MAX];
    size_t length;
} view;

static void look_at_lock(view *v, const rm_key *key) {
    v->endless = key->expires_ms == RM_FOREVER;
    for (size_t i = 0; key->type == RM_HASH && i < key->count; i++) {
        rm_bytes field = key->items[i].text, value = key->items[i].value;
        if (memchr(field.at, '#', field.length)) v->inside++;
        if (!rm_same(field, rm_text("n"))) continue;
        value = without_mark(value);
        hf__buffer_add(&v->holder, value.at, value.length);
    }
}

/* Skips a word and a space; with `number` the word must begin with a digit. NULL: no match. */
static const char *past_word(const char *text, bool number) {
    size_t length = strcspn(text, " \t\n\v\f\r");
    if (!length || text[length] != ' ' || (number && !strchr("0123456789", *text))) return NULL;
    return text + length + 1;
}

static bool is_number(const char *text, const char *end) {
    return text + strspn(text, "0123456789") == end;
}

/* From its sign on: see part/queue.lua. A script may remove an invalid entry at any time. */
static bool is_entry(const char *text) {
    const char *number = *text == ':' || *text == '#' ? text + 1 : NULL;
    const char *owner = number ? past_word(number, true) : NULL;
    const char *lease = owner && is_number(number, owner - 1) ? past_word(owner, false) : NULL;
    const char *floor = lease ? past_word(lease, true) : NULL;
    return floor && *floor >= '0' && *floor <= '9';
}

/* A valid entry whose client has sent a request recently. */
static bool is_live_entry(rm_bytes entry) {
    char *text = rm_copy(entry), client[64];
    size_t length = strcspn(text, ":# \t\n\v\f\r");
    bool whole = length < 37 && is_entry(text + length) && strlen(text) == entry.length;
    if (text[length] == '#') length = strcspn(text, " ");
    snprintf(client, sizeof client, "%.*s", (int)length, text);
    free(text);
    const rm_key *notes = rm_look(&server, keys[NOTES]);
    int64_t at = notes && notes->type == RM_HASH ? rm_index(notes, rm_text(client)) : -1;
    if (!whole || at < 0) return false;
    char *said = rm_copy(notes->items[at].value);
    double seen = strtod(said, NULL);
    bool fresh = strspn(said, "0123456789 ") == strlen(said) && strchr(said, ' ') &&
                 seen > NOW_US - 1000000 && seen <= NOW_US;
    free(said);
    return fresh;
}

static void take_view(view *v, int name) {
    *v = (view){0};
    hf__buffer_init(&v->holder, RM_BYTES_MAX);
    const rm_key *lock = rm_look(&server, keys[locks[name]]);
    if (lock) look_at_lock(v, lock);
    const rm_key *fence = rm_look(&server, keys[fences[name]]);
    if (fence && fence->type == RM_STRING) {
        char *text = rm_copy(fence->items[0].text);
        v->token = text[strspn(text, "0123456789")] & ~' ' ? 0 : strtod(text, NULL);
        if (v->token > 9007199254740992.0) v->token = 0; /* larger than a script can count */
        free(text);
    }
    const rm_key *q = rm_look(&server, keys[lines[name]]);
    for (size_t i = 0; q && q->type == RM_LIST && i < q->count && i < LINE_MAX; i++)
        if (is_live_entry(q->items[i].text)) v->line[v->length++] = rm_copy(q->items[i].text);
}

static void free_view(view *v) {
    hf__buffer_fini(&v->holder);
    for (size_t i = 0; i < v->length; i++) free(v->line[i]);
}

/* ---- Invariants ---- */

static bool is_queued(const view *v, const char *entry) {
    for (size_t i = 0; i < v->length; i++)
        if (!strcmp(v->line[i], entry)) return true;
    return false;
}

/* Whether the entry belongs to the caller, which may give up its own position. */
static bool is_own(const char *entry, rm_bytes id) {
    size_t length = id.length < 36 ? id.length : 36;
    return !strncmp(entry, id.at, length);
}

static void check_failed(const view *before, const view *after, const input_line *l) {
    bool held = after->holder.length > 0;
    FUZZ_CHECK(!held || same_bytes(&before->holder, &after->holder));
    FUZZ_CHECK(after->inside <= before->inside);
    for (size_t i = 0; i < before->length; i++)
        FUZZ_CHECK(is_queued(after, before->line[i]) ||
                   (l->count > 3 && is_own(before->line[i], l->field[3])));
}

static void check_views(const view *before, const view *after, const input_line *l, bool failed) {
    FUZZ_CHECK(before->endless || !after->endless);
    FUZZ_CHECK(after->token >= before->token || after->token <= 0);
    if (failed) check_failed(before, after, l);
}

/* ---- Running ---- */

static const hf__script *find_script(rm_bytes name) {
    const hf__script *const *s = sim_scripts;
    while (*s && !rm_same(rm_text((*s)->name), name)) s++;
    return *s;
}

static size_t words_of(const input_line *l, const hf__script *script, rm_bytes *words) {
    static char number[8];
    size_t count = l->field[2].length < 9 ? l->field[2].length : 9, n = 0;
    snprintf(number, sizeof number, "%zu", count);
    words[n++] = rm_text("EVAL");
    words[n++] = (rm_bytes){script->text, script->length};
    words[n++] = rm_text(number);
    for (size_t i = 0; i < count; i++) words[n++] = key_name(l->field[2], i);
    for (size_t i = 3; i < l->count; i++) words[n++] = l->field[i];
    return n;
}

static bool lets_go(const hf__script *s) {
    return !strcmp(s->name, "release") || !strcmp(s->name, "shared_release") ||
           !strcmp(s->name, "break");
}

/* A client passes the keys of a script in their order, and never keys of another kind. */
static bool are_its_keys(const hf__script *s, rm_bytes digits) {
    static const struct {
        const char *script, *digits;
    } keys_of[] = {
        {"inspect", "02"},
        {"leader", "05"},
        {"proclaim", "05"},
        {"raise_token", "01"},
        {"renew", "0"},
        {"transfer", "0"},
        {"register_client", "9"},
        {"latch_count_down", "45"},
        {"list", ""},
        {"latch_set", "45"},
        {"latch_get", "45"},
        {"uptime", ""},
    };
    const char *wanted = "0123";
    for (size_t i = 0; i < sizeof keys_of / sizeof *keys_of; i++)
        if (!strcmp(keys_of[i].script, s->name)) wanted = keys_of[i].digits;
    return digits.length >= strlen(wanted) && !memcmp(digits.at, wanted, strlen(wanted));
}

/* No client passes a key twice. */
static bool are_distinct(rm_bytes digits) {
    for (size_t i = 1; i < digits.length; i++)
        if (digits.at[i] <= digits.at[i - 1]) return false;
    return !digits.length || (digits.at[0] >= '0' && digits.at[digits.length - 1] <= '9');
}

static void run_script(const input_line *l) {
    rm_bytes words[FIELDS_MAX + 16];
    view before[NAMES], after[NAMES];
    hf__buffer shown, then;
    const hf__script *script = l->count > 2 ? find_script(l->field[1]) : NULL;
    if (!script || !are_distinct(l->field[2]) || !are_its_keys(script, l->field[2])) return;
    asker = l->count > 3 && !strcmp(script->name, "acquire") ? l->field[3] : rm_text("");
    for (int i = 0; i < NAMES; i++) take_view(&before[i], i);
    write_keys(&shown);
    bool known = is_known_for_ever();
    hf__buffer_cut(&conn->out, 0);
    send_command(conn, words, words_of(l, script, words));
    for (int i = 0; i < NAMES; i++) take_view(&after[i], i);
    write_keys(&then);
    FUZZ_CHECK(conn->out.length && !conn->failed);
    if (getenv("FUZZ_TELL")) fprintf(stderr, "%.*s", (int)conn->out.length, conn->out.data);
    bool failed = conn->out.data[0] == '-';
    if (failed && !lets_go(script)) FUZZ_CHECK(same_bytes(&shown, &then));
    FUZZ_CHECK(known || !is_known_for_ever());
    for (int i = 0; i < NAMES; i++) {
        check_views(&before[i], &after[i], l, failed);
        free_view(&before[i]);
        free_view(&after[i]);
    }
    hf__buffer_fini(&shown);
    hf__buffer_fini(&then);
}

static char refused[64];

static void refuse_command(const input_line *l) {
    if (l->count < 2) return;
    size_t n = l->field[1].length < sizeof refused - 1 ? l->field[1].length : sizeof refused - 1;
    memcpy(refused, l->field[1].at, n);
    refused[n] = '\0';
    server.refused = refused;
}

static void do_line(const input_line *l, unsigned *runs) {
    switch (l->field[0].length ? l->field[0].at[0] : ' ') {
    case 'S': put_key(l, RM_STRING); break;
    case 'L': put_key(l, RM_LIST); break;
    case 'H': put_key(l, RM_HASH); break;
    case 'E': end_key(l); break;
    case 'C': listen_to(l); break;
    case 'M': server.memory_full = true; break;
    case 'P': refuse_command(l); break;
    case 'R':
        if ((*runs)++ < RUNS_MAX) run_script(l);
        break;
    default: break;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    input in = {data, size};
    input_line l = {.count = 0};
    unsigned runs = 0;
    rm_init(&server);
    server.now_us = NOW_US;
    conn = rm_connect(&server, NULL);
    while (next_line(&in, &l))
        if (l.count > 1 || (l.field[0].length && l.field[0].at[0] == 'M')) do_line(&l, &runs);
    rm_fini(&server);
    return 0;
}
