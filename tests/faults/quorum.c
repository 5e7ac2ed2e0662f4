/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Faults of the nodes of a quorum, one at a time. tests/faults/quorum_crowd.c has many at once. The
 * tests share the nodes: each finds them empty, running, and old enough to vote.
 */
#include "fault.h"

enum { NODES = 5, THREE = 3 };

static t_nodes *nodes;

/* ---- Around a test --------------------------------------------------------------------------- */

static int start_nodes(void **state) {
    fault_chosen(state);
    nodes = t_nodes_start(NODES, NULL);
    return 0;
}

static int stop_nodes(void **state) {
    (void)state;
    t_nodes_free(nodes);
    return 0;
}

static int quorum_up(void **state) {
    for (int i = 0; i < NODES; i++) freeReplyObject(t_redis_cmd(t_nodes_at(nodes, i), "FLUSHALL"));
    t_nodes_grow_old(nodes, 2);
    *state = (void *)(uintptr_t)&BED_BARE;
    return bed_up(state);
}

static bool node_answers(t_redis *node) {
    redisContext *c = redisConnectUnix(t_redis_socket(node));
    bool up = c && !c->err;
    if (c) redisFree(c);
    return up;
}

static int quorum_down(void **state) {
    int r = bed_down(state);
    for (int i = 0; i < NODES; i++) {
        t_nodes_stand_in(nodes, i, 0);
        if (!node_answers(t_nodes_at(nodes, i))) t_redis_restart(t_nodes_at(nodes, i));
    }
    return r;
}

