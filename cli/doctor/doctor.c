/* SPDX-License-Identifier: Apache-2.0 */
#include "doctor/doctor.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/time.h"
#include "common/exit_codes.h"
#include "common/message.h"
#include "common/options.h"
#include "common/store.h"
#include "help.h"

/* All runs use this name. So they wait for each other, and only one key with a token remains. */
#define LOCK_NAME "holdfast-doctor"
#define LEASE_MS  10000

enum { EXIT_WARNINGS = 1, EXIT_ERRORS = 2, JSON = 256, HELP };

/* ---- Latency ---- */

static int compare_us(const void *a, const void *b) {
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static void add_to_bucket(latency_stats *l, int64_t us) {
    unsigned i = 0;
    while (i + 1 < LATENCY_BUCKETS && us > INT64_C(1) << i) i++;
    l->bucket[i]++;
}

void doctor_latency(findings *all, int64_t *us, size_t count, int64_t lease_ms, const char *what) {
    if (!count) return;
    latency_stats *l = &all->latency;
    qsort(us, count, sizeof *us, compare_us);
    *l = (latency_stats){.count = (uint32_t)count,
                         .least_us = us[0],
                         .median_us = us[count / 2],
                         .p90_us = us[count * 9 / 10],
                         .p99_us = us[count * 99 / 100],
                         .most_us = us[count - 1]};
    for (size_t i = 0; i < count; i++) add_to_bucket(l, us[i]);
    bool bad = l->median_us > lease_ms * 1000 / 4, poor = l->most_us > lease_ms * 1000 / 10;
    findings_add(
        all,
        bad    ? LEVEL_ERROR
        : poor ? LEVEL_WARNING
               : LEVEL_OK,
        "latency",
        bad ? "Renewals take too long for this lease: locks will be lost."
        : poor
            ? "One reply took more than a tenth of the lease. A few such replies in a row lose a "
              "lock."
            : NULL,
        bad || poor ? "Use a longer lease, or a store that is nearer." : NULL,
        "%s takes %.3f ms (median), %.3f ms at most, in %zu tries", what,
        (double)l->median_us / 1e3, (double)l->most_us / 1e3, count);
}

/* ---- Trying a lock ---- */

typedef struct client_pair {
    hf_client *first, *second;
    int64_t lease_ms;
} client_pair;

static hf_result acquire_once(const client_pair *p, hf_client *client, const char *name,
                              int64_t wait_ms, hf_hold **hold) {
    hf_options options = {.wait_ms = wait_ms, .lease_ms = p->lease_ms};
    return hf_acquire(client, name, &options, hold);
}

/* Returns what went wrong, or NULL. Always releases its holds. */
static const char *try_exclusion(const client_pair *p, const char *name,
                                 char detail[FINDING_BYTES]) {
    hf_hold *first, *second;
    const char *wrong = NULL;
    if (acquire_once(p, p->first, name, 5000, &first)) {
        snprintf(detail, FINDING_BYTES, "%s", hf_error_detail());
        return "a lock cannot be acquired";
    }
    hf_result r = acquire_once(p, p->second, name, 0, &second);
    if (r == HF_OK) {
        snprintf(detail, FINDING_BYTES, "two clients held %s at once", name);
        wrong = "a lock does not exclude other clients";
        (void)hf_release(second);
    } else if (r != HF_BUSY) {
        snprintf(detail, FINDING_BYTES, "%s", hf_error_detail());
        wrong = "a second client cannot try to acquire the lock";
    }
    if (hf_release(first) && !wrong) {
        snprintf(detail, FINDING_BYTES, "%s", hf_error_detail());
        wrong = "a lock cannot be released";
    }
    return wrong;
}

static void try_pair(findings *all, const client_pair *p) {
    char detail[FINDING_BYTES];
    const char *wrong = try_exclusion(p, LOCK_NAME, detail);
    if (wrong)
        findings_add(all, LEVEL_ERROR, "locks", "Programs will fail in the same way.", NULL,
                     "%s: %s", wrong, detail);
    else
        findings_add(all, LEVEL_OK, "locks", NULL, NULL,
                     "a lock was acquired, kept another client out, and was released");
}

/* The lease is not longer than that of the store, because a quorum may refuse a longer one. */
static void check_locks(findings *all, const store *s, int64_t lease_ms) {
    client_pair p = {.lease_ms = lease_ms < LEASE_MS ? lease_ms : LEASE_MS};
    hf_result r = hf_open(s->url, NULL, &p.first);
    if (!r) r = hf_open(s->url, NULL, &p.second);
    if (r)
        findings_add(all, LEVEL_ERROR, "locks", "No program can acquire a lock here.", NULL,
                     "cannot open the store: %s", hf_error_detail());
    else
        try_pair(all, &p);
    hf_close(p.second);
    hf_close(p.first);
}

/* ---- The whole check ---- */

static void examine_store(findings *all, const store *s, const hf__url *url) {
    bool there = true;
    switch (url->scheme) {
    case HF__SCHEME_REDIS:
    case HF__SCHEME_REDIS_TLS:
    case HF__SCHEME_REDIS_UNIX: there = doctor_redis(all, url); break;
    case HF__SCHEME_FILE: there = doctor_file(all, url); break;
    case HF__SCHEME_MEMORY:
        findings_add(all, LEVEL_NOTE, "reach",
                     "Locks in memory exclude only threads of the same process.",
                     "Use memory: for tests only.", "memory: exists in one process only");
        break;
    case HF__SCHEME_QUORUM:
    case HF__SCHEME_QUORUM_TLS: doctor_quorum(all, url); break;
    default:
        findings_add(all, LEVEL_NOTE, "reach", "Only acquiring and releasing a lock is checked.",
                     "Run doctor on each server with a redis:// URL.",
                     "the servers of this store are not examined one by one");
    }
    if (there) check_locks(all, s, url->lease_ms);
}

static int run_doctor(store *s, bool json) {
    static findings all; /* too large for the stack */
    hf__url url;
    hf_result r = hf__url_parse(&url, s->url); /* it was parsed before */
    if (!r) {
        if (!url.lease_ms) url.lease_ms = s->lease_ms;
        examine_store(&all, s, &url);
    }
    hf__url_fini(&url);
    if (r) return fail(exit_code_of(r), "%s", hf_error_detail());
    severity worst = findings_worst(&all);
    int code = worst == LEVEL_ERROR ? EXIT_ERRORS : worst == LEVEL_WARNING ? EXIT_WARNINGS : 0;
    if (get_verbosity() == QUIET) return code;
    bool shown = json ? findings_show_json(&all, s->shown) : findings_show(&all, s->shown);
    return shown ? code : fail(EXIT_SYSTEM, "cannot write to standard output");
}

int doctor_main(int argc, char **argv) {
    static const struct option options[] = {{"store", required_argument, NULL, 'S'},
                                            {"json", no_argument, NULL, JSON},
                                            {"quiet", no_argument, NULL, 'q'},
                                            {"help", no_argument, NULL, HELP},
                                            {0}};
    char *url = NULL;
    bool json = false;
    store s;
    int c, code = ARGS_CONTINUE;
    while (code == ARGS_CONTINUE && (c = getopt_long(argc, argv, "+:S:qh", options, NULL)) != -1) {
        switch (c) {
        case 'S': code = store_option(optarg, &url); break;
        case JSON: json = true; break;
        case 'q': set_verbosity(QUIET); break;
        case ':':
        case '?': return args_bad_option("doctor", c, argv);
        default: return help_show("doctor");
        }
    }
    if (code != ARGS_CONTINUE) return code;
    if (argv[optind])
        return usage_error("doctor", "unexpected argument \"%s\"", WORD(argv[optind]));
    code = store_choose(&s, url);
    if (!code) code = run_doctor(&s, json);
    store_fini(&s);
    return code;
}
