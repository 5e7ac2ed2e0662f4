/* SPDX-License-Identifier: Apache-2.0 */
/* holdfast acquire: take a lock that stays held after this command has ended. */
#include "hold/acquire.h"

#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/exit_codes.h"
#include "common/message.h"
#include "common/options.h"
#include "common/show.h"
#include "common/store.h"
#include "hold/acquire_wait.h"
#include "hold/handle.h"
#include "hold/helper_process.h"
#include "holdfast.h"

enum { LEASE = COMMON_OWN, WHILE_PID, DETACH, MAX_HOLD, NO_RENEW };

typedef struct acquire_args {
    char *store;
    const char *name, *handle;
    int64_t wait_ms, lease_ms, max_hold_ms;
    pid_t pid; /* 0: none */
    bool detach, no_renew;
} acquire_args;

/* ---- Without a helper process ---- */

static int fail_no_renew(const store *s) {
    return usage_error(
        "acquire",
        "--no-renew is not possible on %s: a lock there needs a running process; use "
        "--while-pid or --detach",
        s->shown);
}

static int write_exported_handle(const acquire_args *a, const store *s, uint64_t token, char *text,
                                 const handle_file *f) {
    handle made = {.name = (char *)a->name,
                   .store = s->shown,
                   .token = token,
                   .exported = text,
                   .lease_ms = a->lease_ms,
                   .until_unix_ms = handle_now_ms() + a->lease_ms};
    return handle_write(a->handle, f, &made);
}

/* Releases a lock whose handle could not be written, because nobody else can release it. */
static void undo_export(hf_client *client, const char *text) {
    hf_hold *hold;
    if (hf_adopt(client, text, NULL, &hold) == HF_OK) (void)hf_release(hold);
}

static int export_hold(const acquire_args *a, const store *s, hf_client *client, hf_hold *hold,
                       const handle_file *f) {
    char text[HF_EXPORT_MAX];
    uint64_t token = hf_fence(hold);
    hf_result r = hf_export(hold, text, sizeof text);
    if (r) {
        int failed = fail(exit_code_of(r), "cannot keep %s without a helper process: %s", a->name,
                          hf_error_detail());
        (void)hf_release(hold);
        return failed;
    }
    int code = write_exported_handle(a, s, token, text, f);
    if (code) {
        undo_export(client, text);
        return code;
    }
    printf("%" PRIu64 "\n", token);
    return show_end(0);
}

static int acquire_and_export(const acquire_args *a, const store *s, hf_client *client,
                              const handle_file *f) {
    hf_hold *hold;
    hf_options options = {.wait_ms = a->wait_ms, .lease_ms = a->lease_ms, .flags = HF_NO_RENEW};
    int code = acquire_wait(client, s, a->name, &options, EXIT_CONFLICT, &hold);
    return code ? code : export_hold(a, s, client, hold, f);
}

static int acquire_without_helper(const acquire_args *a, const store *s) {
    hf_client *client;
    handle_file f;
    if (strncmp(s->url, "redis", strlen("redis")) != 0) return fail_no_renew(s);
    int code = handle_create(a->handle, &f);
    if (!code) code = store_open(s, &client);
    if (!code) {
        code = acquire_and_export(a, s, client, &f);
        hf_close(client);
    }
    if (code)
        handle_remove(&f);
    else
        handle_close(&f);
    return code;
}

/* ---- With a helper process ---- */

static int acquire_with_helper(const acquire_args *a, const store *s) {
    uint64_t token;
    helper_process h = {.store = s,
                        .name = a->name,
                        .handle = a->handle,
                        .options = {.wait_ms = a->wait_ms, .lease_ms = a->lease_ms},
                        .process = -1,
                        .max_hold_ms = a->max_hold_ms};
    if (a->pid) h.process = (int)syscall(SYS_pidfd_open, a->pid, 0);
    if (a->pid && h.process < 0)
        return fail(EXIT_USAGE, "--while-pid %d: %s", (int)a->pid, strerror(errno));
    int code = helper_start(&h, &token);
    if (code) return code;
    printf("%" PRIu64 "\n", token);
    return show_end(0);
}

