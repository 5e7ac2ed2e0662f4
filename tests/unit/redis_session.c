/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The protocol half of the Redis store, fed by hand: no socket, no clock.
 *
 * A test supplies the server's answers, and checks the bytes to be sent and the completed
 * operations.
 */
#include "t.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store/redis/protocol/script.h"
#include "store/redis/protocol/server_error.h"
#include "store/redis/protocol/session.h"

#define CLIENT "11111111-2222-4333-8444-555555555555"
#define NOW    (100 * HF__SEC)
#define TIME   "*2\r\n$4\r\n1000\r\n$3\r\n500\r\n" /* 1000.000500 s */
#define SERVER INT64_C(1000000500)                 /* the same in µs */

struct session_fixture {
    hf__url url;
    hf__identity who;
    hf__log log;
    hf__session s;
    hf__op op[4];
    hf__lock_info sight;
    hf__list_walk listing;
};

static int set_up(void **state) {
    struct session_fixture *f = calloc(1, sizeof *f);
    if (!f || hf__url_parse(&f->url, "redis://h")) return -1;
    f->who = (hf__identity){.client = CLIENT, .pid = 7, .host = "ho", .program = "pr"};
    hf__log_init(&f->log, NULL, NULL, 0);
    *state = f;
    return hf__session_init(&f->s, HF__COMMANDS, &f->url, &f->who, &f->log, "h:6379") ? 0 : -1;
}

static int tear_down(void **state) {
    struct session_fixture *f = *state;
    hf__session_fini(&f->s);
    hf__url_fini(&f->url);
    for (size_t i = 0; i < 4; i++) free(f->op[i].detail);
    free(f);
    return 0;
}

/* ---- Steps ---- */

static void feed_at(struct session_fixture *f, const char *bytes, hf__time now) {
    char *detail = NULL;
    f->s.unsent = 0; /* the answered request was sent */
    hf_result r = hf__session_feed(&f->s, bytes, strlen(bytes), now, &detail);
    if (r) fail_msg("%s: %s", hf_result_name(r), detail);
}

static void feed_now(struct session_fixture *f, const char *bytes) {
    feed_at(f, bytes, NOW);
}

/* Feeds bytes that make the connection unusable; the detail has this text. */
static void feed_bad(struct session_fixture *f, const char *bytes, hf_result result,
                     const char *mentions) {
    char *detail = NULL;
    f->s.unsent = 0; /* the answered request was sent */
    hf_result r = hf__session_feed(&f->s, bytes, strlen(bytes), NOW, &detail);
    if (r != result || !detail || !strstr(detail, mentions))
        fail_msg("\"%s\": %s (%s), not %s with \"%s\"", bytes, hf_result_name(r), detail,
                 hf_result_name(result), mentions);
    free(detail);
}

static void forget_sent(struct session_fixture *f) {
    hf__buffer_cut(&f->s.out, 0);
}

static void assert_sent(struct session_fixture *f, const char *bytes) {
    assert_int_equal(f->s.out.length, strlen(bytes));
    assert_memory_equal(f->s.out.data, bytes, strlen(bytes));
    forget_sent(f);
}

/* Returns true if the bytes to be sent contain a text. */
static bool will_send(const struct session_fixture *f, const char *text) {
    return f->s.out.length && memmem(f->s.out.data, f->s.out.length, text, strlen(text));
}

static void begin_session(struct session_fixture *f) {
    T_HF(HF_OK, hf__session_begin(&f->s, NULL, NOW));
}

/* Logged in, registered, with nothing in flight and nothing to send. */
static void be_ready(struct session_fixture *f) {
    begin_session(f);
    feed_now(f, TIME);
    feed_now(f, ":1000000500\r\n");
    assert_int_equal(f->s.state, HF__READY);
    assert_int_equal(f->s.in_flight, 0);
    forget_sent(f);
}

static hf__op *submit_op(struct session_fixture *f, size_t i, hf__verb verb) {
    hf__op *op = &f->op[i];
    free(op->detail);
    *op = (hf__op){.verb = verb,
                   .name = "na",
                   .name_length = 2,
                   .owner = {3, false},
                   .acquire_id = 5,
                   .token = 9,
                   .lease_ms = 1000,
                   .count = 2,
                   .not_after = NOW + 2 * HF__SEC};
    if (verb == HF__LIST)
        op->list_walk = &f->listing;
    else
        op->lock_info = &f->sight;
    f->sight = (hf__lock_info){0};
    f->listing = (hf__list_walk){.prefix = "n*{", .prefix_length = 3};
    snprintf(f->sight.identity.client, sizeof f->sight.identity.client, "%s", CLIENT);
    hf__session_submit(&f->s, op, NOW);
    return op;
}

static void assert_completed(struct session_fixture *f, const hf__op *op, hf_result result,
                             bool maybe) {
    assert_ptr_equal(hf__session_completed(&f->s), op);
    if (op->result != result || op->outcome_unknown != maybe)
        fail_msg("completed as %s%s (%s), not %s%s", hf_result_name(op->result),
                 op->outcome_unknown ? ", maybe" : "", op->detail, hf_result_name(result),
                 maybe ? ", maybe" : "");
}

/* ---- Login ---- */

static void test_login_sends_only_time(void **state) {
    struct session_fixture *f = *state;
    begin_session(f);
    assert_int_equal(f->s.state, HF__LOGIN);
    assert_sent(f, "*1\r\n$4\r\nTIME\r\n");
    assert_int_equal(hf__session_waits_since(&f->s), NOW);
    feed_at(f, TIME, NOW + 3 * HF__MS);
    assert_int_equal(f->s.state, HF__READY);
    assert_int_equal(f->s.link, 1);
    assert_int_equal(f->s.round_trip_us, 3000);
    assert_true(will_send(f, "EVALSHA"));
    assert_true(will_send(f, hf__script_register_client.sha1));
    assert_true(will_send(f, "hf:client:" CLIENT));
}

