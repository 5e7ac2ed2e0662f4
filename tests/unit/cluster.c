/* SPDX-License-Identifier: Apache-2.0 */
/* What a cluster's store computes without a server: slots of names, the slot map, redirects and
   channels. */
#include "t.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <hiredis/hiredis.h>

#include "store/cluster/map.h"
#include "store/cluster/slot.h"
#include "store/redis/protocol/channels.h"
#include "store/redis/protocol/command.h"
#include "store/redis/protocol/redirect.h"

/* ---- Slots ---- */

static unsigned slot_of(const char *key) {
    return hf__slot_of_key(key, strlen(key));
}

/* As Redis documents and answers them (CLUSTER KEYSLOT). */
static void test_slots_of_keys(void **state) {
    (void)state;
    assert_int_equal(slot_of("123456789"), 12739);
    assert_int_equal(slot_of("foo"), 12182);
    assert_int_equal(slot_of(""), 0);
    assert_int_equal(slot_of("{user1000}.following"), slot_of("user1000"));
    assert_int_equal(slot_of("foo{}{bar}"), 8363);
    assert_int_equal(slot_of("foo{{bar}}zap"), slot_of("{bar"));
    assert_int_equal(slot_of("foo{bar}{zap}"), slot_of("bar"));
    assert_int_equal(slot_of("foo{bar"), 15278);
}

static void test_keys_and_channels_of_a_name_share_its_slot(void **state) {
    (void)state;
    static const char *const names[] = {"a", "{", "}", "{}", "{a}b", "100%", "\xff\x01{x", "a b"};
    static const char *const suffixes[] = {"", ":f", ":q", ":i", ":l", ":lw", ":w", ":c:uuid"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        size_t length = strlen(names[i]);
        for (size_t k = 0; k < sizeof suffixes / sizeof *suffixes; k++) {
            char key[128];
            char *end = hf__key_put(key, "hf", names[i], length, suffixes[k]);
            assert_int_equal(end - key, hf__key_length("hf", names[i], length, suffixes[k]));
            assert_int_equal(hf__slot_of_key(key, (size_t)(end - key)),
                             hf__slot_of_name(names[i], length));
        }
    }
}

/* ---- The answer to CLUSTER SLOTS ---- */

#define NODE(host, port) \
    "*4\r\n" host ":" port "\r\n$2\r\nid\r\n*2\r\n$8\r\nhostname\r\n$1\r\nx\r\n"
#define H1 "$9\r\n127.0.0.1\r\n"
#define ANSWER                                                                               \
    "*3\r\n"                                                                                 \
    "*4\r\n:0\r\n:99\r\n" NODE(H1, "7000") NODE(H1, "7003") "*3\r\n:100\r\n:16382\r\n" NODE( \
        "$-1\r\n", "7001") "*3\r\n:16383\r\n:16383\r\n" NODE("$3\r\n::1\r\n", "7002")

static hf__cluster_slots *parse_slots(const char *text, size_t slice) {
    hf__parser *p = calloc(1, sizeof *p);
    hf__cluster_slots *slots = calloc(1, sizeof *slots);
    assert_true(p && slots && hf__parser_init(p));
    hf__parsed parsed = HF__PARSE_MORE;
    for (size_t at = 0, length = strlen(text); at < length; at += slice) {
        p->reply.slots = slots;
        size_t size = length - at < slice ? length - at : slice;
        assert_int_equal(hf__parser_feed(p, text + at, size), HF_OK);
        parsed = hf__parser_next(p);
    }
    assert_int_equal(parsed, HF__PARSED);
    assert_int_equal(p->reply.type, REDIS_REPLY_ARRAY);
    hf__parser_fini(p);
    free(p);
    return slots;
}

