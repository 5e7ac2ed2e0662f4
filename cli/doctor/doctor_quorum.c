/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks each node of a quorum: can it be reached, and does it vote? A node that has just started
 * does not vote (rejoin_delay). As long as the other nodes are a majority, only this check shows
 * that.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/duration.h"
#include "common/server_admin.h"
#include "doctor/doctor.h"

#define NODE_TEXT  300
#define UNKNOWN_MS (-1)

typedef struct quorum_node {
    char name[NODE_TEXT];
    int64_t up_ms;             /* UNKNOWN_MS: the node does not report it */
    bool has_aof, reports_aof; /* it keeps an append-only file; it reports whether it does */
} quorum_node;

static int64_t parse_uptime_ms(const char *info) {
    const char *at = strstr(info, "uptime_in_seconds:");
    return at ? strtoll(at + strlen("uptime_in_seconds:"), NULL, 10) * 1000 : UNKNOWN_MS;
}

/* Queries a node. Adds a finding and returns false if it does not answer. */
static bool query_node(findings *all, const hf__url *url, quorum_node *n) {
    server_admin *admin;
    server_reply reply;
    hf_result r = server_admin_open(url, &admin);
    if (!r) r = server_admin_command(admin, &reply, (const char *[]){"INFO", NULL});
    if (r) {
        bool named = strstr(hf_error_detail(), n->name);
        findings_add(all, LEVEL_WARNING, "node", "A majority of the nodes must answer and vote.",
                     "Check the node and the network.", "%s%s%s", named ? "" : n->name,
                     named ? "" : ": ", hf_error_detail());
    }
    bool answered = !r && reply.type == '$';
    n->up_ms = answered ? parse_uptime_ms(reply.text) : UNKNOWN_MS;
    n->reports_aof = answered && strstr(reply.text, "aof_enabled:");
    n->has_aof = answered && strstr(reply.text, "aof_enabled:1");
    server_admin_close(admin);
    return !r;
}

/* Clients subtract a second, because the server reports whole seconds. */
static int64_t votes_in_ms(const quorum_node *n, int64_t rejoin_ms) {
    int64_t counted = n->up_ms > 1000 ? n->up_ms - 1000 : 0;
    return counted < rejoin_ms ? rejoin_ms - counted : 0;
}

static void check_vote(findings *all, const quorum_node *n, int64_t rejoin_ms) {
    char up[DURATION_TEXT], left[DURATION_TEXT];
    int64_t votes_in = votes_in_ms(n, rejoin_ms);
    if (n->up_ms == UNKNOWN_MS)
        findings_add(all, LEVEL_WARNING, "node",
                     "The vote of the node counts only after a client has been connected for "
                     "rejoin_delay: short commands may get no lock.",
                     "Give the user the right +info on every node.",
                     "%s does not report its uptime", n->name);
    else if (votes_in > 0)
        findings_add(all, LEVEL_WARNING, "node",
                     "The node may have lost its data. It votes when every lease that it may have "
                     "forgotten is over. A majority of the nodes must vote.",
                     "Wait, and do not restart another node before that.",
                     "%s has been up for %s and votes in %s", n->name, duration_text(n->up_ms, up),
                     duration_text(votes_in, left));
    else
        findings_add(all, LEVEL_OK, "node", NULL, NULL, "%s has been up for %s and votes", n->name,
                     duration_text(n->up_ms, up));
}

static void check_rejoin_delay(findings *all, int64_t rejoin_ms) {
    bool own = rejoin_ms != HF__REJOIN_DELAY_MS && rejoin_ms >= HF__REJOIN_FORGETFUL_MS;
    if (!own) return;
    findings_add(all, LEVEL_NOTE, "delay",
                 "A client with a shorter rejoin_delay lets a node vote while the lease of another "
                 "client is still running.",
                 "Give all clients of this quorum the same rejoin_delay.",
                 "rejoin_delay is %" PRId64 " ms instead of the default %d ms", rejoin_ms,
                 HF__REJOIN_DELAY_MS);
}

/* With a short delay the user promises that nodes never lose data. */
static void check_durability(findings *all, const quorum_node *n, int64_t rejoin_ms) {
    if (rejoin_ms >= HF__REJOIN_FORGETFUL_MS || !n->reports_aof || n->has_aof) return;
    findings_add(all, LEVEL_WARNING, "node",
                 "After a restart the node votes without knowing who holds a lock: two clients can "
                 "hold the same lock.",
                 "Set appendonly yes and appendfsync always, or remove rejoin_delay from the URL.",
                 "%s keeps no append-only file, but rejoin_delay (%" PRId64
                 " ms) promises that it never loses data",
                 n->name, rejoin_ms);
}

void doctor_quorum(findings *all, const hf__url *url) {
    int64_t rejoin_ms = url->rejoin_delay_ms ? url->rejoin_delay_ms : HF__REJOIN_DELAY_MS;
    findings_add(all, LEVEL_NOTE, "reach",
                 "Only the uptime and the append-only file of each node are checked here.",
                 "Run doctor on each node with a redis:// URL.", "the store is a quorum");
    check_rejoin_delay(all, rejoin_ms);
    for (int i = 0; i < HF__HOSTS_MAX && url->hosts[i].name; i++) {
        hf__url of_node = *url;
        quorum_node n;
        of_node.scheme =
            url->scheme == HF__SCHEME_QUORUM_TLS ? HF__SCHEME_REDIS_TLS : HF__SCHEME_REDIS;
        of_node.host = url->hosts[i].name;
        of_node.port = url->hosts[i].port;
        snprintf(n.name, sizeof n.name, strchr(of_node.host, ':') ? "[%s]:%d" : "%s:%d",
                 of_node.host, (int)of_node.port);
        if (!query_node(all, &of_node, &n)) continue;
        check_vote(all, &n, rejoin_ms);
        check_durability(all, &n, rejoin_ms);
    }
}
