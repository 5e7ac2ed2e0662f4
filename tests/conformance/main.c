/* SPDX-License-Identifier: Apache-2.0 */
/*
 * conformance STORE [PATTERN | PART/PARTS]: run the cases that apply to a store. With a pattern,
 * run only cases whose name matches. With a part such as 1/2, run only that part: 1/2 and 2/2 side
 * by side take half as long.
 *
 * The table of stores lists what each store has, and the cases list what they need. This alone
 * decides which behaviour applies where. A case without needs applies to every store.
 */
#include "conformance.h"

#include <dirent.h>
#include <unistd.h>

#include "cf_redis.h"
#include "run.h"
#include "t_acl.h"
#include "t_cluster.h"
#include "t_net.h"
#include "t_nodes.h"
#include "t_queue.h"
#include "t_sentinel.h"

/* ---- Stores ---------------------------------------------------------------------------------- */

typedef struct tested_store {
    const char *name;
    unsigned has;
    void (*start)(void); /* sets the URLs below */
    int (*queue_length)(const char *name);
} store;

enum { URL_MAX = 512 };

static char url[URL_MAX], other_url[URL_MAX + sizeof "?prefix=other"];
static t_redis *redis, *replica;
static t_nodes *nodes;
static t_cluster *cluster;
static t_sentinel *sentinels;

const char *cf_url(void) {
    return url;
}

const char *cf_other_url(void) {
    return other_url;
}

t_redis *cf_redis(void) {
    return redis;
}

static void start_memory(void) {
    snprintf(url, sizeof url, "memory:conformance");
    snprintf(other_url, sizeof other_url, "memory:other");
}

/* The queue is in the process, so hf_inspect is the way to see it. */
static int memory_queue_length(const char *name) {
    hf_client *client = NULL;
    hf_info *info = NULL;
    CF_IS(HF_OK, hf_open(url, NULL, &client));
    CF_IS(HF_OK, hf_inspect(client, name, &info));
    int waiting = (int)info->waiting;
    hf_info_free(info);
    hf_close(client);
    return waiting;
}

static void start_redis_at(const char *(*url_of)(const t_redis *)) {
    redis = t_redis_start(NULL);
    snprintf(url, sizeof url, "%s", url_of(redis));
    snprintf(other_url, sizeof other_url, "%s?prefix=other", url);
}

/* Uses the server user of the documentation, which has only the rights that locking needs. Listing
   is a separate right there. The prefix looks like a pattern, to show that it is escaped. */
static void start_redis(void) {
    redis = t_redis_start(NULL);
    snprintf(url, sizeof url, "%s", t_acl_user(redis, "other"));
    freeReplyObject(t_redis_cmd(redis, "ACL SETUSER holdfast +scan ~h[*]:* &h[*]:c:*"));
    snprintf(other_url, sizeof other_url, "%s?prefix=other", url);
}

/* With a replica that must confirm each grant. */
static void start_replicas(void) {
    static const char *const config[] = {"repl-diskless-sync-delay 0", NULL};
    char of[64];
    const char *replica_config[] = {config[0], of, NULL};
    redis = t_redis_start(&(t_redis_options){.config = config});
    snprintf(of, sizeof of, "replicaof " T_HOST " %u", t_redis_port(redis));
    replica = t_redis_start(&(t_redis_options){.config = replica_config});
    T_WAIT_UNTIL(t_redis_str(redis, "SET in sync PX 1") && t_redis_int(redis, "WAIT 1 100") == 1,
                 10000);
    snprintf(url, sizeof url, "%s?replicas=1", t_redis_url(redis));
    snprintf(other_url, sizeof other_url, "%s&prefix=other", url);
}

static void start_redis_unix(void) {
    start_redis_at(t_redis_unix_url);
}

/* A directory for certificates, removed at the end. */
static char certificates[] = "/tmp/hf-conformance-tls-XXXXXX";

