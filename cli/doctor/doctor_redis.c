/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks a Redis or Valkey server: INFO, its clock, the rights of the user, latency. Each finding
 * says what it means for locks. The only keys that change on the server are keys of this check,
 * which are deleted again.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/time.h"
#include "doctor/doctor.h"
#include "doctor/doctor_rights.h"

#define VALUE_BYTES    128
#define LATENCY_TRIES  200
#define LATENCY_MS     2000
#define CLOCK_TRIES    5
#define CLOCK_NOTE_US  INT64_C(1000000)
#define CLOCK_STEP_US  INT64_C(50000)
#define OLDEST_VERSION 602 /* 6.2 */

typedef struct redis_check {
    findings *all;
    const hf__url *url;
    server_admin *admin;
    char *info;                  /* the reply to INFO */
    int64_t offset_us, error_us; /* the server's clock minus the local one; its uncertainty */
    bool timed;                  /* the clock was measured */
    bool needs_password;         /* the server answers nothing before a login */
} redis_check;

/* ---- INFO ---- */

/* Finds the value of a line `field:value`. False if there is none. */
static bool info_field(const redis_check *p, const char *name, char value[VALUE_BYTES]) {
    size_t length = strlen(name);
    for (const char *line = p->info; *line;) {
        size_t end = strcspn(line, "\r\n");
        if (end > length && line[length] == ':' && strncmp(line, name, length) == 0) {
            snprintf(value, VALUE_BYTES, "%.*s", (int)(end - length - 1), line + length + 1);
            return true;
        }
        line += end;
        line += strspn(line, "\r\n");
    }
    value[0] = '\0';
    return false;
}

static int64_t info_number(const redis_check *p, const char *name) {
    char value[VALUE_BYTES];
    return info_field(p, name, value) ? strtoll(value, NULL, 10) : -1;
}

static bool info_is(const redis_check *p, const char *name, const char *wanted) {
    char value[VALUE_BYTES];
    return info_field(p, name, value) && strcmp(value, wanted) == 0;
}

/* Adds a finding if INFO fails, because many checks are then skipped. */
static bool read_info(redis_check *p) {
    server_reply reply;
    if (server_admin_command(p->admin, &reply, (const char *[]){"INFO", NULL})) {
        findings_add(p->all, LEVEL_ERROR, "reach",
                     "No lock can be acquired, and held locks will be lost.", NULL, "%s",
                     hf_error_detail());
        return false;
    }
    if (reply.type == '$') {
        p->info = strdup(reply.text);
        return p->info != NULL;
    }
    p->needs_password = strncmp(reply.text, "NOAUTH", strlen("NOAUTH")) == 0;
    if (p->needs_password) return false;
    findings_add(p->all, LEVEL_NOTE, "info",
                 "Version, role, persistence, memory and replicas are not checked.",
                 "For a complete check, run doctor as a user with the right +info.",
                 "the user cannot run INFO: %s", reply.text);
    return false;
}

/* ---- Version, role, replicas ---- */

/* The first two numbers of 7.0.15. */
static bool parse_version(const char *text, long *major, long *minor) {
    char *end;
    *major = strtol(text, &end, 10);
    if (end == text || *end != '.') return false;
    text = end + 1;
    *minor = strtol(text, &end, 10);
    return end != text && *major >= 0 && *major < 1000 && *minor >= 0 && *minor < 100;
}

static void check_version(redis_check *p) {
    char version[VALUE_BYTES], compatible[VALUE_BYTES];
    long major = 0, minor = 0;
    bool valkey = info_field(p, "valkey_version", version);
    info_field(p, "redis_version", compatible);
    if (!valkey) snprintf(version, sizeof version, "%s", compatible);
    if (!parse_version(compatible, &major, &minor)) {
        findings_add(p->all, LEVEL_NOTE, "version", NULL, NULL,
                     "the server does not report its version");
        return;
    }
    bool old = major * 100 + minor < OLDEST_VERSION;
    findings_add(p->all, old ? LEVEL_ERROR : LEVEL_OK, "version",
                 old ? "Holdfast needs commands that this version does not have." : NULL,
                 old ? "Upgrade to Redis 6.2 or later, or to Valkey." : NULL, "%s %s",
                 valkey ? "Valkey" : "Redis", version);
}

