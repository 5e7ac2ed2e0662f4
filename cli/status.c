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

/* What others chose must not write on a person's terminal. */
static void show(const char *what, const char *text) {
    char tame[TEXT_BYTES];
    hf__text_tame(tame, sizeof tame, text, strlen(text));
    printf("%-10s %s\n", what, tame);
}

static void show_holder(const hf_info *info) {
    char text[TEXT_BYTES], pid[32] = "";
    if (info->pid) snprintf(pid, sizeof pid, ", pid %" PRId64, info->pid);
    bool known = *info->program || info->pid || *info->host;
    snprintf(text, sizeof text, "%s%s%s%s%s%s%s", *info->program ? info->program : "a program", pid,
             *info->host ? " on " : "", info->host, *info->label ? " (" : "", info->label,
             *info->label ? ")" : "");
    show("holder", known ? text : "not known");
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
    show_holder(info);
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

static int show_all(const status_args *a, const store *s, const hf_info *info) {
    int code = info->held ? 0 : 1;
    if (say_get() == QUIET) return code;
    show("name", a->name);
    show("state", info->held ? "held" : "free");
    if (info->held) show_held(info);
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