static void test_login_with_all(void **state) {
    struct session_fixture *f = *state;
    hf__url_fini(&f->url);
    T_HF(HF_OK, hf__url_parse(&f->url, "redis://us:x@h/2"));
    T_HF(HF_OK, hf__session_begin(&f->s, "pw", NOW));
    assert_sent(f, "*3\r\n$4\r\nAUTH\r\n$2\r\nus\r\n$2\r\npw\r\n*2\r\n$6\r\nSELECT\r\n$1\r\n2\r\n"
                   "*1\r\n$4\r\nTIME\r\n");
    feed_now(f, "+OK\r\n");
    feed_now(f, "+OK\r\n");
    assert_int_equal(f->s.state, HF__LOGIN);
    feed_now(f, TIME);
    assert_int_equal(f->s.state, HF__READY);
}

static void test_login_with_password_only(void **state) {
    struct session_fixture *f = *state;
    T_HF(HF_OK, hf__session_begin(&f->s, "p w", NOW));
    assert_sent(f, "*2\r\n$4\r\nAUTH\r\n$3\r\np w\r\n*1\r\n$4\r\nTIME\r\n");
}

static void test_login_refused(void **state) {
    static const struct {
        const char *answer;
        hf_result result;
        const char *mentions;
    } rows[] = {
        {"-WRONGPASS invalid username-password pair\r\n", HF_REFUSED, "h:6379"},
        {"-NOAUTH Authentication required.\r\n", HF_REFUSED, "password_file"},
        {"-DENIED Redis is running in protected mode\r\n", HF_REFUSED, "protected"},
        {"-ERR max number of clients reached\r\n", HF_UNREACHABLE, "maxclients"},
        {"-LOADING Redis is loading the dataset in memory\r\n", HF_UNREACHABLE, "loading"},
        {"-NOPERM this user has no permissions\r\n", HF_REFUSED, "ACL"},
        {"+OK\r\n", HF_PROTOCOL, "is it one?"},
        {":1\r\n", HF_PROTOCOL, "is it one?"},
        {"*1\r\n:1\r\n", HF_PROTOCOL, "is it one?"},
        {"*2\r\n:1\r\n+x\r\n", HF_PROTOCOL, "is it one?"},
        {"*2\r\n$-1\r\n$-1\r\n", HF_PROTOCOL, "is it one?"},
        {"HTTP/1.1 400 Bad Request\r\n", HF_PROTOCOL, "is it one?"},
        {"*3000\r\n", HF_PROTOCOL, "is it one?"},
    };
    struct session_fixture *f = *state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        begin_session(f);
        feed_bad(f, rows[i].answer, rows[i].result, rows[i].mentions);
        hf__session_break(&f->s);
        assert_int_equal(f->s.state, HF__AWAY);
    }
}

static void test_login_expects_ok_before_the_time(void **state) {
    struct session_fixture *f = *state;
    T_HF(HF_OK, hf__session_begin(&f->s, "pw", NOW));
    feed_bad(f, ":1\r\n", HF_PROTOCOL, "is it one?");
}

static void test_half_an_answer_does_not_outlive_its_connection(void **state) {
    struct session_fixture *f = *state;
    begin_session(f);
    feed_now(f, "*2\r\n$4\r\n10");
    hf__session_break(&f->s);
    begin_session(f);
    feed_now(f, TIME);
    assert_int_equal(f->s.state, HF__READY);
}

static void test_registers_again_and_unregisters(void **state) {
    struct session_fixture *f = *state;
    be_ready(f);
    hf__time due = hf__session_due(&f->s);
    assert_true(due > NOW && due <= NOW + 60 * HF__SEC);
    hf__session_tick(&f->s, due - 1);
    assert_int_equal(f->s.out.length, 0);
    hf__session_tick(&f->s, due);
    assert_true(will_send(f, hf__script_register_client.sha1));
    assert_int_equal(hf__session_due(&f->s), HF__NEVER);
    feed_now(f, "-OOM command not allowed\r\n"); /* registration is optional */
    assert_int_equal(f->s.state, HF__READY);
    forget_sent(f);
    hf__session_unregister(&f->s);
    assert_sent(f, "*2\r\n$3\r\nDEL\r\n$46\r\nhf:client:" CLIENT "\r\n");
}

/* ---- Requests ---- */

static void assert_sends_script(struct session_fixture *f, const hf__script *script,
                                const char *rest) {
    char bytes[1024];
    const char *count = strchr(rest, '|');
    snprintf(bytes, sizeof bytes, "*%.*s\r\n$7\r\nEVALSHA\r\n$40\r\n%s\r\n%s", (int)(count - rest),
             rest, script->sha1, count + 1);
    assert_sent(f, bytes);
}

#define KEY   "$7\r\nhf:{na}\r\n"
#define FENCE "$9\r\nhf:{na}:f\r\n"
#define ID    "$38\r\n" CLIENT ":5\r\n"
#define LINE  "$9\r\nhf:{na}:q\r\n"
#define INDEX "$9\r\nhf:{na}:i\r\n"

