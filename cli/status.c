/* holdfast status: who holds a lock. */
#include "status.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "args.h"
#include "base/text.h"
#include "exits.h"
#include "holdfast.h"
#include "say.h"
#include "span.h"
#include "store.h"

#define TEXT_BYTES 4096 /* of a name, or of a URL */
#define SHOWN      10   /* of those who wait */

/* What others chose must not write on a person's terminal. */
static void show(const char *what, const char *text) {
    char tame[TEXT_BYTES];
    hf__text_tame(tame, sizeof tame, text, strlen(text));
    printf("%-10s %s\n", what, tame);
}

/* "holdfast, pid 311 on host-7 (nightly)": who that is, as far as it is known. */
static void describe(char *text, size_t size, const char *program, int64_t number, const char *host,
                     const char *label) {
    char pid[32] = "";
    if (number) snprintf(pid, sizeof pid, ", pid %" PRId64, number);
    if (!*program && !number && !*host)
        snprintf(text, size, "not known");
    else
        snprintf(text, size, "%s%s%s%s%s%s%s", *program ? program : "a program", pid,
                 *host ? " on " : "", host, *label ? " (" : "", label, *label ? ")" : "");
}

static void show_since(const hf_info *info) {
    char at[64], ago[SPAN_TEXT], text[TEXT_BYTES];
    struct timespec now;
    struct tm local;
    time_t since = (time_t)(info->since_unix_ms / 1000);
    if (!info->since_unix_ms || !localtime_r(&since, &local)) return;
    strftime(at, sizeof at, "%Y-%m-%d %H:%M:%S", &local);
    clock_gettime(CLOCK_REALTIME, &now);
    int64_t ms = (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000 - info->since_unix_ms;
    /* The store's clock may be ahead of ours. */
    snprintf(text, sizeof text, "%s (%s ago)", at, span_text(ms < 0 ? 0 : ms, ago));
    show("since", text);
}

static void show_held(const hf_info *info) {
    char text[SPAN_TEXT + 32], span[SPAN_TEXT];
    char holder[TEXT_BYTES];
    describe(holder, sizeof holder, info->program, info->pid, info->host, info->label);
    show(info->holders > 1 ? "one holder" : "holder", holder);
    show_since(info);
    if (info->count > 1) {
        snprintf(text, sizeof text, "%" PRIu32 " times", info->count);
        show("count", text);
    }
    snprintf(text, sizeof text, "%s, unless renewed", span_text(info->remaining_ms, span));
    show("remaining", text);
    snprintf(text, sizeof text, "%" PRIu64, info->token);
    show("token", text);
}

static void show_waiters(const hf_info *info) {
    char text[TEXT_BYTES];
    for (uint32_t i = 0; i < info->waiting && i < SHOWN; i++) {
        const hf_waiter *w = &info->waiters[i];
        describe(text, sizeof text, w->program, w->pid, w->host, w->label);
        show(i ? "" : "waiting", text);
    }
    if (info->waiting > SHOWN) {
        snprintf(text, sizeof text, "and %" PRIu32 " more", info->waiting - SHOWN);
        show("", text);
    }
}

static void show_state(const hf_info *info) {
    char text[96];
    if (!info->held)
        snprintf(text, sizeof text, "free");
    else if (info->kind == HF_PERMITS)
        snprintf(text, sizeof text, "%" PRIu32 " of %" PRIu32 " permits in use, by %" PRIu32,
                 info->used, info->capacity, info->holders);
    else if (info->kind == HF_READ || info->kind == HF_UPGRADABLE)
        snprintf(text, sizeof text, "shared, by %" PRIu32, info->holders);
    else
        snprintf(text, sizeof text, "held");
    show("state", text);
}

static int show_all(const status_args *a, const store *s, const hf_info *info) {
    int code = info->held ? 0 : 1;
    if (say_get() == QUIET) return code;
    show("name", a->name);
    show_state(info);
    if (info->held) show_held(info);
    show_waiters(info);
    show("store", s->shown);
    return fflush(stdout) == 0 ? code : fail(EXIT_SYSTEM, "cannot write to the standard output");
}

static int inspect(const status_args *a, const store *s) {
    hf_client *client;
    hf_info *info;
    int code = store_open(s, &client);
    if (code) return code;
    hf_result r = hf_inspect(client, a->name, &info);
    if (r)
        code = fail(exit_of(r), "cannot look at %s: %s", a->name, hf_error_detail());
    else
        code = show_all(a, s, info);
    hf_info_free(info);
    hf_close(client);
    return code;
}

int status_main(int argc, char **argv) {
    status_args a;
    store s;
    int code = status_args_parse(&a, argc, argv);
    if (code != ARGS_GO_ON) return code;
    code = store_choose(&s, a.store);
    if (!code) code = inspect(&a, &s);
    store_fini(&s);
    return code;
}