static void test_an_answer_in_any_slices(void **state) {
    (void)state;
    for (size_t slice = 1; slice < 40; slice++) {
        hf__cluster_slots *slots = parse_slots(ANSWER, slice);
        assert_int_equal(slots->nodes, 3); /* replicas are ignored */
        assert_string_equal(hf__cluster_slots_owner(slots, 0), "127.0.0.1:7000");
        assert_string_equal(hf__cluster_slots_owner(slots, 99), "127.0.0.1:7000");
        assert_string_equal(hf__cluster_slots_owner(slots, 100), ":7001");
        assert_string_equal(hf__cluster_slots_owner(slots, 16383), "::1:7002");
        free(slots);
    }
}

/* F39: an invalid range assigns no slots. */
static void test_an_answer_that_is_wrong(void **state) {
    (void)state;
    static const char *const answers[] = {
        "*0\r\n",
        "*1\r\n*3\r\n:0\r\n:16384\r\n" NODE(H1, "7000"),
        "*1\r\n*3\r\n:-1\r\n:5\r\n" NODE(H1, "7000"),
        "*1\r\n*3\r\n:9\r\n:5\r\n" NODE(H1, "7000"),
        "*1\r\n*3\r\n:0\r\n:5\r\n" NODE(H1, "70000"),
        "*1\r\n*3\r\n$1\r\n0\r\n:5\r\n" NODE(H1, "7000"),
        "*2\r\n*1\r\n:0\r\n*1\r\n*1\r\n*1\r\n*0\r\n",
        "*1\r\n*3\r\n:0\r\n:5\r\n*2\r\n*0\r\n*0\r\n",
        "*1\r\n:5\r\n",
    };
    for (size_t i = 0; i < sizeof answers / sizeof *answers; i++) {
        hf__cluster_slots *slots = parse_slots(answers[i], 1000);
        assert_int_equal(slots->nodes, 0);
        for (unsigned slot = 0; slot < HF__SLOT_COUNT; slot++)
            assert_null(hf__cluster_slots_owner(slots, slot));
        free(slots);
    }
}

/* With more nodes than the limit, the answer assigns no slots. */
static void test_an_answer_with_too_many_nodes(void **state) {
    (void)state;
    hf__cluster_slots *slots = calloc(1, sizeof *slots);
    char host[128];
    for (int i = 0; i < HF__SLOT_COUNT; i++) {
        hf__cluster_slots_range(slots);
        hf__cluster_slots_number(slots, 0, i);
        hf__cluster_slots_number(slots, 1, i);
        int length = snprintf(host, sizeof host, "%0100d", i);
        hf__cluster_slots_host(slots, host, (size_t)length);
        hf__cluster_slots_port(slots, 7000);
    }
    assert_true(slots->nodes > 100 && slots->used <= HF__SLOT_TEXT);
    assert_non_null(hf__cluster_slots_owner(slots, slots->nodes - 1));
    assert_null(hf__cluster_slots_owner(slots, slots->nodes));
    free(slots);
}

/* ---- The map ---- */

static hf__cluster_slots *half_and_half(const char *first, const char *second) {
    hf__cluster_slots *s = calloc(1, sizeof *s);
    for (unsigned i = 0; i < HF__SLOT_COUNT; i++)
        hf__cluster_slots_set(s, i, i < HF__SLOT_COUNT / 2 ? first : second);
    return s;
}

static unsigned count_changes(hf__slot_map *m) {
    unsigned n = 0;
    if (!hf__slot_map_take_changed(m)) return 0;
    for (unsigned i = 0; i < HF__SLOT_COUNT; i++) n += hf__slot_map_was_changed(m, i);
    return n;
}

