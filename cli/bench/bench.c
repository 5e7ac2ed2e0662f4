/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/bench.h"

#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "bench/bench_run.h"
#include "common/duration.h"
#include "common/exit_codes.h"
#include "common/json.h"
#include "common/message.h"
#include "common/options.h"
#include "common/store.h"
#include "help.h"

#define SECONDS_MIN_MS 50
#define SECONDS_MAX_MS 3600000
#define TABLE_COLUMNS  78

enum { JSON = 256, SECONDS, THREADS, HELP };

typedef struct bench_args {
    char *store;
    bool json;
    bench_plan plan;
} bench_args;

/* ---- Arguments ---- */

static int parse_seconds(bench_args *a, const char *text) {
    if (duration_parse(text, &a->plan.ms) && a->plan.ms >= SECONDS_MIN_MS &&
        a->plan.ms <= SECONDS_MAX_MS)
        return ARGS_CONTINUE;
    return usage_error("bench", "--seconds %s is not a time from 50ms to 1h", WORD(text));
}

static int parse_threads(bench_args *a, const char *text) {
    char *end;
    errno = 0;
    long n = strtol(text, &end, 10);
    if (*text < '0' || *text > '9' || *end || errno || n < 2 || n > BENCH_THREADS_MAX)
        return usage_error("bench", "--threads %s is not a number from 2 to %d", WORD(text),
                           BENCH_THREADS_MAX);
    a->plan.threads = (unsigned)n;
    return ARGS_CONTINUE;
}

static int parse_bench_args(bench_args *a, int argc, char **argv) {
    static const struct option options[] = {{"store", required_argument, NULL, 'S'},
                                            {"seconds", required_argument, NULL, SECONDS},
                                            {"threads", required_argument, NULL, THREADS},
                                            {"json", no_argument, NULL, JSON},
                                            {"quiet", no_argument, NULL, 'q'},
                                            {"help", no_argument, NULL, HELP},
                                            {0}};
    *a = (bench_args){.plan = {.ms = 3000, .threads = 4}};
    int c, code = ARGS_CONTINUE;
    while (code == ARGS_CONTINUE && (c = getopt_long(argc, argv, "+:S:qh", options, NULL)) != -1) {
        switch (c) {
        case 'S': code = store_option(optarg, &a->store); break;
        case SECONDS: code = parse_seconds(a, optarg); break;
        case THREADS: code = parse_threads(a, optarg); break;
        case JSON: a->json = true; break;
        case 'q': set_verbosity(QUIET); break;
        case ':':
        case '?': return args_bad_option("bench", c, argv);
        default: return help_show("bench");
        }
    }
    if (code == ARGS_CONTINUE && argv[optind])
        code = usage_error("bench", "unexpected argument \"%s\"", WORD(argv[optind]));
    return code;
}

/* ---- For people ---- */

static const double shares[] = {0.5, 0.9, 0.99};

static double per_second(const bench_outcome *o) {
    return o->seconds > 0 ? (double)o->acquired / o->seconds : 0;
}

static double commands_each(const bench_outcome *o) {
    return o->acquired ? (double)o->commands / (double)o->acquired : 0;
}

static const char *format_ns(int64_t ns, char text[DURATION_TEXT]) {
    if (ns < 1000000)
        snprintf(text, DURATION_TEXT, "%.3g us", (double)ns / 1e3);
    else if (ns < 1000000000)
        snprintf(text, DURATION_TEXT, "%.3g ms", (double)ns / 1e6);
    else
        snprintf(text, DURATION_TEXT, "%.3g s", (double)ns / 1e9);
    return text;
}

static const char *format_server_time(const bench_outcome *o, char text[DURATION_TEXT]) {
    if (o->server_us < 0) return "-";
    return format_ns((int64_t)(o->server_us * 1e3), text);
}

static void show_bench_row(bench_part part, const bench_outcome *o) {
    char text[DURATION_TEXT];
    printf("%-12s%9.0f", bench_names[part], per_second(o));
    for (size_t i = 0; i < sizeof shares / sizeof *shares; i++)
        printf("%9s", format_ns(histogram_quantile(&o->durations, shares[i]), text));
    printf("%9s", format_ns(o->durations.longest, text));
    printf("%9.2f%9s\n", commands_each(o), format_server_time(o, text));
}