static void check_role(redis_check *p) {
    if (info_is(p, "role", "slave"))
        findings_add(p->all, LEVEL_ERROR, "role",
                     "It refuses writes, so no lock can be acquired here.",
                     "Use the URL of the primary.", "the server is a replica");
    else if (info_is(p, "cluster_enabled", "1"))
        findings_add(
            p->all, LEVEL_ERROR, "role",
            "redis:// does not follow redirects: locks whose slot is on another node fail.",
            "Use redis+cluster://, or a separate server for locks.",
            "the server is part of a cluster");
    else if (info_is(p, "role", "master"))
        findings_add(p->all, LEVEL_OK, "role", NULL, NULL, "primary, not part of a cluster");
}

/* With replicas=N in the URL. */
static void check_confirming_replicas(redis_check *p, int64_t replicas) {
    bool enough = replicas >= p->url->replicas;
    findings_add(
        p->all, enough ? LEVEL_OK : LEVEL_ERROR, "replicas",
        enough ? NULL
               : "A lock counts only when that many replicas have it, so no lock can be acquired.",
        enough ? NULL : "Connect more replicas, or lower replicas= in the URL.",
        "%" PRId64 " connected; replicas=%d waits for %d of them", replicas, (int)p->url->replicas,
        (int)p->url->replicas);
}

static void check_replicas(redis_check *p) {
    int64_t replicas = info_number(p, "connected_slaves");
    if (replicas >= 0 && p->url->replicas)
        check_confirming_replicas(p, replicas);
    else if (replicas > 0)
        findings_add(
            p->all, LEVEL_NOTE, "replicas",
            "A replica gets a lock later than its holder. So a failover can lose a lock, and then "
            "two clients hold it.",
            "The protected resource should check the token (hf_fence, HOLDFAST_FENCE).",
            "%" PRId64 " connected", replicas);
    else if (replicas == 0)
        findings_add(p->all, LEVEL_OK, "replicas", NULL, NULL,
                     "none: a failover cannot lose locks, but no replica can replace the server");
}

/* ---- Persistence, memory, connections ---- */

static const char *const RESTART_FORGETS =
    "A restart forgets the locks that are held. Their holders notice when they reconnect; until "
    "then another client may hold them too.";

static void check_persistence(redis_check *p) {
    server_reply reply;
    bool always = false;
    if (info_is(p, "rdb_last_bgsave_status", "err") || info_is(p, "aof_last_write_status", "err")) {
        findings_add(
            p->all, LEVEL_ERROR, "persistence",
            "The server may refuse all writes (MISCONF), and then no lock can be acquired.",
            "Check the log of the server; free some disk space.",
            "the last attempt to save to disk failed");
        return;
    }
    if (info_number(p, "aof_enabled") == 1) {
        const char *const words[] = {"CONFIG", "GET", "appendfsync", NULL};
        if (!server_admin_command(p->admin, &reply, words) && reply.type == '*' && reply.count == 2)
            always = strcmp(reply.item[1], "always") == 0;
        findings_add(p->all, always ? LEVEL_OK : LEVEL_NOTE, "persistence",
                     always ? NULL : "A crash of the machine loses the locks of the last second.",
                     always ? NULL
                            : "Set appendfsync always to prevent this; writes then wait for the "
                              "disk.",
                     always ? "append-only file, synced at every write"
                            : "append-only file, synced about once a second");
        return;
    }
    server_reply saves;
    const char *const words[] = {"CONFIG", "GET", "save", NULL};
    bool known =
        !server_admin_command(p->admin, &saves, words) && saves.type == '*' && saves.count == 2;
    bool none = known && !*saves.item[1];
    findings_add(p->all, LEVEL_WARNING, "persistence", RESTART_FORGETS,
                 "Set appendonly yes, or let the protected resource check the token.",
                 none ? "nothing is written to disk" : "no append-only file, at most snapshots");
}