static void test_moved_slots_are_reported_once(void **state) {
    (void)state;
    hf__slot_map m;
    char where[HF__WHERE_TEXT];
    assert_true(hf__slot_map_init(&m));
    assert_false(hf__slot_map_owner(&m, 5, where));
    assert_true(hf__slot_map_adopt(&m, half_and_half("a:1", ":2"), "b"));
    assert_int_equal(count_changes(&m), 0); /* there was no owner before */
    assert_true(hf__slot_map_owner(&m, HF__SLOT_COUNT - 1, where));
    assert_string_equal(where, "b:2"); /* an empty host is the host that answered */
    assert_true(hf__slot_map_has(&m, "b:2") && hf__slot_map_has(&m, "a:1"));
    assert_false(hf__slot_map_has(&m, "a:2"));
    assert_false(hf__slot_map_adopt(&m, half_and_half("a:1", ":2"), "b"));
    assert_int_equal(count_changes(&m), 0);
    assert_true(hf__slot_map_adopt(&m, half_and_half("c:1", ":2"), "b"));
    assert_int_equal(count_changes(&m), HF__SLOT_COUNT / 2);
    assert_true(hf__slot_map_was_changed(&m, 0) &&
                !hf__slot_map_was_changed(&m, HF__SLOT_COUNT - 1));
    assert_int_equal(count_changes(&m), 0);
    hf__slot_map_moved(&m, 7, "d:1");
    hf__slot_map_moved(&m, 8, "c:1"); /* its present owner */
    assert_int_equal(count_changes(&m), 1);
    assert_true(hf__slot_map_owner(&m, 7, where));
    assert_string_equal(where, "d:1");
    hf__slot_map_node_changed(&m, "b:2");
    hf__slot_map_node_changed(&m, "nobody:2");
    assert_int_equal(count_changes(&m), HF__SLOT_COUNT / 2);
    hf__slot_map_fini(&m);
}

/* ---- Redirects ---- */

static void test_redirects(void **state) {
    (void)state;
    hf__redirect d = {0};
    assert_true(hf__redirect_parse("MOVED 3999 127.0.0.1:6381", &d));
    assert_int_equal(d.kind, HF__REDIRECT_MOVED);
    assert_string_equal(d.address, "127.0.0.1:6381");
    assert_true(hf__redirect_parse("ASK 3999 ::1:6381", &d));
    assert_int_equal(d.kind, HF__REDIRECT_ASK);
    assert_string_equal(d.address, "::1:6381");
    assert_true(hf__redirect_parse("MOVED 3999 :6381", &d));
    assert_string_equal(d.address, ":6381");
    assert_true(hf__redirect_parse("TRYAGAIN Multiple keys", &d));
    assert_int_equal(d.kind, HF__REDIRECT_TRY_AGAIN);
    assert_null(d.address);
    assert_true(hf__redirect_parse("CLUSTERDOWN The cluster is down", &d));
    assert_int_equal(d.kind, HF__REDIRECT_DOWN);
    static const char *const odd[] = {
        "MOVED", "MOVED 1", "ASK 1 host", "MOVED 1 host:0", "MOVED 1 host:99999", "ASK 1 host:x"};
    for (size_t i = 0; i < sizeof odd / sizeof *odd; i++) {
        assert_true(hf__redirect_parse(odd[i], &d));
        assert_int_equal(d.kind, HF__REDIRECT_TRY_AGAIN);
        assert_null(d.address);
    }
    /* Inside a script, as each version reports it. */
    static const struct {
        const char *error;
        hf__redirect_kind what;
    } inside[] = {
        {"ERR Error running script (call to f_0123456789abcdef0123456789abcdef01234567): "
         "@user_script:23: @user_script: 23: Lua script attempted to access a non local key in a "
         "cluster node",
         HF__REDIRECT_TRY_AGAIN},
        {"ERR Script attempted to access a non local key in a cluster node script: 0123, on "
         "@user_script:23.",
         HF__REDIRECT_TRY_AGAIN},
        {"ERR Attempted to access a non local key in a cluster node script: 0123, on "
         "@user_script:23.",
         HF__REDIRECT_TRY_AGAIN},
        {"ERR Can not execute a write command 'del' while the cluster is down and readonly script: "
         "0123, on @user_script:23.",
         HF__REDIRECT_DOWN},
        {"ERR Unable to execute command 'del' in script because undeclared keys were accessed "
         "during rehashing of the slot script: 0123, on @user_script:23.",
         HF__REDIRECT_TRY_AGAIN},
        {"ERR Script attempted to access a slot not served script: 0123, on @user_script:23.",
         HF__REDIRECT_DOWN},
        {"ERR Script attempted to execute a write command while the cluster is down and readonly "
         "script: 0123, on @user_script:23.",
         HF__REDIRECT_DOWN},
        {"ERR Error running script (call to f_0123456789abcdef0123456789abcdef01234567): "
         "@user_script:23: @user_script: 23: Lua script attempted to execute a write command while "
         "the cluster is down and readonly",
         HF__REDIRECT_DOWN}};
    for (size_t i = 0; i < sizeof inside / sizeof *inside; i++) {
        assert_true(hf__redirect_parse(inside[i].error, &d));
        assert_int_equal(d.kind, inside[i].what);
        assert_null(d.address);
    }
    assert_false(hf__redirect_parse("ERR no", &d));
    assert_false(hf__redirect_parse("MOVEDON 1 a:1", &d));
}