static void test_commands(void **state) {
    struct session_fixture *f = *state;
    be_ready(f);
    submit_op(f, 0, HF__ACQUIRE); /* not after 2 s from now: on the server's clock 1002.000500 s */
    assert_sends_script(f, &hf__script_acquire,
                        "13|$1\r\n4\r\n" KEY FENCE LINE INDEX ID "$39\r\n" CLIENT
                        ":t3\r\n$4\r\n1000\r\n"
                        "$10\r\n1002000500\r\n$1\r\n9\r\n$10\r\n1000000500\r\n");
    submit_op(f, 1, HF__RENEW);
    assert_sends_script(f, &hf__script_renew,
                        "9|$1\r\n1\r\n" KEY "$38\r\n" CLIENT ":5\r\n$39\r\n" CLIENT ":t3\r\n"
                        "$1\r\n2\r\n$4\r\n1000\r\n$1\r\n9\r\n");
    submit_op(f, 2, HF__RELEASE);
    assert_sends_script(f, &hf__script_release, "8|$1\r\n4\r\n" KEY FENCE LINE INDEX ID);
    submit_op(f, 3, HF__INSPECT);
    assert_sends_script(f, &hf__script_inspect, "5|$1\r\n2\r\n" KEY LINE);
    assert_int_equal(f->s.in_flight, 4);
}

/* A node that is moving the slot then refuses a script before it begins. Scripts with a single
   key need no such key. */
static void test_scripts_of_a_cluster_declare_a_key_that_never_exists(void **state) {
    static const hf__verb several[] = {HF__ACQUIRE, HF__RELEASE, HF__BREAK, HF__LEADER},
                          others[] = {HF__RENEW, HF__INSPECT, HF__LIST};
    struct session_fixture *f = *state;
    be_ready(f);
    for (int in_cluster = 0; in_cluster < 2; in_cluster++) {
        f->url.in_cluster = in_cluster;
        for (size_t i = 0; i < sizeof several / sizeof *several; i++) {
            forget_sent(f);
            submit_op(f, i, several[i]);
            assert_int_equal(will_send(f, "$14\r\nhf:{na}:absent\r\n"), in_cluster);
        }
        for (size_t i = 0; i < sizeof several / sizeof *several; i++) feed_now(f, "-ERR no\r\n");
        while (hf__session_completed(&f->s)) continue;
        for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
            forget_sent(f);
            submit_op(f, i, others[i]);
            assert_false(will_send(f, "absent"));
        }
        for (size_t i = 0; i < sizeof others / sizeof *others; i++) feed_now(f, "-ERR no\r\n");
        while (hf__session_completed(&f->s)) continue;
    }
}

static void test_list(void **state) {
    struct session_fixture *f = *state;
    be_ready(f);
    /* n*{…: the star is escaped, the brace is encoded as in a key */
    hf__op *op = submit_op(f, 0, HF__LIST);
    assert_sends_script(f, &hf__script_list,
                        "6|$1\r\n0\r\n$1\r\n0\r\n$11\r\nhf:{n\\*%7B*\r\n$0\r\n\r\n");
    feed_now(f, "*8\r\n:1\r\n:1\r\n$1\r\n5\r\n$0\r\n\r\n"
                "$6\r\nhf:{a}\r\n$13\r\nhf:{%7B%}b}:q\r\n$7\r\nhf:{%7}\r\n$5\r\nhf:{}\r\n");
    assert_completed(f, op, HF_OK, false);
    assert_false(f->listing.finished);
    assert_int_equal(f->listing.cursor, 5);
    assert_int_equal(f->listing.count, 1);
    assert_string_equal(f->listing.names[0].name, "a");
    assert_false(f->listing.names[0].from_queue);
    f->listing.prefix_length = 0;
    op = submit_op(f, 0, HF__LIST);
    feed_now(f, "*5\r\n:1\r\n:1\r\n$1\r\n0\r\n$0\r\n\r\n$16\r\nhf:{%7B%25%7D}:q\r\n");
    assert_completed(f, op, HF_OK, false);
    assert_true(f->listing.finished);
    assert_string_equal(f->listing.names[0].name, "{%}");
    assert_true(f->listing.names[0].from_queue);
}

static void test_more_commands(void **state) {
    struct session_fixture *f = *state;
    be_ready(f);
    submit_op(f, 0, HF__BREAK);
    assert_sends_script(f, &hf__script_break,
                        "9|$1\r\n4\r\n" KEY FENCE LINE INDEX "$1\r\n9\r\n$10\r\n1002000500\r\n");
    submit_op(f, 1, HF__CLIENT_INFO);
    assert_sent(f, "*6\r\n$5\r\nHMGET\r\n$46\r\nhf:client:" CLIENT "\r\n$4\r\nhost\r\n$3\r\npid\r\n"
                   "$7\r\nprogram\r\n$5\r\nlabel\r\n");
    f->op[2] = (hf__op){.verb = HF__RELEASE,
                        .name = "na",
                        .name_length = 2,
                        .acquire_id = 5,
                        .tombstone_until = NOW + HF__SEC};
    hf__session_submit(&f->s, &f->op[2], NOW);
    assert_true(will_send(f, "$10\r\n1001000500\r\n"));
}

/* The server's time is sampled with every answer. It counts from the answer's arrival, so a time
   is never too late. */
static void test_not_after_follows_the_newest_sample(void **state) {
    struct session_fixture *f = *state;
    be_ready(f);
    hf__op *op = submit_op(f, 0, HF__RENEW);
    feed_at(f, ":5000000000\r\n", NOW + 50 * HF__MS);
    assert_completed(f, op, HF_OK, false);
    forget_sent(f);
    submit_op(f, 1, HF__ACQUIRE);
    assert_true(will_send(f, "$10\r\n5001950000\r\n"));
    assert_int_equal(f->op[1].sent_at, NOW);
    assert_int_equal(f->op[1].link, 1);
}

/* ---- Answers ---- */