static void on_certificates(const char *program) {
    char command[URL_MAX];
    snprintf(command, sizeof command, "%s %s >/dev/null 2>&1", program, certificates);
    if (system(command) != 0) t_fail("cannot run: %s", command);
}

static void start_redis_tls(void) {
    char lines[4][URL_MAX];
    uint16_t port = t_net_free_port();
    if (!mkdtemp(certificates)) abort();
    on_certificates(CERTIFICATES);
    snprintf(lines[0], URL_MAX, "tls-port %u", port);
    snprintf(lines[1], URL_MAX, "tls-cert-file %s/good.crt", certificates);
    snprintf(lines[2], URL_MAX, "tls-key-file %s/good.key", certificates);
    snprintf(lines[3], URL_MAX, "tls-ca-cert-file %s/ca.crt", certificates);
    const char *config[] = {lines[0], lines[1], lines[2], lines[3], "tls-auth-clients no", NULL};
    redis = t_redis_start(&(t_redis_options){.config = config});
    snprintf(url, sizeof url, "rediss://localhost:%u?tls_ca=%s/ca.crt", port, certificates);
    snprintf(other_url, sizeof other_url, "%s&prefix=other", url);
}

/* Found through Sentinel; no failover happens. */
static void start_sentinel(void) {
    sentinels = t_sentinel_start(NULL);
    redis = t_sentinel_node(sentinels, t_sentinel_primary(sentinels));
    snprintf(url, sizeof url, "%s", t_sentinel_url(sentinels));
    snprintf(other_url, sizeof other_url, "%s?prefix=other", url);
}

/* Freshly started servers may vote soon: they have lost no data. */
static void start_quorum(void) {
    nodes = t_nodes_start(3, NULL);
    t_nodes_grow_old(nodes, 2);
    snprintf(url, sizeof url, "%s?rejoin_delay=1ms", t_nodes_url(nodes, 3));
    snprintf(other_url, sizeof other_url, "%s&prefix=other", url);
}

/* Also uses the server user of the documentation. */
static void start_cluster(void) {
    cluster = t_cluster_start(NULL);
    const char *hosts = strstr(t_cluster_url(cluster), "://") + 3;
    for (int i = 0; i < t_cluster_size(cluster); i++)
        t_acl_user_in_cluster(t_cluster_node(cluster, i), "other");
    for (int i = 0; i < t_cluster_size(cluster); i++)
        freeReplyObject(
            t_redis_cmd(t_cluster_node(cluster, i), "ACL SETUSER holdfast +scan ~h[*]:* &h[*]:*"));
    snprintf(url, sizeof url, "redis+cluster://holdfast:PASSWORD@%s", hosts);
    snprintf(other_url, sizeof other_url, "%s?prefix=other", url);
}

/* Whether an answer to PUBSUB NUMSUB reports a subscriber of its one channel. */
static bool has_subscriber_in(redisReply *reply) {
    bool found = reply->elements == 2 && reply->element[1]->integer > 0;
    freeReplyObject(reply);
    return found;
}

static bool is_subscribed(t_redis *node, const char *name, const char *entry) {
    size_t length = strcspn(entry, ":#");
    if (!cluster)
        return has_subscriber_in(t_redis_cmd(node, "PUBSUB NUMSUB hf:c:%b", entry, length));
    redisReply *reply = t_redis_cmd(node, "PUBSUB SHARDNUMSUB hf:{%s}:c:%b", name, entry, length);
    if (reply->type != REDIS_REPLY_ERROR) return has_subscriber_in(reply);
    freeReplyObject(reply); /* before Redis 7 */
    return has_subscriber_in(t_redis_cmd(node, "PUBSUB NUMSUB hf:{%s}:c:%b", name, entry, length));
}

