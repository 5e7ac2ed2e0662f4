/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Several clients with different leases want one lock on a quorum of five nodes. About every second
 * one node is killed and comes back empty, or is stopped for a while. Never more than a minority is
 * away or too young to vote. The run prints what it did to each node.
 *
 * Checked at the end: no two holds overlap by their own deadlines, tokens grow in the order of
 * holds, and every acquire was served.
 *
 * $HOLDFAST_QUORUM_ROUNDS is the total number of acquires, 200 by default. `make test-failover`
 * makes 1,000 with more faults.
 */
#include "fault.h"

enum {
    NODES = 5,
    MINORITY = 2,
    MEMBERS = 4,
    ROUNDS = 200,
    ROUNDS_MAX = 100000,
    LEASE_MS = 1000,
    YOUNG_S = 3, /* age at which every client lets a node vote: the delay, plus rounding */
    STAY_MS = 12,
    SERVE_MS = 60000 /* longer than any wait */
};

/* ---- Records of the clients ------------------------------------------------------------------ */

typedef struct visit {
    int64_t from_us, until_us; /* the client believed that it held the lock all this time */
    uint64_t token;
    int member;
} visit;

typedef struct quorum_crowd {
    const char *url;
    int rounds; /* per client */
    visit *visits;
    atomic_int made, again[MEMBERS], lost;
    atomic_bool failed;
} quorum_crowd;

/* Stays inside for a moment; or, without renewing, until the lease ends. */
static void stay_inside(visit *v, hf_hold *hold, bool to_the_end) {
    int64_t leave = v->from_us + (to_the_end ? 2 * LEASE_MS : STAY_MS) * INT64_C(1000);
    for (int64_t now = t_now_us(); now < leave; now = t_now_us()) {
        if (!hf_held(hold)) return;
        v->until_us = now; /* read before hf_held: it was held then */
        t_sleep_ms(1);
    }
}

static void visit_once(quorum_crowd *c, hf_client *client, int member, int round) {
    bool to_the_end = round % 16 == 15;
    hf_hold *hold = NULL;
    hf_options options = {.wait_ms = t_patience(SERVE_MS),
                          .lease_ms = member % 2 ? LEASE_MS / 2 : LEASE_MS,
                          .flags = to_the_end ? HF_NO_RENEW : 0};
    hf_result r;
    while ((r = hf_acquire(client, LOCK, &options, &hold)) == HF_NO_QUORUM ||
           r == HF_UNKNOWN_OUTCOME)
        atomic_fetch_add(&c->again[member], 1);
    if (r != HF_OK)
        t_fail("member %d: the acquire returned %s (%s)", member, hf_result_name(r),
               hf_error_detail());
    visit *v = &c->visits[atomic_fetch_add(&c->made, 1)];
    v->from_us = v->until_us = t_now_us();
    v->token = hf_fence(hold);
    v->member = member;
    if (!hf_held(hold)) v->from_us = INT64_MAX; /* over before the first check */
    stay_inside(v, hold, to_the_end);
    r = hf_release(hold);
    if (r == HF_LOST)
        atomic_fetch_add(&c->lost, 1);
    else if (r != HF_OK && r != HF_UNKNOWN_OUTCOME)
        t_fail("member %d: the release returned %s (%s)", member, hf_result_name(r),
               hf_error_detail());
}

static void member_main(int index, void *arg) {
    quorum_crowd *c = arg;
    hf_client *client = NULL;
    T_HF(HF_OK, hf_open(c->url, NULL, &client));
    for (int i = 0; i < c->rounds; i++) visit_once(c, client, index, i);
    hf_close(client);
}

/* ---- Faults of the nodes --------------------------------------------------------------------- */

typedef struct node_chaos {
    t_nodes *nodes;
    struct {
        enum { THERE, STOPPED, DEAD } state;
        int64_t back_at; /* when it is away */
    } node[NODES];
    int64_t began, next;
    unsigned seed;
    int kills, stops;
} node_chaos;

static int pick_below(node_chaos *x, int n) {
    x->seed = x->seed * 1103515245 + 12345;
    return (int)(x->seed >> 16 & 0x7fff) % n;
}

static void print_fault(const node_chaos *x, int i, const char *what) {
    printf("    %6lld ms: 127.0.0.1:%u %s\n", (long long)(t_now_ms() - x->began),
           t_redis_port(t_nodes_at(x->nodes, i)), what);
}

/* Away, or too young to count on. */
static bool is_out(const node_chaos *x, int i) {
    return x->node[i].state != THERE ||
           t_redis_info(t_nodes_at(x->nodes, i), "uptime_in_seconds") < YOUNG_S;
}