/* A sufficient answer for each verb, and how it completes the operation. */
static const struct {
    hf__verb verb;
    const char *answer;
    hf_result result;
    uint64_t token;
    int64_t retry_ms;
} answers[] = {
    {HF__ACQUIRE, "*3\r\n:1\r\n:1\r\n:77\r\n", HF_OK, 77, 0},
    {HF__ACQUIRE, "*5\r\n:0\r\n:1\r\n:5000\r\n:0\r\n:7\r\n", HF_BUSY, 9, 10},
    {HF__ACQUIRE, "*5\r\n:0\r\n:1\r\n:3\r\n:0\r\n:7\r\n", HF_BUSY, 9, 4},
    {HF__ACQUIRE, "*5\r\n:0\r\n:1\r\n:-1\r\n:0\r\n:7\r\n", HF_BUSY, 9, 10},
    {HF__ACQUIRE, ":1794772518289258\r\n", HF_OK, 1794772518289258, 0},
    {HF__RENEW, ":1\r\n", HF_OK, 9, 0},
    {HF__RENEW, ":-1\r\n", HF_LOST, 9, 0},
    {HF__RAISE_TOKEN, ":1\r\n", HF_OK, 9, 0},
    {HF__RAISE_TOKEN, ":-1\r\n", HF_LOST, 9, 0},
    {HF__UPTIME, ":77\r\n", HF_OK, 9, 77000}, /* age_ms */
    {HF__UPTIME, ":-1\r\n", HF_OK, 9, -1},
    {HF__RELEASE, ":1\r\n", HF_OK, 9, 0},
    {HF__RELEASE, ":0\r\n", HF_LOST, 9, 0},
    {HF__BREAK, "*3\r\n:1\r\n:1\r\n:9\r\n", HF_OK, 9, 0},
    {HF__BREAK, "*3\r\n:0\r\n:1\r\n:8\r\n", HF_NOT_HELD, 8, 0},
    {HF__BREAK, "*3\r\n:0\r\n:1\r\n:0\r\n", HF_NOT_HELD, 0, 0},
    {HF__INSPECT, "*3\r\n:0\r\n:1\r\n:0\r\n", HF_OK, 9, 0},
};

static void test_answers(void **state) {
    struct session_fixture *f = *state;
    be_ready(f);
    for (size_t i = 0; i < sizeof answers / sizeof *answers; i++) {
        hf__op *op = submit_op(f, 0, answers[i].verb);
        feed_now(f, answers[i].answer);
        assert_completed(f, op, answers[i].result, false);
        assert_int_equal(op->token, answers[i].token);
        assert_int_equal(op->retry_ms, answers[i].retry_ms);
        assert_null(hf__session_completed(&f->s));
    }
    assert_int_equal(f->s.in_flight, 0);
}

static void test_retries_back_off(void **state) {
    struct session_fixture *f = *state;
    static const int64_t expected[] = {10, 20, 40, 100, 100};
    be_ready(f);
    for (uint32_t i = 0; i < 5; i++) {
        hf__op *op = submit_op(f, 0, HF__ACQUIRE);
        op->attempt = i;
        feed_now(f, "*5\r\n:0\r\n:1\r\n:30000\r\n:0\r\n:7\r\n");
        assert_completed(f, op, HF_BUSY, false);
        assert_int_equal(op->retry_ms, expected[i]);
    }
}

static void test_inspect_reads_all(void **state) {
    struct session_fixture *f = *state;
    be_ready(f);
    hf__op *op = submit_op(f, 0, HF__INSPECT);
    feed_now(f, "*14\r\n:1\r\n:1\r\n:1\r\n:250\r\n$38\r\n" CLIENT
                ":6\r\n:88\r\n:1234\r\n:0\r\n$39\r\n" CLIENT
                ":t4\r\n:3\r\n:2\r\n:5\r\n:8\r\n$4\r\nx:o7\r\n");
    assert_completed(f, op, HF_OK, false);
    const hf__lock_info *s = &f->sight;
    assert_true(s->held);
    assert_int_equal(s->remaining_ms, 250);
    assert_int_equal(s->token, 88);
    assert_int_equal(s->since_unix_ms, 1234);
    assert_int_equal(s->count, 3);
    assert_int_equal(s->holders, 2);
    assert_int_equal(s->used, 5);
    assert_int_equal(s->capacity, 8);
    assert_string_equal(s->identity.client, CLIENT);
    assert_string_equal(s->owner, "t4");
    assert_int_equal(s->waiter_count, 1);
    assert_string_equal(s->waiters[0].client, "x");
    assert_string_equal(s->waiters[0].owner, "o7");
    op = submit_op(f, 0, HF__CLIENT_INFO);
    feed_now(f, "*4\r\n$4\r\nho\x1bt\r\n$2\r\n12\r\n$-1\r\n$1\r\nl\r\n");
    assert_completed(f, op, HF_OK, false);
    assert_string_equal(s->identity.host, "ho t");
    assert_int_equal(s->identity.pid, 12);
    assert_string_equal(s->identity.program, "");
    assert_string_equal(s->identity.label, "l");
}

static void test_answers_come_in_order_and_in_any_slices(void **state) {
    struct session_fixture *f = *state;
    static const char both[] = "*3\r\n:1\r\n:1\r\n:77\r\n:-1\r\n";
    be_ready(f);
    for (size_t cut = 0; cut < sizeof both; cut++) {
        hf__op *first = submit_op(f, 0, HF__ACQUIRE), *second = submit_op(f, 1, HF__RENEW);
        char head[sizeof both];
        snprintf(head, sizeof head, "%.*s", (int)cut, both);
        feed_now(f, head);
        feed_now(f, both + cut);
        assert_completed(f, first, HF_OK, false);
        assert_completed(f, second, HF_LOST, false);
    }
}