/* Counts clients that are subscribed: others may be passed over. */
static int redis_queue_length(t_redis *node, const char *name) {
    redisReply *line = t_redis_cmd(node, "LRANGE hf:{%s}:q 0 -1", name);
    int count = 0;
    for (size_t i = 0; i < line->elements; i++)
        count += is_subscribed(node, name, line->element[i]->str);
    freeReplyObject(line);
    return count;
}

static int cluster_queue_length(const char *name) {
    return redis_queue_length(
        t_cluster_node(cluster, t_cluster_owner(cluster, t_cluster_slot(name))), name);
}

/* A directory of its own, removed at the end by a process that does nothing else. */
static char directory[] = "/tmp/hf-conformance-XXXXXX";

static void start_file(void) {
    if (!mkdtemp(directory)) abort();
    snprintf(url, sizeof url, "file://%s", directory);
    snprintf(other_url, sizeof other_url, "%s?prefix=other", url);
}

/* The names of cases need no encoding. */
static int file_queue_length(const char *name) {
    char path[URL_MAX];
    snprintf(path, sizeof path, "%s/lock.hf.%s", directory, name);
    return t_queue_length(path);
}

static void remove_directory(void) {
    DIR *dir = opendir(directory);
    for (struct dirent *entry; dir && (entry = readdir(dir));)
        if (entry->d_name[0] != '.') unlinkat(dirfd(dir), entry->d_name, 0);
    if (dir) closedir(dir);
    rmdir(directory);
}

static int in_redis_queue(const char *name) {
    return redis_queue_length(redis, name);
}

/* A waiter without a subscription may still be passed over. */
bool cf_all_subscribed(const hf_info *info, const char *name) {
    bool all = !cluster || cluster_queue_length(name) == (int)info->waiting;
    for (uint32_t i = 0; redis && i < info->waiting && i < 64; i++)
        all = is_subscribed(redis, name, info->waiters[i].client) && all;
    return all;
}

static const store stores[] = {
    {"memory", CF_QUEUE | CF_KINDS | CF_LATCH_LEADER | CF_LISTS, start_memory, memory_queue_length},
    {"file", CF_PROCESSES | CF_QUEUE | CF_OWN_CLOCK | CF_KINDS | CF_LATCH_LEADER | CF_LISTS,
     start_file, file_queue_length},
    {"redis",
     CF_PROCESSES | CF_REDIS | CF_EXPORTS | CF_QUEUE | CF_KINDS | CF_LATCH_LEADER | CF_LISTS,
     start_redis, in_redis_queue},
    {"redis-replicas",
     CF_PROCESSES | CF_REDIS | CF_EXPORTS | CF_QUEUE | CF_KINDS | CF_LATCH_LEADER | CF_LISTS,
     start_replicas, in_redis_queue},
    {"redis-unix",
     CF_PROCESSES | CF_REDIS | CF_EXPORTS | CF_QUEUE | CF_KINDS | CF_LATCH_LEADER | CF_LISTS,
     start_redis_unix, in_redis_queue},
    {"redis-tls",
     CF_PROCESSES | CF_REDIS | CF_EXPORTS | CF_QUEUE | CF_KINDS | CF_LATCH_LEADER | CF_LISTS,
     start_redis_tls, in_redis_queue},
    {"sentinel",
     CF_PROCESSES | CF_REDIS | CF_EXPORTS | CF_QUEUE | CF_KINDS | CF_LATCH_LEADER | CF_LISTS,
     start_sentinel, in_redis_queue},
    {"redis-quorum", CF_PROCESSES, start_quorum, NULL},
    {"cluster", CF_PROCESSES | CF_EXPORTS | CF_QUEUE | CF_KINDS | CF_LATCH_LEADER | CF_LISTS,
     start_cluster, cluster_queue_length},
};

#if defined(__SANITIZE_THREAD__)
enum { BUILD_HAS = 0 };
#elif defined(__has_feature)
enum { BUILD_HAS = __has_feature(thread_sanitizer) ? 0 : CF_FORK_WITH_THREADS };
#else
enum { BUILD_HAS = CF_FORK_WITH_THREADS };
#endif

