/* SPDX-License-Identifier: Apache-2.0 */
/* holdfast status: the holder and the waiters of a lock. */
#include "inspect/status.h"

#include <getopt.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "common/duration.h"
#include "common/exit_codes.h"
#include "common/message.h"
#include "common/options.h"
#include "common/show.h"
#include "common/store.h"
#include "holdfast.h"

#define SHOWN 10 /* waiters on a terminal, unless --all */
#define SEEN  64 /* waiters that the library returns */

enum { ALL = COMMON_OWN, JSON };

typedef struct status_args {
    char *store;
    const char *name;
    bool all, json;
} status_args;

/* ---- For people ---- */

static void show_since(const hf_info *info) {
    char at[64], ago[DURATION_TEXT], text[128];
    struct tm local;
    time_t since = (time_t)(info->since_unix_ms / 1000);
    if (!info->since_unix_ms || !localtime_r(&since, &local)) return;
    strftime(at, sizeof at, "%Y-%m-%d %H:%M:%S", &local);
    snprintf(text, sizeof text, "%s (%s ago)", at, duration_text(show_held_ms(info), ago));
    show_line("since", text);
}

static void show_held(const hf_info *info, const store *s) {
    char text[SHOW_TEXT];
    show_line("kind", show_kind(info->kind));
    show_holder(text, sizeof text, info);
    show_line(info->holders > 1 ? "one holder" : "holder", text);
    show_since(info);
    if (info->count > 1) {
        snprintf(text, sizeof text, "%" PRIu32 " times", info->count);
        show_line("count", text);
    }
    show_remaining(text, sizeof text, info, s);
    show_line("remaining", text);
    snprintf(text, sizeof text, "%" PRIu64, info->token);
    show_line("token", text);
}

static void show_waiters(const hf_info *info, bool all) {
    char text[SHOW_TEXT];
    uint32_t shown = all || !show_width() ? SEEN : SHOWN;
    if (!info->waiting) return;
    if (info->waiting > 1) {
        snprintf(text, sizeof text, "%" PRIu32 " clients, in this order:", info->waiting);
        show_line("waiting", text);
    }
    for (uint32_t i = 0; i < info->waiting && i < shown; i++) {
        const hf_waiter *w = &info->waiters[i];
        show_who(text, sizeof text, w->program, w->pid, w->host, w->label);
        show_line(info->waiting > 1 ? "" : "waiting", text);
    }
    if (info->waiting <= shown) return;
    snprintf(text, sizeof text, "and %" PRIu32 " more%s", info->waiting - shown,
             shown < SEEN ? ": --all shows them" : "");
    show_line("", text);
}

static void show_lock(const status_args *a, const store *s, const char *where,
                      const hf_info *info) {
    char text[SHOW_TEXT];
    show_line("name", a->name);
    show_state(text, sizeof text, info);
    show_line("state", text);
    if (info->held) show_held(info, s);
    show_waiters(info, a->all);
    snprintf(text, sizeof text, *where ? "%s (%s)" : "%s%s", s->shown, where);
    show_line("store", text);
}

/* ---- Inspecting ---- */

static int inspect_and_show(const status_args *a, const store *s) {
    hf_client *client;
    hf_info *info;
    int code = store_open(s, &client);
    if (code) return code;
    hf_result r = hf_inspect(client, a->name, &info);
    if (r) {
        code = fail(exit_code_of(r), "cannot inspect %s: %s", a->name, hf_error_detail());
    } else if (get_verbosity() == QUIET) {
        code = info->held ? 0 : 1;
    } else {
        if (a->json)
            show_json_lock(a->name, info, s);
        else
            show_lock(a, s, hf_where(client), info);
        code = show_end(info->held ? 0 : 1);
    }
    hf_info_free(info);
    hf_close(client);
    return code;
}

static int parse_status_args(status_args *a, int argc, char **argv) {
    static const struct option options[] = {{"store", required_argument, NULL, 'S'},
                                            {"all", no_argument, NULL, ALL},
                                            {"json", no_argument, NULL, JSON},
                                            {"quiet", no_argument, NULL, 'q'},
                                            {"verbose", no_argument, NULL, COMMON_VERBOSE},
                                            {"help", no_argument, NULL, COMMON_HELP},
                                            {0}};
    int c, code = ARGS_CONTINUE;
    while (code == ARGS_CONTINUE && (c = getopt_long(argc, argv, ":S:qh", options, NULL)) != -1) {
        if (c == ALL)
            a->all = true;
        else if (c == JSON)
            a->json = true;
        else
            code = common_option("status", c, argv, &a->store);
    }
    return code == ARGS_CONTINUE ? common_name("status", argc, argv, &a->name) : code;
}

int status_main(int argc, char **argv) {
    status_args a = {0};
    store s;
    int code = parse_status_args(&a, argc, argv);
    if (code != ARGS_CONTINUE) return code;
    code = store_choose(&s, a.store);
    if (!code) code = inspect_and_show(&a, &s);
    store_fini(&s);
    return code;
}