static void test_noscript_is_sent_whole(void **state) {
    struct session_fixture *f = *state;
    be_ready(f);
    hf__op *op = submit_op(f, 0, HF__RELEASE);
    forget_sent(f);
    feed_at(f, "-NOSCRIPT No matching script.\r\n", NOW + HF__MS);
    assert_true(will_send(f, "*8\r\n$4\r\nEVAL\r\n"));
    assert_true(will_send(f, hf__script_release.text));
    assert_null(hf__session_completed(&f->s));
    assert_int_equal(op->sent_at, NOW + HF__MS);
    feed_now(f, ":1\r\n");
    assert_completed(f, op, HF_OK, false);
}

/* ---- Too late ---- */

#define LATE "*2\r\n:2\r\n:9000000000\r\n"

static void test_late_is_retried_by_the_servers_clock(void **state) {
    struct session_fixture *f = *state;
    be_ready(f);
    hf__op *op = submit_op(f, 0, HF__ACQUIRE);
    for (int i = 0; i < 3; i++) {
        forget_sent(f);
        feed_now(f, LATE);
        assert_true(will_send(f, "$10\r\n9002000000\r\n"));
        assert_null(hf__session_completed(&f->s));
    }
    forget_sent(f);
    feed_now(f, LATE);
    assert_completed(f, op, HF_TIMEOUT, false);
    assert_non_null(strstr(op->detail, "too late"));
    assert_int_equal(f->s.out.length, 0);
    op = submit_op(f, 0, HF__ACQUIRE); /* the next operation has its own count */
    feed_now(f, LATE);
    feed_now(f, "*3\r\n:1\r\n:1\r\n:5\r\n");
    assert_completed(f, op, HF_OK, false);
}

/* Other clients' tombstones were merged while the request was in flight. That may happen many
   times in a row. */
static void test_F51_an_acquire_refused_by_a_merge_is_sent_again_in_time(void **state) {
    static const char merged[] = "*3\r\n:2\r\n:9000000000\r\n:2\r\n";
    struct session_fixture *f = *state;
    be_ready(f);
    hf__op *op = submit_op(f, 0, HF__ACQUIRE);
    for (int i = 0; i < 20; i++) {
        feed_now(f, merged);
        assert_null(hf__session_completed(&f->s));
    }
    for (int i = 0; i < 4; i++) feed_now(f, LATE);
    assert_completed(f, op, HF_TIMEOUT, false);
    op = submit_op(f, 0, HF__ACQUIRE);
    feed_at(f, merged, NOW + 2 * HF__SEC);
    assert_completed(f, op, HF_TIMEOUT, false);
}

static void test_late_is_not_retried_after_the_time_limit(void **state) {
    struct session_fixture *f = *state;
    be_ready(f);
    hf__op *op = submit_op(f, 0, HF__ACQUIRE);
    feed_at(f, LATE, NOW + 2 * HF__SEC);
    assert_completed(f, op, HF_TIMEOUT, false);
}

/* ---- Errors ---- */

static const struct {
    const char *error;
    hf_result result;
    const char *advice;
} troubles[] = {
    {"NOAUTH Authentication required.", HF_REFUSED, "password"},
    {"WRONGPASS invalid username-password pair", HF_REFUSED, "check user"},
    {"NOPERM this user has no permissions to run the 'evalsha' command", HF_REFUSED, "ACL"},
    {"DENIED Redis is running in protected mode", HF_REFUSED, "protected"},
    {"READONLY You can't write against a read only replica.", HF_REFUSED, "primary"},
    {"OOM command not allowed when used memory > 'maxmemory'.", HF_REFUSED, "maxmemory"},
    {"MISCONF Redis is configured to save RDB snapshots", HF_REFUSED, "disk"},
    {"WRONGTYPE Operation against a key holding the wrong kind of value", HF_PROTOCOL, "key"},
    {"HFFENCE the fence holds no token", HF_PROTOCOL, "fence"},
    {"LOADING Redis is loading the dataset in memory", HF_UNREACHABLE, "loading"},
    {"BUSY Redis is busy running a script.", HF_UNREACHABLE, "SCRIPT KILL"},
    {"NOREPLICAS Not enough good replicas to write.", HF_UNREACHABLE, "min-replicas"},
    {"MASTERDOWN Link with MASTER is down", HF_UNREACHABLE, "primary"},
    {"TRYAGAIN Multiple keys request during rehashing of slot", HF_UNREACHABLE, "slot"},
    {"CLUSTERDOWN The cluster is down", HF_UNREACHABLE, "cluster"},
    {"MOVED 3999 127.0.0.1:6381", HF_UNSUPPORTED, "cluster"},
    {"ASK 3999 127.0.0.1:6381", HF_UNSUPPORTED, "cluster"},
    {"ERR max number of clients reached", HF_UNREACHABLE, "maxclients"},
    {"ERR invalid password", HF_REFUSED, "password"},
    {"ERR AUTH <password> called without any password configured", HF_REFUSED, "leave it out"},
    {"ERR Client sent AUTH, but no password is set", HF_REFUSED, "leave it out"},
    {"ERR DB index is out of range", HF_INVALID, "databases"},
    {"ERR The user executing the script can't run this command or subcommand", HF_REFUSED, "ACL"},
    {"ERR unknown command 'EVALSHA'", HF_UNSUPPORTED, "6.2"},
    {"ERR Error running script (call to f_0123): @user_script:3: OOM command not allowed",
     HF_REFUSED, "maxmemory"},
    {"ERR Error running script (call to f_0123): @user_script:9: WRONGTYPE Operation against",
     HF_PROTOCOL, "key"},
    {"OOM", HF_REFUSED, "maxmemory"},
    {"OOMPH is another word", HF_PROTOCOL, "the server said: OOMPH"},
    {"ERR something else", HF_PROTOCOL, "the server said: ERR something else"},
    {"", HF_PROTOCOL, "the server said"},
    {"@user_script", HF_PROTOCOL, "the server said"},
};