/* ---- Channels ---- */

#define NOW (1000 * HF__SEC)

typedef struct listening {
    hf__channels channels;
    hf__buffer out;
    hf__parser parser;
    hf__log log;
} listening;

static int set_up(void **state) {
    listening *l = calloc(1, sizeof *l);
    hf__channels_init(&l->channels, "hf", "uuid", 1);
    hf__buffer_init(&l->out, 1 << 20);
    *state = l;
    return hf__parser_init(&l->parser) ? 0 : -1;
}

static int tear_down(void **state) {
    listening *l = *state;
    hf__channels_fini(&l->channels);
    hf__buffer_fini(&l->out);
    hf__parser_fini(&l->parser);
    free(l);
    return 0;
}

static void check_sends(listening *l, hf__time now, const char *expected) {
    hf__buffer_cut(&l->out, 0);
    hf__channels_send(&l->channels, &l->out, now);
    assert_int_equal(l->out.length, strlen(expected));
    assert_memory_equal(l->out.data ? l->out.data : "", expected, l->out.length);
}

static bool feed_event(listening *l, const char *kind) {
    char text[128];
    snprintf(text, sizeof text, "*3\r\n$%zu\r\n%s\r\n$13\r\nhf:{a}:c:uuid\r\n:1\r\n", strlen(kind),
             kind);
    assert_int_equal(hf__parser_feed(&l->parser, text, strlen(text)), HF_OK);
    assert_int_equal(hf__parser_next(&l->parser), HF__PARSED);
    return hf__channels_push(&l->channels, &l->parser.reply);
}

static void check_notified(listening *l, bool expected) {
    size_t length = 0;
    const char *name = hf__channels_next_changed(&l->channels, &length);
    assert_int_equal(name != NULL, expected);
    if (name) assert_true(length == 1 && *name == 'a');
}

#define SUBSCRIBE   "*2\r\n$10\r\nSSUBSCRIBE\r\n$13\r\nhf:{a}:c:uuid\r\n"
#define UNSUBSCRIBE "*2\r\n$12\r\nSUNSUBSCRIBE\r\n$13\r\nhf:{a}:c:uuid\r\n"
#define PLAIN       "*2\r\n$9\r\nSUBSCRIBE\r\n$13\r\nhf:{a}:c:uuid\r\n"

static void subscribe_channel(listening *l) {
    hf__channels_want(&l->channels, "a", 1, NOW);
    check_sends(l, NOW, SUBSCRIBE);
    assert_false(hf__channels_subscribed(&l->channels, "a", 1)); /* not before it is confirmed */
    assert_true(feed_event(l, "ssubscribe"));
    assert_true(hf__channels_subscribed(&l->channels, "a", 1));
    check_notified(l, true);
    check_notified(l, false);
}