static void check_memory(redis_check *p) {
    char policy[VALUE_BYTES];
    int64_t limit = info_number(p, "maxmemory"), used = info_number(p, "used_memory");
    if (!info_field(p, "maxmemory_policy", policy)) return;
    if (strcmp(policy, "noeviction") != 0) {
        findings_add(p->all, limit > 0 ? LEVEL_ERROR : LEVEL_WARNING, "eviction",
                     limit > 0 ? "When memory is full, the server deletes locks that are held, and "
                                 "others can acquire them."
                               : "There is no memory limit now. With one, the server may delete "
                                 "locks that are held.",
                     "Set maxmemory-policy noeviction, or use a separate server for locks. Keys of "
                     "locks have a TTL, so the volatile policies evict them too.",
                     "maxmemory-policy is %s", policy);
    } else {
        findings_add(p->all, LEVEL_OK, "eviction", NULL, NULL, "maxmemory-policy is noeviction");
    }
    if (limit > 0 && used > limit / 10 * 9)
        findings_add(p->all, LEVEL_WARNING, "memory",
                     "When memory is full, no lock can be acquired; locks that are held can still "
                     "be released.",
                     "Raise maxmemory, or find out what uses the memory.",
                     "%" PRId64 " of %" PRId64 " MiB are used", used >> 20, limit >> 20);
}

static void check_clients(redis_check *p) {
    int64_t clients = info_number(p, "connected_clients"), limit = info_number(p, "maxclients");
    if (limit <= 0) return;
    bool tight = clients > limit / 10 * 9;
    findings_add(
        p->all, tight ? LEVEL_WARNING : LEVEL_OK, "clients",
        tight
            ? "Each client of Holdfast needs two connections; without them it cannot acquire locks."
            : NULL,
        tight ? "Raise maxclients, or close connections." : NULL,
        "%" PRId64 " of %" PRId64 " connections are used", clients, limit);
}

/* ---- Clocks ---- */