static void show_bench_list(bench_part part, const bench_outcome *o) {
    static const char *const names[] = {"median", "90 %", "99 %"};
    char text[DURATION_TEXT];
    printf("%s\n  per sec     %.0f\n", bench_names[part], per_second(o));
    for (size_t i = 0; i < sizeof shares / sizeof *shares; i++)
        printf("  %-12s%s\n", names[i],
               format_ns(histogram_quantile(&o->durations, shares[i]), text));
    printf("  %-12s%s\n", "max", format_ns(o->durations.longest, text));
    printf("  %-12s%.2f\n  %-12s%s\n", "commands", commands_each(o), "server",
           format_server_time(o, text));
}

static bool is_narrow(void) {
    struct winsize size;
    return isatty(STDOUT_FILENO) && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col &&
           size.ws_col < TABLE_COLUMNS;
}

static void show_bench_head(const bench_args *a, const char *shown) {
    char text[DURATION_TEXT];
    printf("The store is %s\n%u threads, %s per part\n\n", shown, a->plan.threads,
           duration_text(a->plan.ms, text));
    if (!is_narrow())
        printf("%-12s%9s%9s%9s%9s%9s%9s%9s\n", "", "per sec", "median", "90 %", "99 %", "max",
               "commands", "server");
}

static void show_part(bench_part part, const bench_outcome *o) {
    if (is_narrow())
        show_bench_list(part, o);
    else
        show_bench_row(part, o);
    fflush(stdout);
}

static void show_legend(void) {
    puts("\nuncontended, parallel: time to acquire and release; each thread has its own "
         "lock.\ncontended: time from a release to the next grant; all clients want the same "
         "lock.\ncommands, server: commands and server time (in scripts) per acquisition.");
}

/* ---- For programs ---- */

static void show_bench_json(const bench_args *a, const char *shown, const bench_outcome *parts) {
    printf("{\"store\":");
    json_write_string(stdout, shown);
    printf(",\"threads\":%u,\"parts\":[", a->plan.threads);
    for (int i = 0; i < BENCH_PARTS; i++) {
        const bench_outcome *o = &parts[i];
        printf("%s\n{\"name\":\"%s\",\"seconds\":%.3f,\"acquired\":%" PRIu64 ",\"per_second\":%.1f",
               i ? "," : "", bench_names[i], o->seconds, o->acquired, per_second(o));
        printf(",\"%s_us\":{\"count\":%" PRIu64
               ",\"p50\":%.1f,\"p90\":%.1f,\"p99\":%.1f,\"max\":%.1f}",
               i == BENCH_CONTENDED ? "handover" : "pair", o->durations.count,
               (double)histogram_quantile(&o->durations, 0.5) / 1e3,
               (double)histogram_quantile(&o->durations, 0.9) / 1e3,
               (double)histogram_quantile(&o->durations, 0.99) / 1e3,
               (double)o->durations.longest / 1e3);
        printf(",\"commands_per_acquisition\":%.3f", commands_each(o));
        if (o->server_us >= 0) printf(",\"server_us_per_acquisition\":%.2f", o->server_us);
        putchar('}');
    }
    printf("]}\n");
}

/* ---- The whole run ---- */

static int run_parts(const bench_args *a, const store *s) {
    static bench_outcome parts[BENCH_PARTS];
    bool people = !a->json && get_verbosity() != QUIET;
    int code = 0;
    if (people) show_bench_head(a, s->shown);
    for (int i = 0; i < BENCH_PARTS && !code && !bench_signalled(); i++) {
        code = bench_run(&a->plan, (bench_part)i, &parts[i]);
        if (!code && people && !bench_signalled()) show_part((bench_part)i, &parts[i]);
    }
    bench_clean(&a->plan);
    if (code || bench_signalled()) return code;
    if (people) show_legend();
    if (a->json && get_verbosity() != QUIET) show_bench_json(a, s->shown, parts);
    if (fflush(stdout) == 0 && !ferror(stdout)) return 0;
    return fail(EXIT_SYSTEM, "cannot write to standard output");
}

int bench_main(int argc, char **argv) {
    bench_args a;
    store s;
    int code = parse_bench_args(&a, argc, argv);
    if (code != ARGS_CONTINUE) return code;
    code = store_choose(&s, a.store);
    if (!code) {
        a.plan.store = &s;
        a.plan.progress = isatty(STDERR_FILENO) && get_verbosity() != QUIET;
        bench_watch_signals();
        code = run_parts(&a, &s);
    }
    store_fini(&s);
    if (bench_signalled()) { /* die as if the signal had not been caught */
        signal(bench_signalled(), SIG_DFL);
        raise(bench_signalled());
    }
    return code;
}