#define QUORUM_TEST(fn) \
    { #fn, fn, quorum_up, quorum_down, NULL }

/* ---- Nodes ----------------------------------------------------------------------------------- */

static t_redis *node_at(int i) {
    return t_nodes_at(nodes, i);
}

/* The URL of the first three nodes. They vote as soon as they are known to be running. */
static const char *three_nodes_url(const char *options) {
    return with_option(t_nodes_url(nodes, THREE), "rejoin_delay=1ms&%s", options);
}

static bool node_holds(int i) {
    return t_redis_int(node_at(i), "EXISTS " KEY) == 1;
}

static int count_holding(int count) {
    int n = 0;
    for (int i = 0; i < count; i++) n += node_holds(i);
    return n;
}

static uint64_t token_at(int i) {
    return (uint64_t)t_redis_int(node_at(i), "HGET " KEY " t");
}

/* All nodes have the hold, under its token. */
static bool all_agree(const hf_hold *hold) {
    bool all = count_holding(THREE) == THREE;
    for (int i = 0; all && i < THREE; i++) all = token_at(i) == hf_fence(hold);
    return all;
}

/* A node that was slow gets the hold with the next renewal. */
static void await_agreement(const hf_hold *hold) {
    T_WAIT_UNTIL(all_agree(hold), 60000);
}

/* Held by a client that does not exist. */
static void hold_by_hand(int i) {
    t_redis_int(node_at(i), "HSET " KEY " 11111111-2222-4333-8444-555555555555:t1 1"
                            " n 11111111-2222-4333-8444-555555555555:7 t 1");
    t_redis_int(node_at(i), "PEXPIRE " KEY " %lld", (long long)t_patience(60000));
}

/* Makes the node's last token an hour ahead of all clocks. */
static uint64_t fence_ahead(int i) {
    redisReply *time = t_redis_cmd(node_at(i), "TIME");
    uint64_t ahead = (strtoull(time->element[0]->str, NULL, 10) + 3600) * 1000000;
    freeReplyObject(time);
    freeReplyObject(t_redis_cmd(node_at(i), "SET " FENCE " %llu", (unsigned long long)ahead));
    return ahead;
}

static t_proxy *in_front_of(bed *b, int i) {
    b->proxy = t_proxy_start(t_redis_port(node_at(i)));
    t_nodes_stand_in(nodes, i, t_proxy_port(b->proxy));
    return b->proxy;
}

static void check_names(int i) {
    char name[32];
    snprintf(name, sizeof name, "127.0.0.1:%u", t_redis_port(node_at(i)));
    check_detail(name);
}

/* ---- A minority fails ------------------------------------------------------------------------ */

static void F22_a_dead_minority_does_no_harm(void **state) {
    bed *b = *state;
    hf_client *a = bed_open(b, three_nodes_url("lease=900ms"), NULL);
    hf_hold *hold = TAKE(a, .on_lost = count_loss, .arg = &b->loss);
    t_redis_kill9(node_at(2));
    uint64_t renewed = stats_of(a).renewed;
    UNTIL(stats_of(a).renewed >= renewed + 3);
    assert_true(hf_held(hold));
    FREE(hold);
    hold = TAKE(a);
    FREE(hold);
    assert_int_equal(b->loss.calls, 0);
}

/* A node that does not answer delays nobody while the others answer. */
static void F17_a_stopped_minority_is_not_waited_for(void **state) {
    bed *b = *state;
    hf_client *a = bed_open(b, three_nodes_url("command_timeout=1h&connect_timeout=1h"), NULL);
    t_redis_stop(node_at(1));
    for (int i = 0; i < 3; i++) {
        hf_hold *hold = TAKE(a);
        T_HF(HF_OK, hf_extend(hold, t_patience(40000)));
        FREE(hold);
    }
    t_redis_cont(node_at(1));
    UNTIL(count_holding(THREE) == 0);
}

static void F25_a_node_that_lost_a_hold_gets_it_again(void **state) {
    bed *b = *state;
    hf_client *a = bed_open(b, three_nodes_url("lease=900ms"), NULL);
    hf_hold *hold = TAKE(a);
    await_agreement(hold); /* an ACQUIRE that is still under way would give it the hold, too */
    freeReplyObject(t_redis_cmd(node_at(0), "FLUSHALL"));
    UNTIL(node_holds(0) && token_at(0) == hf_fence(hold));
    assert_true(hf_held(hold));
    FREE(hold);
    UNTIL(count_holding(THREE) == 0);
}

/* A majority has lost the hold, so the holder has lost it too. What is left of the hold on other
   nodes is removed. */
static void F25_a_majority_that_lost_a_hold_has_lost_it(void **state) {
    bed *b = *state;
    hf_client *a = bed_open(b, three_nodes_url("lease=20s"), NULL);
    hf_hold *hold = TAKE(a, .on_lost = count_loss, .arg = &b->loss);
    UNTIL(count_holding(THREE) == THREE);
    freeReplyObject(t_redis_cmd(node_at(0), "FLUSHALL"));
    freeReplyObject(t_redis_cmd(node_at(1), "FLUSHALL"));
    T_HF(HF_LOST, hf_extend(hold, 20000));
    check_lost(b, hold, "the store no longer has it");
    UNTIL(count_holding(THREE) == 0);
}

/* ---- No majority ----------------------------------------------------------------------------- */

static void a_missing_quorum_is_reported_with_its_nodes(void **state) {
    bed *b = *state;
    hf_client *a = bed_open(b, three_nodes_url("outage=300ms"), NULL), *late = NULL;
    t_redis_kill9(node_at(0));
    t_redis_kill9(node_at(2));
    REFUSED(HF_NO_QUORUM, a);
    check_names(0);
    check_names(2);
    REFUSED(HF_NO_QUORUM, a, .wait_ms = HF_FOREVER);
    T_HF(HF_NO_QUORUM, hf_open(three_nodes_url("lease=30s"), NULL, &late));
    check_names(0);
    hf_info *info;
    T_HF(HF_NO_QUORUM, hf_inspect(a, LOCK, &info));
}

static void F17_a_stopped_majority_is_no_quorum_within_the_command_timeout(void **state) {
    bed *b = *state;
    hf_client *a = bed_open(b, three_nodes_url("command_timeout=500ms&outage=300ms"), NULL);
    t_redis_stop(node_at(0));
    t_redis_stop(node_at(2));
    REFUSED(HF_NO_QUORUM, a);
    t_redis_cont(node_at(0));
    t_redis_cont(node_at(2));
    hf_hold *hold = TAKE(a, .wait_ms = HF_FOREVER);
    FREE(hold);
    UNTIL(count_holding(THREE) == 0);
}

static void a_wait_survives_a_majority_that_is_away(void **state) {
    bed *b = *state;
    hf_client *a = bed_open(b, three_nodes_url("outage=1h"), NULL);
    t_redis_kill9(node_at(0));
    t_redis_kill9(node_at(1));
    attempt *waiting = attempt_start(b, a, &(hf_options){.wait_ms = HF_FOREVER});
    UNTIL(stats_of(a).waiting == 1);
    t_redis_restart(node_at(0));
    hf_hold *hold = attempt_end(waiting, HF_OK);
    FREE(hold);
}

static void a_held_lock_is_busy_and_a_minority_holds_nothing(void **state) {
    bed *b = *state;
    hf_client *a = bed_open(b, three_nodes_url("lease=30s"), NULL);
    hf_client *other = bed_open(b, three_nodes_url("lease=30s"), NULL);
    hf_hold *hold = TAKE(a);
    REFUSED(HF_BUSY, other);
    FREE(hold);
    UNTIL(count_holding(THREE) == 0);
    hold_by_hand(2);
    hf_info *info = NULL;
    T_HF(HF_OK, hf_inspect(a, LOCK, &info));
    assert_false(info->held);
    hf_info_free(info);
    hold = TAKE(other);
    FREE(hold);
}

/* ---- A node without its data ----------------------------------------------------------------- */

/* The lock was taken while one node was away. Another node loses its data. If the absent node comes
   back before it is given the hold, these two would be a majority without a holder. */
static void F24_a_node_back_without_data_does_not_vote(void **state) {
    bed *b = *state;
    t_redis_kill9(node_at(2));
    hf_client *a = bed_open(b, three_nodes_url("lease=30s"), NULL);
    hf_hold *hold = TAKE(a);
    t_redis_restart(node_at(1));
    t_redis_restart(node_at(2));
    const char *url = with_option(t_nodes_url(nodes, THREE), "outage=300ms&lease=30s");
    hf_client *other = bed_open(b, url, NULL);
    REFUSED(HF_NO_QUORUM, other);
    check_names(1);
    check_names(2);
    check_detail("votes after rejoin_delay");
    REFUSED(HF_NO_QUORUM, other, .wait_ms = HF_FOREVER);
    /* The grants of the failed try were given back, and the holder has noticed its loss. */
    UNTIL(count_holding(THREE) == 0);
    assert_false(hf_held(hold));
    T_HF(HF_LOST, hf_release(hold));
}

static void F24_a_node_votes_again_when_it_is_old_enough(void **state) {
    bed *b = *state;
    t_redis_kill9(node_at(0));
    t_redis_restart(node_at(1));
    const char *url = with_option(t_nodes_url(nodes, THREE), "outage=1h&lease=1s&rejoin_delay=2s");
    hf_client *a = bed_open(b, url, NULL);
    hf_hold *hold = TAKE(a, .wait_ms = HF_FOREVER);
    assert_true(t_redis_info(node_at(1), "uptime_in_seconds") >= 2);
    FREE(hold);
}

/* The client's connection notices a restart in between. */
static void F24_a_node_that_restarts_under_a_client_does_not_vote(void **state) {
    bed *b = *state;
    const char *url =
        with_option(t_nodes_url(nodes, THREE), "outage=300ms&lease=1s&rejoin_delay=2s");
    t_nodes_grow_old(nodes, 4);
    hf_client *a = bed_open(b, url, NULL);
    FREE(TAKE(a));
    t_redis_kill9(node_at(0));
    t_redis_restart(node_at(1));
    REFUSED(HF_NO_QUORUM, a, .wait_ms = HF_FOREVER);
    check_names(1);
}

/* Clients have different leases. One client holds on nodes 0 and 1 while node 2 is away. Node 1
   loses its data. It is soon older than the other client's lease, while the holder's lease still
   runs. */
static void F24_a_short_lease_does_not_let_a_node_vote_during_a_longer_one(void **state) {
    bed *b = *state;
    char options[64];
    snprintf(options, sizeof options, "lease=%lldms", (long long)t_patience(30000));
    t_redis_stop(node_at(2));
    hf_client *a =
        bed_open(b, three_nodes_url(options), &(hf_client_options){.flags = HF_NO_THREAD});
    hf_hold *hold = TAKE(a, .flags = HF_NO_RENEW); /* so that node 1 does not get it again */
    t_redis_cont(node_at(2));
    t_redis_restart(node_at(1));
    t_nodes_grow_old(nodes, 4);
    const char *url = with_option(t_nodes_url(nodes, THREE), "outage=300ms&lease=2s");
    hf_client *other = bed_open(b, url, NULL);
    REFUSED(HF_NO_QUORUM, other, .wait_ms = HF_FOREVER);
    check_names(1);
    check_detail("votes after rejoin_delay (30000 ms)");
    assert_true(hf_held(hold));
    hf_unref(hold);
}

/* The nodes know the acquire script but not the script that returns their age. So the answer to the
   try arrives first. */
static void F29_a_try_is_not_decided_before_the_ages_are_known(void **state) {
    bed *b = *state;
    for (int round = 0; round < 20; round++) {
        for (int i = 0; i < THREE; i++) {
            freeReplyObject(t_redis_cmd(node_at(i), "SCRIPT FLUSH"));
            hf_client *alone = bed_open(b, t_redis_url(node_at(i)), NULL);
            FREE(TAKE(alone));
            bed_close(b, alone);
        }
        hf_client *a = bed_open(b, three_nodes_url("lease=30s"), NULL);
        FREE(TAKE(a));
        bed_close(b, a);
    }
}

/* A hold must not last longer than the time after which a node that lost it votes again. */
static void F24_a_lease_longer_than_the_delay_is_refused(void **state) {
    bed *b = *state;
    t_nodes_grow_old(nodes, 4);
    hf_client *a =
        bed_open(b, with_option(t_nodes_url(nodes, THREE), "lease=1s&rejoin_delay=2s"), NULL);
    REFUSED(HF_INVALID, a, .lease_ms = 2001);
    check_detail("rejoin_delay=2001ms");
    hf_hold *hold = TAKE(a, .lease_ms = 2000);
    T_HF(HF_INVALID, hf_extend(hold, 2001));
    check_detail("rejoin_delay=2001ms");
    assert_true(hf_held(hold));
    FREE(hold);
}

/* The client's default lease is checked at open. A delay below a second means that nodes never lose
   data. */
static void F24_a_client_s_lease_longer_than_the_delay_is_refused(void **state) {
    static const struct {
        const char *options;
        hf_result result;
    } cases[] = {{"lease=31s", HF_INVALID},
                 {"lease=30s", HF_OK},
                 {"lease=5s&rejoin_delay=4s", HF_INVALID},
                 {"lease=31s&rejoin_delay=40s", HF_OK},
                 {"lease=1001ms&rejoin_delay=1s", HF_INVALID},
                 {"lease=10m&rejoin_delay=999ms", HF_OK}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        hf_client *client = NULL;
        const char *url = with_option(t_nodes_url(nodes, THREE), "%s", cases[i].options);
        T_HF(cases[i].result, hf_open(url, NULL, &client));
        if (cases[i].result) check_detail("is longer than rejoin_delay");
        hf_close(client);
    }
    hf_client *by_option = NULL;
    T_HF(HF_INVALID,
         hf_open(t_nodes_url(nodes, THREE), &(hf_client_options){.lease_ms = 31000}, &by_option));
}

static void F27_a_node_that_cannot_report_its_age_counts_from_our_login(void **state) {
    bed *b = *state;
    for (int i = 0; i < THREE; i++)
        freeReplyObject(t_redis_cmd(node_at(i), "ACL SETUSER shy on >pw ~* &* +@all -info"));
    char url[256];
    snprintf(url, sizeof url, "redis+quorum://shy:pw@%s",
             t_nodes_url(nodes, THREE) + strlen("redis+quorum://"));
    hf_client *a = bed_open(b, with_option(url, "rejoin_delay=1h&lease=30s&outage=200ms"), NULL);
    REFUSED(HF_NO_QUORUM, a);
    hf_client *soon = bed_open(b, with_option(url, "rejoin_delay=100ms&lease=30s"), NULL);
    FREE(TAKE(soon, .wait_ms = HF_FOREVER));
}

/* ---- Lost answers ---------------------------------------------------------------------------- */

static void F12_a_possible_grant_of_a_lost_answer_is_undone(void **state) {
    bed *b = *state;
    t_proxy *proxy = in_front_of(b, 0);
    hf_client *a = bed_open(b, three_nodes_url("lease=10m"), NULL);
    FREE(TAKE(a)); /* so that the scripts are known */
    UNTIL(count_holding(THREE) == 0);
    hold_by_hand(1);
    hold_by_hand(2);
    t_redis_stop(node_at(2)); /* so that the result waits until the answer is known to be lost */
    uint64_t connections = t_proxy_connections(proxy);
    t_proxy_drop_answers(proxy, 1);
    attempt *acquire = attempt_start(b, a, &(hf_options){0});
    t_proxy_wait_connections(proxy, connections + 1, SOON_MS);
    assert_true(node_holds(0));
    t_redis_cont(node_at(2));
    attempt_end(acquire, HF_BUSY);
    UNTIL(!node_holds(0));
}

/* The node is away when the lock is released. The release is repeated when it is back. */
static void F13_a_possible_hold_on_an_absent_node_is_undone_when_it_is_back(void **state) {
    bed *b = *state;
    t_proxy *proxy = in_front_of(b, 0);
    hf_client *a = bed_open(b, three_nodes_url("lease=10m"), NULL);
    hf_hold *hold;
    /* Makes the scripts known, with no request for the lock itself in flight. */
    T_HF(HF_OK, hf_try_lock(a, "other", &hold));
    FREE(hold);
    t_proxy_withhold(proxy, T_TO_CLIENT, true);
    hold = TAKE(a);
    UNTIL(count_holding(THREE) == THREE);
    t_proxy_refuse(proxy, true);
    t_proxy_cut(proxy);
    FREE(hold);
    assert_true(node_holds(0));
    t_proxy_withhold(proxy, T_TO_CLIENT, false);
    t_proxy_refuse(proxy, false);
    UNTIL(!node_holds(0));
    assert_int_equal(count_holding(THREE), 0);
}

/* One node lost the hold and one is away. Another client may have held the lock on these two. */
static void F48_a_release_that_a_minority_confirms_is_unknown(void **state) {
    bed *b = *state;
    hf_client *a = bed_open(b, three_nodes_url("lease=10m"), NULL);
    hf_hold *hold = TAKE(a);
    await_agreement(hold);
    t_redis_kill9(node_at(1));
    t_redis_int(node_at(0), "DEL " KEY);
    T_HF(HF_UNKNOWN_OUTCOME, hf_release(hold));
    assert_false(node_holds(2));
}

/* The hold was broken, and another client has held the lock since. A majority of the answers that
   say so is lost. */
static void F48_a_lost_hold_whose_release_was_not_answered_is_not_ok(void **state) {
    bed *b = *state;
    t_proxy *first = in_front_of(b, 0), *second = t_proxy_start(t_redis_port(node_at(1)));
    t_nodes_stand_in(nodes, 1, t_proxy_port(second));
    hf_client *a = bed_open(b, three_nodes_url("lease=10m"), NULL);
    t_nodes_stand_in(nodes, 0, 0);
    t_nodes_stand_in(nodes, 1, 0);
    hf_client *other = bed_open(b, three_nodes_url("lease=10m"), NULL);
    FREE(TAKE(a)); /* so that the scripts are known */
    UNTIL(count_holding(THREE) == 0);
    FREE(TAKE(other)); /* its thread handles the node that answers last */
    UNTIL(count_holding(THREE) == 0);
    hf_hold *hold = TAKE(a);
    await_agreement(hold);
    T_HF(HF_OK, hf_break(other, LOCK, 0));
    UNTIL(count_holding(THREE) == 0);
    FREE(TAKE(other));
    t_proxy_drop_answers(first, 1);
    t_proxy_drop_answers(second, 1);
    T_HF(HF_UNKNOWN_OUTCOME, hf_release(hold));
    bed_close(b, a);
    t_proxy_free(second);
}

/* The bytes arrive after everything else the client sends about this acquire. */
static void F51_a_late_acquire_of_a_closed_connection_takes_nothing(void **state) {
    bed *b = *state;
    t_proxy *proxy = in_front_of(b, 0);
    hf_client *a = bed_open(b, three_nodes_url("lease=10m&command_timeout=30s"), NULL);
    FREE(TAKE(a));
    UNTIL(count_holding(THREE) == 0);
    t_redis_int(node_at(0), "DEL " FENCE); /* and any tombstone it already contains */
    t_proxy_withhold(proxy, T_TO_SERVER, true);
    hf_hold *hold = TAKE(a);
    FREE(hold);
    UNTIL(count_holding(THREE) == 0); /* one of the others may be slower */
    uint64_t connections = t_proxy_connections(proxy);
    t_proxy_detach(proxy);
    t_proxy_wait_connections(proxy, connections + 1, SOON_MS);
    UNTIL(t_redis_int(node_at(0), "EXISTS " FENCE) == 1 &&
          strstr(t_redis_str(node_at(0), "GET " FENCE), ":")); /* it has a tombstone */
    t_proxy_deliver(proxy);
    assert_int_equal(count_holding(THREE), 0);
}

/* ---- Tokens ---------------------------------------------------------------------------------- */

static void F36_tokens_grow_when_nodes_disagree(void **state) {
    bed *b = *state;
    hf_client *a = bed_open(b, three_nodes_url("lease=30s"), NULL);
    hf_client *other = bed_open(b, three_nodes_url("lease=30s"), NULL);
    uint64_t ahead = fence_ahead(0);
    fence_ahead(1); /* any majority includes one of them */
    hf_hold *hold = TAKE(a);
    uint64_t first = hf_fence(hold);
    assert_true(first > ahead);
    await_agreement(hold);
    FREE(hold);
    t_redis_kill9(node_at(0));
    hold = TAKE(other, .wait_ms = HF_FOREVER);
    assert_true(hf_fence(hold) > first);
    FREE(hold);
}

/* Another client takes the lock on a node between the grant and the raising of its token. */
static void F36_a_token_counts_only_where_the_hold_is_still_ours(void **state) {
    bed *b = *state;
    t_proxy *proxy = in_front_of(b, 1);
    hf_client *a = bed_open(b, three_nodes_url("lease=10m&command_timeout=30s"), NULL);
    FREE(TAKE(a));
    UNTIL(count_holding(THREE) == 0);
    t_redis_kill9(node_at(2));
    UNTIL(stats_of(a).held == 0);
    fence_ahead(0); /* so that node 1 must be raised */
    t_proxy_withhold(proxy, T_TO_CLIENT, true);
    attempt *acquire = attempt_start(b, a, &(hf_options){0});
    UNTIL(node_holds(0) && node_holds(1));
    t_proxy_withhold(proxy, T_TO_SERVER, true);
    uint64_t bytes = t_proxy_bytes(proxy, T_TO_SERVER);
    t_proxy_withhold(proxy, T_TO_CLIENT, false);
    t_proxy_wait_bytes(proxy, T_TO_SERVER, bytes + 1, SOON_MS);
    t_redis_int(node_at(1), "DEL " KEY);
    hold_by_hand(1);
    t_proxy_withhold(proxy, T_TO_SERVER, false);
    attempt_end(acquire, HF_BUSY);
    UNTIL(!node_holds(0));
}

/* ---- Deadlines ------------------------------------------------------------------------------- */

static void F10_the_deadline_counts_from_before_the_first_send_minus_a_margin(void **state) {
    bed *b = *state;
    enum { LEASE = 20000, SLOW = 150 };
    t_redis_kill9(node_at(2));
    t_proxy *proxy = in_front_of(b, 0);
    hf_client *a = bed_open(b, three_nodes_url("lease=20s"), NULL);
    FREE(TAKE(a));
    t_proxy_delay(proxy, T_TO_CLIENT, SLOW);
    int64_t before = t_now_ms();
    hf_hold *hold = TAKE(a, .flags = HF_NO_RENEW);
    /* read before the remaining time, because the test may be delayed in between */
    int64_t now = t_now_ms();
    int64_t deadline = now + hf_remaining_ms(hold);
    assert_true(deadline <= before + LEASE - LEASE / 100 + 1);
    FREE(hold);
}

/* ---- An operator ----------------------------------------------------------------------------- */

static uint64_t token_seen(hf_client *client) {
    hf_info *info = NULL;
    T_HF(HF_OK, hf_inspect(client, LOCK, &info));
    uint64_t token = info->token;
    hf_info_free(info);
    return token;
}

/* As left by an earlier ownership, or by one whose token has not been raised yet. */
static void B27_a_node_that_shows_another_token_does_not_decide(void **state) {
    bed *b = *state;
    hf_client *a = bed_open(b, three_nodes_url("lease=60s"), NULL);
    hf_hold *hold = TAKE(a);
    await_agreement(hold);
    t_redis_int(node_at(0), "HSET " KEY " t %llu", (unsigned long long)hf_fence(hold) + 1);
    for (int i = 0; i < 20; i++) assert_true(token_seen(a) == hf_fence(hold));
    t_redis_int(node_at(0), "HSET " KEY " t 1");
    for (int i = 0; i < 20; i++) assert_true(token_seen(a) == hf_fence(hold));
    t_redis_kill9(node_at(2));
    assert_true(token_seen(a) == hf_fence(hold));
    FREE(hold);
}

static void B26_a_break_reaches_all_nodes(void **state) {
    bed *b = *state;
    hf_client *a = bed_open(b, three_nodes_url("lease=30s"), NULL);
    hf_client *other = bed_open(b, three_nodes_url("lease=30s"), NULL);
    hf_hold *hold = TAKE(a, .on_lost = count_loss, .arg = &b->loss);
    await_agreement(hold);
    T_HF(HF_NOT_HELD, hf_break(other, LOCK, hf_fence(hold) + 1));
    assert_int_equal(count_holding(THREE), THREE);
    T_HF(HF_OK, hf_break(other, LOCK, hf_fence(hold)));
    UNTIL(count_holding(THREE) == 0);
    T_HF(HF_LOST, hf_extend(hold, 30000));
    check_lost(b, hold, "the store no longer has it");
    T_HF(HF_NOT_HELD, hf_break(other, LOCK, 0));
}

static const struct CMUnitTest tests[] = {
    QUORUM_TEST(F22_a_dead_minority_does_no_harm),
    QUORUM_TEST(F17_a_stopped_minority_is_not_waited_for),
    QUORUM_TEST(F25_a_node_that_lost_a_hold_gets_it_again),
    QUORUM_TEST(F25_a_majority_that_lost_a_hold_has_lost_it),
    QUORUM_TEST(a_missing_quorum_is_reported_with_its_nodes),
    QUORUM_TEST(F17_a_stopped_majority_is_no_quorum_within_the_command_timeout),
    QUORUM_TEST(a_wait_survives_a_majority_that_is_away),
    QUORUM_TEST(a_held_lock_is_busy_and_a_minority_holds_nothing),
    QUORUM_TEST(F24_a_node_back_without_data_does_not_vote),
    QUORUM_TEST(F24_a_node_votes_again_when_it_is_old_enough),
    QUORUM_TEST(F24_a_node_that_restarts_under_a_client_does_not_vote),
    QUORUM_TEST(F29_a_try_is_not_decided_before_the_ages_are_known),
    QUORUM_TEST(F24_a_short_lease_does_not_let_a_node_vote_during_a_longer_one),
    QUORUM_TEST(F24_a_lease_longer_than_the_delay_is_refused),
    QUORUM_TEST(F24_a_client_s_lease_longer_than_the_delay_is_refused),
    QUORUM_TEST(F27_a_node_that_cannot_report_its_age_counts_from_our_login),
    QUORUM_TEST(F12_a_possible_grant_of_a_lost_answer_is_undone),
    QUORUM_TEST(F13_a_possible_hold_on_an_absent_node_is_undone_when_it_is_back),
    QUORUM_TEST(F48_a_release_that_a_minority_confirms_is_unknown),
    QUORUM_TEST(F48_a_lost_hold_whose_release_was_not_answered_is_not_ok),
    QUORUM_TEST(F51_a_late_acquire_of_a_closed_connection_takes_nothing),
    QUORUM_TEST(F36_tokens_grow_when_nodes_disagree),
    QUORUM_TEST(F36_a_token_counts_only_where_the_hold_is_still_ours),
    QUORUM_TEST(F10_the_deadline_counts_from_before_the_first_send_minus_a_margin),
    QUORUM_TEST(B27_a_node_that_shows_another_token_does_not_decide),
    QUORUM_TEST(B26_a_break_reaches_all_nodes),
};

int main(int argc, char **argv) {
    fault_begin(argc, argv);
    return cmocka_run_group_tests(tests, start_nodes, stop_nodes);
}