static const store *find_store(const char *name) {
    for (size_t i = 0; i < sizeof stores / sizeof *stores; i++) {
        if (strcmp(stores[i].name, name) == 0) return &stores[i];
    }
    return NULL;
}

/* ---- Cases ----------------------------------------------------------------------------------- */

/* The keys come last, because that case empties the server. */
static const cf_case *const themes[] = {
    cf_basics,   cf_waiting,  cf_contention, cf_reentry,       cf_owners, cf_leases,
    cf_loss,     cf_breaking, cf_inspecting, cf_processes,     cf_misuse, cf_names,
    cf_options,  cf_errors,   cf_closing,    cf_queue_order,   cf_async,  cf_kinds,
    cf_readers,  cf_upgrade,  cf_permits,    cf_multi_acquire, cf_latch,  cf_leader,
    cf_counting, cf_listing,  cf_exporting,  cf_keys,
};

enum { CASES_MAX = 512 };

static struct CMUnitTest tests[CASES_MAX];
static const store *under_test;

bool cf_has(unsigned needs) {
    return !(needs & ~under_test->has);
}

int cf_queue_length(const char *name) {
    return under_test->queue_length(name);
}

static void run_case(void **state) {
    cf *f = *state;
    f->test->run(f);
}

typedef struct share {
    unsigned part, parts;
} share;

static const share whole = {1, 1};

/* False: the word is a pattern. */
static bool is_part(const char *word, share *s) {
    share of;
    char beyond;
    if (sscanf(word, "%u/%u%c", &of.part, &of.parts, &beyond) != 2) return false;
    if (of.part < 1 || of.part > of.parts)
        t_fail("no such part: %s; write PART/PARTS, such as 1/2", word);
    *s = of;
    return true;
}

static size_t collect_cases(const store *s, share of) {
    size_t count = 0, applies = 0;
    for (size_t i = 0; i < sizeof themes / sizeof *themes; i++) {
        for (const cf_case *c = themes[i]; c->name; c++) {
            if (c->needs & ~(s->has | BUILD_HAS)) continue;
            if (applies++ % of.parts != of.part - 1) continue;
            if (count == CASES_MAX) abort(); /* raise CASES_MAX: no case may be left out silently */
            tests[count++] =
                (struct CMUnitTest){c->name, run_case, cf_setup, cf_teardown, (void *)(uintptr_t)c};
        }
    }
    return count;
}

static int start_store(void **state) {
    (void)state;
    under_test->start();
    return 0;
}

static int stop_store(void **state) {
    (void)state;
    if (redis) t_acl_none_refused(redis);
    if (sentinels)
        t_sentinel_free(sentinels);
    else
        t_redis_free(redis);
    t_redis_free(replica);
    t_nodes_free(nodes);
    for (int i = 0; cluster && i < t_cluster_size(cluster); i++)
        t_acl_none_refused(t_cluster_node(cluster, i));
    t_cluster_free(cluster);
    remove_directory();
    if (!strstr(certificates, "XXXXXX")) on_certificates("rm -rf");
    return 0;
}

int main(int argc, char **argv) {
    under_test = argc > 1 ? find_store(argv[1]) : NULL;
    if (!under_test) {
        fprintf(stderr,
                "usage: conformance memory|file|redis|redis-replicas|redis-unix|redis-tls|sentinel|"
                "redis-quorum|cluster [PATTERN | PART/PARTS]\n");
        return 64;
    }
    setvbuf(stdout, NULL, _IOLBF, 0); /* so that the output names the case that hangs */
    share of = whole;
    const char *pattern = argc > 2 ? argv[2] : NULL;
    if (pattern && is_part(pattern, &of)) pattern = NULL;
    size_t count = collect_cases(under_test, of);
    return cf_run(under_test->name, tests, count, start_store, stop_store, pattern);
}