/* ---- The command line ---- */

static int parse_pid(acquire_args *a, const char *text) {
    char *end;
    errno = 0;
    long n = strtol(text, &end, 10);
    a->pid = (pid_t)n;
    if (*text >= '1' && *text <= '9' && !*end && !errno && n == (long)a->pid) return ARGS_CONTINUE;
    return usage_error("acquire", "--while-pid %s is not a process id", WORD(text));
}

static int parse_acquire_option(acquire_args *a, int c, char **argv) {
    switch (c) {
    case 'o': a->handle = optarg; return ARGS_CONTINUE;
    case 'n': a->wait_ms = 0; return ARGS_CONTINUE;
    case 'w': return common_wait("acquire", optarg, &a->wait_ms);
    case LEASE: return common_lease("acquire", optarg, &a->lease_ms);
    case WHILE_PID: return parse_pid(a, optarg);
    case DETACH: a->detach = true; return ARGS_CONTINUE;
    case NO_RENEW: a->no_renew = true; return ARGS_CONTINUE;
    case MAX_HOLD: return common_duration("acquire", "--max-hold", optarg, &a->max_hold_ms);
    default: return common_option("acquire", c, argv, &a->store);
    }
}

/* The user must say what ends the lock, so that no lock is held forever by mistake. */
static int check_acquire_args(const acquire_args *a) {
    if (!a->handle) return usage_error("acquire", "-o HANDLE is missing; release needs this file");
    if ((a->pid != 0) + a->detach + a->no_renew != 1)
        return usage_error("acquire", "choose when the lock ends, with one of: --while-pid PID, "
                                      "--detach --max-hold TIME, --no-renew --lease TIME");
    if (a->detach && a->max_hold_ms <= 0)
        return usage_error("acquire", "--detach needs --max-hold TIME");
    if (a->no_renew && !a->lease_ms)
        return usage_error("acquire", "--no-renew needs --lease TIME, after which the lock ends");
    if (a->no_renew && a->max_hold_ms)
        return usage_error(
            "acquire",
            "use either --no-renew or --max-hold; with --no-renew, the lock ends with its lease");
    return ARGS_CONTINUE;
}

static int parse_acquire_args(acquire_args *a, int argc, char **argv) {
    static const struct option options[] = {{"store", required_argument, NULL, 'S'},
                                            {"handle", required_argument, NULL, 'o'},
                                            {"nonblock", no_argument, NULL, 'n'},
                                            {"wait", required_argument, NULL, 'w'},
                                            {"timeout", required_argument, NULL, 'w'},
                                            {"lease", required_argument, NULL, LEASE},
                                            {"while-pid", required_argument, NULL, WHILE_PID},
                                            {"detach", no_argument, NULL, DETACH},
                                            {"max-hold", required_argument, NULL, MAX_HOLD},
                                            {"no-renew", no_argument, NULL, NO_RENEW},
                                            {"quiet", no_argument, NULL, 'q'},
                                            {"verbose", no_argument, NULL, COMMON_VERBOSE},
                                            {"help", no_argument, NULL, COMMON_HELP},
                                            {0}};
    int c, code = ARGS_CONTINUE;
    while (code == ARGS_CONTINUE &&
           (c = getopt_long(argc, argv, ":S:o:nw:qh", options, NULL)) != -1)
        code = parse_acquire_option(a, c, argv);
    if (code == ARGS_CONTINUE) code = common_name("acquire", argc, argv, &a->name);
    return code == ARGS_CONTINUE ? check_acquire_args(a) : code;
}

int acquire_main(int argc, char **argv) {
    acquire_args a = {.wait_ms = HF_FOREVER};
    store s;
    int code = parse_acquire_args(&a, argc, argv);
    if (code != ARGS_CONTINUE) return code;
    code = store_choose(&s, a.store);
    if (!code && strncmp(s.url, "memory:", strlen("memory:")) == 0)
        code = usage_error(
            "acquire",
            "memory: exists in one process only, so a lock there cannot outlive this command");
    if (!code) code = a.no_renew ? acquire_without_helper(&a, &s) : acquire_with_helper(&a, &s);
    store_fini(&s);
    return code;
}