static void disturb_node(node_chaos *x) {
    int i = pick_below(x, NODES), out = 0;
    for (int j = 0; j < NODES; j++) out += is_out(x, j);
    if (out >= MINORITY || is_out(x, i)) return;
    t_redis *node = t_nodes_at(x->nodes, i);
    bool kill = pick_below(x, 2);
    x->kills += kill;
    x->stops += !kill;
    print_fault(x, i, kill ? "is killed" : "is stopped");
    if (kill)
        t_redis_kill9(node);
    else
        t_redis_stop(node);
    x->node[i].state = kill ? DEAD : STOPPED;
    x->node[i].back_at = t_now_ms() + (pick_below(x, 3) ? pick_below(x, 2 * LEASE_MS) : 0);
    x->next = t_now_ms() + 500 + pick_below(x, 500);
}

static void bring_nodes_back(node_chaos *x, bool all) {
    for (int i = 0; i < NODES; i++) {
        bool dead = x->node[i].state == DEAD;
        if (x->node[i].state == THERE || (!all && t_now_ms() < x->node[i].back_at)) continue;
        if (dead)
            t_redis_restart(t_nodes_at(x->nodes, i));
        else
            t_redis_cont(t_nodes_at(x->nodes, i));
        x->node[i].state = THERE;
        print_fault(x, i, dead ? "is back, without its data" : "continues");
    }
}

/* ---- Checks ---------------------------------------------------------------------------------- */

static int by_start(const void *a, const void *b) {
    const visit *x = a, *y = b;
    return x->from_us < y->from_us ? -1 : x->from_us > y->from_us;
}

static void check_visits(quorum_crowd *c, int total) {
    assert_int_equal(c->made, total);
    qsort(c->visits, (size_t)total, sizeof *c->visits, by_start);
    for (int i = 1; i < total && c->visits[i].from_us != INT64_MAX; i++) {
        const visit *before = &c->visits[i - 1], *v = &c->visits[i];
        if (v->from_us < before->until_us)
            t_fail("the hold of member %d overlaps by %lld us with that of member %d", v->member,
                   (long long)(before->until_us - v->from_us), before->member);
        if (v->token <= before->token)
            t_fail("member %d got the token %llu, not above %llu of member %d before it", v->member,
                   (unsigned long long)v->token, (unsigned long long)before->token, before->member);
    }
}

static int rounds_wanted(void) {
    const char *text = getenv("HOLDFAST_QUORUM_ROUNDS");
    int n = text ? atoi(text) : ROUNDS;
    return n < MEMBERS ? MEMBERS : n > ROUNDS_MAX ? ROUNDS_MAX : n;
}

static void B08_F24_F36_clients_are_served_while_nodes_fail(void **state) {
    (void)state;
    int each = rounds_wanted() / MEMBERS, total = each * MEMBERS;
    node_chaos x = {.nodes = t_nodes_start(NODES, NULL), .seed = (unsigned)t_now_us()};
    char url[512];
    t_nodes_grow_old(x.nodes, YOUNG_S);
    snprintf(
        url, sizeof url,
        "%s?rejoin_delay=%dms&lease=%dms&command_timeout=400ms&connect_timeout=400ms&outage=1h",
        t_nodes_url(x.nodes, NODES), LEASE_MS, LEASE_MS);
    quorum_crowd c = {.url = url, .rounds = each, .visits = calloc((size_t)total, sizeof(visit))};
    x.began = x.next = t_now_ms();
    t_threads *members = t_threads_start(MEMBERS, member_main, &c);
    int64_t until = t_now_ms() + t_patience(SERVE_MS + total * INT64_C(200));
    while (t_threads_ended(members) < MEMBERS && t_now_ms() < until) {
        if (t_now_ms() >= x.next) disturb_node(&x);
        bring_nodes_back(&x, false);
        t_sleep_ms(20);
    }
    bring_nodes_back(&x, true);
    t_threads_join(members, SERVE_MS);
    printf("    %d acquires by %d clients in %lld ms: %d nodes killed, %d stopped; %d holds "
           "lost or expired, %d waits repeated\n",
           c.made, MEMBERS, (long long)(t_now_ms() - x.began), x.kills, x.stops, c.lost,
           c.again[0] + c.again[1] + c.again[2] + c.again[3]);
    check_visits(&c, total);
    free(c.visits);
    t_nodes_free(x.nodes);
}

int main(int argc, char **argv) {
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(B08_F24_F36_clients_are_served_while_nodes_fail),
    };
    fault_begin(argc, argv);
    return cmocka_run_group_tests(tests, fault_chosen, NULL);
}