static int64_t wall_us(void) {
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

/* Measures the offset of the server's clock. The uncertainty is half of the round trip. */
static bool measure_clock(redis_check *p, int64_t *offset_us, int64_t *error_us) {
    server_reply reply;
    *error_us = INT64_MAX;
    for (int i = 0; i < CLOCK_TRIES; i++) {
        int64_t before = wall_us();
        hf_result r = server_admin_command(p->admin, &reply, (const char *[]){"TIME", NULL});
        int64_t after = wall_us();
        if (r || reply.type != '*' || reply.count != 2) return false;
        int64_t server =
            strtoll(reply.item[0], NULL, 10) * 1000000 + strtoll(reply.item[1], NULL, 10);
        if (after < before || (after - before) / 2 >= *error_us) continue;
        *error_us = (after - before) / 2;
        *offset_us = server - before - *error_us;
    }
    return *error_us != INT64_MAX;
}

static void check_clock(redis_check *p) {
    p->timed = measure_clock(p, &p->offset_us, &p->error_us);
    if (!p->timed) return; /* the check of rights reports that TIME is not allowed */
    int64_t apart = llabs(p->offset_us) > p->error_us ? llabs(p->offset_us) : 0;
    bool far = apart > CLOCK_NOTE_US;
    findings_add(
        p->all, far ? LEVEL_NOTE : LEVEL_OK, "clock",
        far ? "Leases are not affected, because each side uses its own clock. Displayed times are "
              "wrong, and tokens may go backwards if locks move to a server whose clock is behind."
            : NULL,
        far ? "Run NTP on both machines; let it slew the clocks, not step them." : NULL,
        "the server's clock is %s%.3f ms %s ours", apart ? "" : "within ",
        (double)(apart ? apart : p->error_us) / 1e3,
        !apart             ? "of"
        : p->offset_us > 0 ? "ahead of"
                           : "behind");
}

/* Measures again at the end: a clock may have been stepped, or run at another rate. */
static void check_clock_again(redis_check *p) {
    int64_t offset_us, error_us;
    if (!p->timed || !measure_clock(p, &offset_us, &error_us)) return;
    int64_t moved = llabs(offset_us - p->offset_us);
    if (moved <= CLOCK_STEP_US + error_us + p->error_us) return;
    findings_add(p->all, LEVEL_WARNING, "clock",
                 "If the clock of the server is stepped forward, leases end early.",
                 "Let NTP slew the clocks, not step them.",
                 "the difference between the clocks changed by %.3f s during this check",
                 (double)moved / 1e6);
}

/* ---- Latency ---- */

static void check_latency(redis_check *p) {
    static int64_t us[LATENCY_TRIES];
    size_t count = 0;
    server_reply reply;
    hf__time until = hf__after_ms(hf__now(), LATENCY_MS);
    while (count < LATENCY_TRIES) {
        hf__time before = hf__now();
        if (before >= until) break;
        if (server_admin_command(p->admin, &reply, (const char *[]){"TIME", NULL})) break;
        us[count++] = (hf__now() - before) / 1000;
    }
    doctor_latency(p->all, us, count, p->url->lease_ms, "a request to the server");
}

/* ---- Connecting ---- */

static bool is_this_machine(const char *host) {
    return strcmp(host, "localhost") == 0 || strncmp(host, "127.", 4) == 0 ||
           strcmp(host, "::1") == 0;
}

static void check_privacy(redis_check *p) {
    const hf__url *url = p->url;
    if (url->tls_verify_none)
        findings_add(p->all, LEVEL_WARNING, "tls",
                     "Anyone on the network path can impersonate the server.",
                     "Remove tls_verify=none, and set tls_ca to the certificate authority.",
                     "the server's certificate is not verified");
    else if (url->scheme == HF__SCHEME_REDIS_TLS)
        findings_add(p->all, LEVEL_OK, "tls", NULL, NULL, "the server's certificate is verified");
    else if (url->scheme == HF__SCHEME_REDIS && !is_this_machine(url->host) &&
             (url->password || url->password_file))
        findings_add(p->all, LEVEL_NOTE, "tls",
                     "Anyone on the network path can read the password, and acquire locks.",
                     "Use rediss:// if the network is not trusted.",
                     "the password is sent to %s without encryption", url->host);
}

static bool connect_server(redis_check *p) {
    hf__time before = hf__now();
    hf_result r = server_admin_open(p->url, &p->admin);
    if (r) {
        findings_add(p->all, LEVEL_ERROR, "reach",
                     "No lock can be acquired, and held locks will be lost.",
                     r == HF_REFUSED ? NULL : "Check the URL, the server and the network.", "%s",
                     hf_error_detail());
        return false;
    }
    findings_add(p->all, LEVEL_OK, "reach", NULL, NULL, "connected in %.3f ms",
                 (double)(hf__now() - before) / 1e6);
    return true;
}

/* Without a login, the other checks would take each refused command for a result. So they are not
   made. */
static void report_no_password(redis_check *p) {
    findings_add(p->all, LEVEL_ERROR, "login",
                 "No lock can be acquired, and nothing more can be checked.",
                 "Put the password into the URL, as in redis://:PASSWORD@HOST, or into a file, as "
                 "in redis://HOST?password_file=FILE.",
                 "the server requires a password, and the URL has none");
}

static void run_checks(redis_check *p, bool informed) {
    if (informed) {
        check_version(p);
        check_role(p);
        check_replicas(p);
        check_persistence(p);
        check_memory(p);
        check_clients(p);
    }
    check_clock(p);
    doctor_rights(p->all, p->url, p->admin);
    check_latency(p);
    check_clock_again(p);
}

bool doctor_redis(findings *all, const hf__url *url) {
    redis_check p = {.all = all, .url = url};
    if (!connect_server(&p)) return false;
    check_privacy(&p);
    bool informed = read_info(&p);
    if (p.needs_password)
        report_no_password(&p);
    else
        run_checks(&p, informed);
    free(p.info);
    server_admin_close(p.admin);
    return !p.needs_password;
}