static void test_errors_are_distinguished(void **state) {
    struct session_fixture *f = *state;
    be_ready(f);
    for (size_t i = 0; i < sizeof troubles / sizeof *troubles; i++) {
        char answer[256];
        hf__op *op = submit_op(f, 0, HF__BREAK);
        snprintf(answer, sizeof answer, "-%s\r\n", troubles[i].error);
        feed_now(f, answer);
        assert_completed(f, op, troubles[i].result, false);
        if (!strstr(op->detail, troubles[i].advice) || strncmp(op->detail, "h:6379", 6) != 0)
            fail_msg("\"%s\": \"%s\" does not say \"%s\"", troubles[i].error, op->detail,
                     troubles[i].advice);
    }
    assert_int_equal(f->s.state, HF__READY); /* an error is an answer: the connection stays */
}

static void test_text_of_a_server_is_cleaned_and_cut(void **state) {
    (void)state;
    char error[2000], *detail = NULL;
    memset(error, 'x', sizeof error);
    error[0] = '\x1b';
    error[sizeof error - 1] = '\0';
    assert_int_equal(hf__server_error(error, "h:1", &detail), HF_PROTOCOL);
    assert_null(strchr(detail, '\x1b'));
    assert_true(strlen(detail) < 400);
    free(detail);
}

/* ---- F40: invalid answers ---- */

static const struct {
    hf__verb verb;
    const char *answer;
} wrong[] = {
    {HF__ACQUIRE, "+OK\r\n"},
    {HF__ACQUIRE, ":0\r\n"},
    {HF__ACQUIRE, ":1\r\n"},
    {HF__ACQUIRE, ":-1\r\n"},
    {HF__ACQUIRE, "$1\r\n1\r\n"},
    {HF__ACQUIRE, "$-1\r\n"},
    {HF__ACQUIRE, "*-1\r\n"},
    {HF__ACQUIRE, "*0\r\n"},
    {HF__ACQUIRE, "*1\r\n:1\r\n"},
    {HF__ACQUIRE, "*2\r\n:1\r\n:1\r\n"},       /* granted without a token */
    {HF__ACQUIRE, "*3\r\n:1\r\n:1\r\n:0\r\n"}, /* an invalid token */
    {HF__ACQUIRE, "*3\r\n:1\r\n:1\r\n:-7\r\n"},
    {HF__ACQUIRE, "*3\r\n:1\r\n:1\r\n+x\r\n"},
    {HF__ACQUIRE, "*3\r\n:1\r\n:1\r\n$2\r\n1x\r\n"},
    {HF__ACQUIRE, "*3\r\n:1\r\n$-1\r\n:7\r\n"},
    {HF__ACQUIRE, "*3\r\n:3\r\n:1\r\n:7\r\n"}, /* an invalid status */
    {HF__ACQUIRE, "*3\r\n:-1\r\n:1\r\n:7\r\n"},
    {HF__ACQUIRE, "*3\r\n+1\r\n:1\r\n:7\r\n"},
    {HF__ACQUIRE, "*2\r\n:0\r\n:1\r\n"},
    {HF__RENEW, "+OK\r\n"},
    {HF__RENEW, "*1\r\n:1\r\n"},
    {HF__RENEW, ":0\r\n"}, /* an invalid time */
    {HF__RENEW, "*2\r\n:1\r\n:1\r\n"},
    {HF__RAISE_TOKEN, ":0\r\n"},
    {HF__RAISE_TOKEN, "*1\r\n:1\r\n"},
    {HF__UPTIME, ":-2\r\n"},
    {HF__UPTIME, "+OK\r\n"},
    {HF__UPTIME, ":99999999999\r\n"},
    {HF__RELEASE, ":2\r\n"},
    {HF__RELEASE, ":-1\r\n"},
    {HF__RELEASE, "*2\r\n:1\r\n:1\r\n"},
    {HF__BREAK, "*2\r\n:1\r\n:1\r\n"},
    {HF__INSPECT, "*2\r\n:1\r\n:1\r\n"}, /* held, but no holder */
    {HF__INSPECT, "*9\r\n:1\r\n:1\r\n:1\r\n:1\r\n:1\r\n:1\r\n:1\r\n:1\r\n:1\r\n"},
    {HF__INSPECT, "+OK\r\n"},
    {HF__LIST, "+OK\r\n"},
    {HF__LIST, ":1\r\n"},
    {HF__LIST, "*4\r\n:0\r\n:1\r\n$1\r\n0\r\n$0\r\n\r\n"},
    {HF__LIST, "*3\r\n:1\r\n:1\r\n$1\r\n0\r\n"}, /* no cursor */
    {HF__LIST, "*4\r\n:1\r\n:1\r\n$2\r\n0x\r\n$0\r\n\r\n"},
    {HF__LIST, "*4\r\n:1\r\n:1\r\n$0\r\n\r\n$0\r\n\r\n"},
    {HF__LIST, "*4\r\n:1\r\n:1\r\n$1\r\n0\r\n$3\r\nabc\r\n"},
    {HF__LIST, "*5\r\n:1\r\n:1\r\n$1\r\n0\r\n$0\r\n\r\n:7\r\n"},
    {HF__CLIENT_INFO, "+OK\r\n"},
    {HF__CLIENT_INFO, "*3\r\n:1\r\n:1\r\n:1\r\n"},
    {HF__CLIENT_INFO, "*5\r\n:1\r\n:1\r\n:1\r\n:1\r\n:1\r\n"},
};