static void test_a_channel_counts_when_it_is_confirmed(void **state) {
    listening *l = *state;
    check_sends(l, NOW, "");
    subscribe_channel(l);
    assert_false(feed_event(l, "smessage"));
    hf__channels_want(&l->channels, "a", 1, NOW);
    check_sends(l, NOW, "");
}

static void test_a_channel_whose_slot_moved_is_reported(void **state) {
    listening *l = *state;
    subscribe_channel(l);
    assert_true(feed_event(l, "sunsubscribe"));
    assert_false(hf__channels_subscribed(&l->channels, "a", 1));
    check_notified(l, true);
    check_notified(l, false);
    subscribe_channel(l);
}

static void test_channels_of_a_broken_connection_are_subscribed_again(void **state) {
    listening *l = *state;
    subscribe_channel(l);
    hf__channels_disconnected(&l->channels);
    assert_false(hf__channels_subscribed(&l->channels, "a", 1));
    check_notified(l, true);
    check_sends(l, NOW, SUBSCRIBE);
}

static void test_an_unused_channel_is_unsubscribed(void **state) {
    listening *l = *state;
    subscribe_channel(l);
    check_sends(l, NOW + 29 * HF__SEC, "");
    check_sends(l, NOW + 60 * HF__SEC, UNSUBSCRIBE);
    assert_false(hf__channels_subscribed(&l->channels, "a", 1));
    /* While the unsubscribe is in flight. */
    hf__channels_want(&l->channels, "a", 1, NOW + 61 * HF__SEC);
    assert_true(feed_event(l, "sunsubscribe"));
    check_notified(l, false);
    check_sends(l, NOW + 61 * HF__SEC, SUBSCRIBE);
}

static void test_without_shard_channels_a_plain_one_is_used(void **state) {
    listening *l = *state;
    hf__channels_want(&l->channels, "a", 1, NOW);
    check_sends(l, NOW, SUBSCRIBE);
    assert_true(hf__channels_error(&l->channels, "ERR unknown command 'SSUBSCRIBE'", &l->log));
    check_sends(l, NOW, PLAIN);
    assert_true(feed_event(l, "subscribe"));
    assert_true(hf__channels_subscribed(&l->channels, "a", 1));
    check_notified(l, true);
}

static void test_a_refused_channel_is_not_subscribed(void **state) {
    listening *l = *state;
    hf__channels_want(&l->channels, "a", 1, NOW);
    check_sends(l, NOW, SUBSCRIBE);
    assert_true(hf__channels_error(&l->channels, "MOVED 1 a:1", &l->log));
    assert_false(hf__channels_subscribed(&l->channels, "a", 1));
    check_notified(l, false);
    check_sends(l, NOW, "");
    assert_false(hf__channels_error(&l->channels, "ERR of nothing", &l->log));
}

#define CHANNEL_TEST(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_slots_of_keys),
        cmocka_unit_test(test_keys_and_channels_of_a_name_share_its_slot),
        cmocka_unit_test(test_an_answer_in_any_slices),
        cmocka_unit_test(test_an_answer_that_is_wrong),
        cmocka_unit_test(test_an_answer_with_too_many_nodes),
        cmocka_unit_test(test_moved_slots_are_reported_once),
        cmocka_unit_test(test_redirects),
        CHANNEL_TEST(test_a_channel_counts_when_it_is_confirmed),
        CHANNEL_TEST(test_a_channel_whose_slot_moved_is_reported),
        CHANNEL_TEST(test_channels_of_a_broken_connection_are_subscribed_again),
        CHANNEL_TEST(test_an_unused_channel_is_unsubscribed),
        CHANNEL_TEST(test_without_shard_channels_a_plain_one_is_used),
        CHANNEL_TEST(test_a_refused_channel_is_not_subscribed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