static void test_wrong_answers(void **state) {
    struct session_fixture *f = *state;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        be_ready(f);
        hf__op *op = submit_op(f, 0, wrong[i].verb);
        feed_bad(f, wrong[i].answer, HF_PROTOCOL, "h:6379");
        assert_completed(f, op, HF_PROTOCOL, true);
        hf__session_break(&f->s);
        assert_null(hf__session_completed(&f->s));
    }
}

/* Times out of range are invalid, and must not overflow a calculation. */
static void test_invalid_times(void **state) {
    static const char *const logins[] = {
        "*2\r\n$19\r\n9223372036854775807\r\n$1\r\n0\r\n",
        "*2\r\n$20\r\n-9223372036854775808\r\n$1\r\n0\r\n",
        "*2\r\n$1\r\n1\r\n$19\r\n9223372036854775807\r\n",
    };
    static const char *const times[] = {"9223372036854775807", "-9223372036854775808"};
    struct session_fixture *f = *state;
    char *detail = NULL;
    for (size_t i = 0; i < sizeof logins / sizeof *logins; i++) {
        begin_session(f);
        (void)hf__session_feed(&f->s, logins[i], strlen(logins[i]), NOW, &detail);
        free(detail);
        detail = NULL;
        hf__session_break(&f->s);
    }
    for (size_t i = 0; i < sizeof times / sizeof *times; i++) {
        char answer[64];
        be_ready(f);
        submit_op(f, 0, HF__RENEW);
        snprintf(answer, sizeof answer, ":%s\r\n", times[i]);
        f->s.unsent = 0;
        (void)hf__session_feed(&f->s, answer, strlen(answer), NOW, &detail);
        free(detail);
        detail = NULL;
        assert_ptr_equal(hf__session_completed(&f->s), &f->op[0]);
        submit_op(f, 1, HF__ACQUIRE);
        hf__session_break(&f->s);
        (void)hf__session_completed(&f->s);
    }
}

static void test_unexpected_answers(void **state) {
    struct session_fixture *f = *state;
    be_ready(f);
    feed_bad(f, "+OK\r\n", HF_PROTOCOL, "not requested");
    hf__session_break(&f->s);
    be_ready(f);
    hf__op *op = submit_op(f, 0, HF__RENEW);
    feed_bad(f, ":1\r\n:1\r\n", HF_PROTOCOL, "not requested");
    assert_completed(f, op, HF_OK, false); /* the request itself was answered */
    hf__session_break(&f->s);
    begin_session(f);
    feed_bad(f, TIME "+OK\r\n", HF_PROTOCOL, "h:6379");
}

static void test_operations_after_garbage_end_with_the_break(void **state) {
    struct session_fixture *f = *state;
    be_ready(f);
    hf__op *first = submit_op(f, 0, HF__RENEW), *second = submit_op(f, 1, HF__ACQUIRE);
    feed_bad(f, ":1\r\n?!\r\n", HF_PROTOCOL, "is it one?");
    assert_completed(f, first, HF_OK, false);
    assert_null(hf__session_completed(&f->s));
    hf__session_break(&f->s);
    assert_completed(f, second, HF_UNREACHABLE, true);
}

/* ---- Broken connections ---- */

static void test_break_completes_sent_operations_as_unknown(void **state) {
    struct session_fixture *f = *state;
    be_ready(f);
    for (size_t i = 0; i < 3; i++) submit_op(f, i, HF__RENEW);
    f->s.unsent = 0;
    submit_op(f, 3, HF__RENEW);
    assert_int_equal(f->s.in_flight, 4);
    hf__session_break(&f->s);
    assert_int_equal(f->s.in_flight, 0);
    assert_int_equal(f->s.out.length, 0);
    for (size_t i = 0; i < 4; i++) {
        assert_completed(f, &f->op[i], HF_UNREACHABLE, i < 3);
        assert_non_null(strstr(f->op[i].detail, "h:6379"));
    }
    /* While disconnected nothing is sent, so nothing can be executed. */
    hf__op *op = submit_op(f, 0, HF__ACQUIRE);
    assert_completed(f, op, HF_UNREACHABLE, false);
    assert_int_equal(hf__session_waits_since(&f->s), HF__NEVER);
    be_ready(f);
    assert_int_equal(f->s.link, 2);
}

static void test_break_with_a_registration_under_way(void **state) {
    struct session_fixture *f = *state;
    begin_session(f);
    feed_now(f, TIME);
    assert_int_equal(f->s.in_flight, 1);
    hf__session_break(&f->s);
    assert_null(hf__session_completed(&f->s));
    be_ready(f);
}

static void test_waits_since_the_oldest(void **state) {
    struct session_fixture *f = *state;
    be_ready(f);
    assert_int_equal(hf__session_waits_since(&f->s), HF__NEVER);
    submit_op(f, 0, HF__RENEW);
    f->op[1] = (hf__op){.verb = HF__RENEW, .name = "x", .name_length = 1};
    hf__session_submit(&f->s, &f->op[1], NOW + HF__SEC);
    assert_int_equal(hf__session_waits_since(&f->s), NOW);
    feed_now(f, ":1\r\n");
    assert_int_equal(hf__session_waits_since(&f->s), NOW + HF__SEC);
    hf__session_break(&f->s);
    while (hf__session_completed(&f->s)) {
    }
}

/* Beyond the limit of unsent bytes the whole operation fails, and nothing of it is left. */
static void test_a_full_buffer_is_nomem(void **state) {
    struct session_fixture *f = *state;
    be_ready(f);
    f->s.out.max = 100;
    hf__op *op = submit_op(f, 0, HF__ACQUIRE);
    assert_completed(f, op, HF_NOMEM, false);
    assert_int_equal(f->s.out.length, 0);
    assert_int_equal(f->s.in_flight, 0);
    f->s.out.max = HF__OUT_MAX;
    op = submit_op(f, 0, HF__ACQUIRE);
    feed_now(f, "*3\r\n:1\r\n:1\r\n:5\r\n");
    assert_completed(f, op, HF_OK, false);
}

/* ---- Multi-acquire ---- */

/* Submits a reader and a mutex together, and returns the first. */
static hf__op *submit_two(struct session_fixture *f) {
    static const hf__op ask = {.verb = HF__ACQUIRE,
                               .name_length = 2,
                               .owner = {3, false},
                               .token = 9,
                               .lease_ms = 1000,
                               .not_after = NOW + 2 * HF__SEC};
    for (size_t i = 0; i < 2; i++) free(f->op[i].detail);
    f->op[0] = f->op[1] = ask;
    f->op[0].name = "na";
    f->op[0].acquire_id = 5;
    f->op[0].kind = HF_READ;
    f->op[0].next_in_multi = &f->op[1];
    f->op[1].name = "nb";
    f->op[1].acquire_id = 6;
    hf__session_submit(&f->s, &f->op[0], NOW);
    return &f->op[0];
}

static void assert_both(struct session_fixture *f, hf_result result, bool maybe) {
    assert_completed(f, &f->op[1], result, maybe);
    assert_completed(f, &f->op[0], result, maybe);
    assert_null(hf__session_completed(&f->s));
    assert_int_equal(f->s.in_flight, 0);
}

static void test_many_are_one_command(void **state) {
    struct session_fixture *f = *state;
    be_ready(f);
    submit_two(f);
    assert_int_equal(f->s.in_flight, 1);
    assert_true(will_send(f, "$7\r\nhf:{na}\r\n$9\r\nhf:{na}:f\r\n"));
    assert_true(will_send(f, "$9\r\nhf:{nb}:i\r\n$39\r\n" CLIENT ":t3\r\n$4\r\n1000\r\n"));
    assert_true(will_send(f, "$1\r\n9\r\n$10\r\n1000000500\r\n$38\r\n" CLIENT
                             "#5\r\n$1\r\nr\r\n$38\r\n" CLIENT ":6\r\n$1\r\nm\r\n"));
    feed_now(f, "*4\r\n:1\r\n:1000000700\r\n:71\r\n:72\r\n");
    assert_both(f, HF_OK, false);
    assert_int_equal(f->op[0].token, 71);
    assert_int_equal(f->op[1].token, 72);
    assert_int_equal(f->op[1].sent_at, NOW);
    assert_int_equal(f->op[1].link, f->s.link);
}

static void test_many_are_answered_alike(void **state) {
    struct session_fixture *f = *state;
    be_ready(f);
    submit_two(f);
    feed_now(f, "-NOSCRIPT no\r\n"); /* sent again, with the full script */
    assert_null(hf__session_completed(&f->s));
    feed_now(f, "*2\r\n:0\r\n:1000000700\r\n");
    assert_both(f, HF_BUSY, false);
    submit_two(f);
    feed_now(f, "-NOPERM no\r\n");
    assert_both(f, HF_REFUSED, false);
    submit_two(f);
    f->s.unsent = 0;
    hf__session_break(&f->s);
    assert_both(f, HF_UNREACHABLE, true);
}

/* An answer for one name is invalid for several: no token is invented. */
static void test_a_multi_acquire_needs_its_own_answer(void **state) {
    static const char *const bad[] = {
        ":1794807512956906\r\n",
        "*3\r\n:1\r\n:1000000700\r\n:71\r\n",
        "*2\r\n:1\r\n:1000000700\r\n",
        "*4\r\n:1\r\n:1000000700\r\n:71\r\n:0\r\n",
        "*2\r\n:4\r\n:1000000700\r\n",
        "*3\r\n:3\r\n:1000000700\r\n:5\r\n",
        "*4\r\n:1\r\n:1000000700\r\n:71\r\n$1\r\nx\r\n",
    };
    struct session_fixture *f = *state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        be_ready(f);
        submit_two(f);
        feed_bad(f, bad[i], HF_PROTOCOL, "unexpected answer");
        assert_both(f, HF_PROTOCOL, true);
        hf__session_break(&f->s);
    }
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(test_login_sends_only_time),
        TEST(test_login_with_all),
        TEST(test_login_with_password_only),
        TEST(test_login_refused),
        TEST(test_login_expects_ok_before_the_time),
        TEST(test_half_an_answer_does_not_outlive_its_connection),
        TEST(test_registers_again_and_unregisters),
        TEST(test_commands),
        TEST(test_scripts_of_a_cluster_declare_a_key_that_never_exists),
        TEST(test_more_commands),
        TEST(test_list),
        TEST(test_not_after_follows_the_newest_sample),
        TEST(test_answers),
        TEST(test_retries_back_off),
        TEST(test_inspect_reads_all),
        TEST(test_answers_come_in_order_and_in_any_slices),
        TEST(test_noscript_is_sent_whole),
        TEST(test_late_is_retried_by_the_servers_clock),
        TEST(test_F51_an_acquire_refused_by_a_merge_is_sent_again_in_time),
        TEST(test_late_is_not_retried_after_the_time_limit),
        TEST(test_errors_are_distinguished),
        TEST(test_text_of_a_server_is_cleaned_and_cut),
        TEST(test_wrong_answers),
        TEST(test_unexpected_answers),
        TEST(test_operations_after_garbage_end_with_the_break),
        TEST(test_break_completes_sent_operations_as_unknown),
        TEST(test_break_with_a_registration_under_way),
        TEST(test_waits_since_the_oldest),
        TEST(test_a_full_buffer_is_nomem),
        TEST(test_invalid_times),
        TEST(test_many_are_one_command),
        TEST(test_many_are_answered_alike),
        TEST(test_a_multi_acquire_needs_its_own_answer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
