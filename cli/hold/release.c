/* SPDX-License-Identifier: Apache-2.0 */
/* holdfast release and holdfast extend: for a lock that holdfast acquire has taken. */
#include <errno.h>
#include <getopt.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/exit_codes.h"
#include "common/message.h"
#include "common/options.h"
#include "common/store.h"
#include "hold/acquire.h"
#include "hold/handle.h"
#include "holdfast.h"

#define HELPER_MS 15000 /* time for the helper to release; its store may be slow */

enum { LEASE = COMMON_OWN };

typedef struct release_args {
    char *store;
    const char *path;
    int64_t lease_ms;
} release_args;

/* ---- The store ---- */

/* The handle contains no credentials. If -S, the environment or the configuration names the same
   store, its credentials are used. */
static int choose_store(store *s, const release_args *a, const handle *h, bool *by_handle) {
    int code = store_choose(s, a->store);
    if (code || a->store || strcmp(s->shown, h->store) == 0) return code;
    *by_handle = true;
    store_fini(s);
    return store_choose_as(s, h->store, "the handle");
}

/* The store of the handle refused, perhaps because a login is missing. */
static void print_login_hint(const handle *h) {
    print_message("a handle contains no password; name the store and its password with -S, "
                  "$HOLDFAST_URL or the configuration file: %s",
                  h->store);
}

static int act_on_store(const release_args *a, handle *h,
                        int (*act)(const release_args *, handle *, hf_client *)) {
    store s = {0};
    hf_client *client;
    bool by_handle = false;
    int code = choose_store(&s, a, h, &by_handle);
    if (!code) code = store_open(&s, &client);
    if (!code) {
        code = act(a, h, client);
        hf_close(client);
    }
    if (code == EXIT_REFUSED && by_handle) print_login_hint(h);
    store_fini(&s);
    return code;
}

static int fail_not_held(const handle *h) {
    return fail(EXIT_LOST, "%s was no longer held: its time was over, or it was lost or broken",
                h->name);
}

/* ---- Releasing ---- */

static int release_exported(const release_args *a, handle *h, hf_client *client) {
    hf_hold *hold;
    (void)a;
    hf_result r = hf_adopt(client, h->exported, &(hf_options){.flags = HF_NO_RENEW}, &hold);
    if (!r) r = hf_release(hold);
    if (r == HF_LOST) return fail_not_held(h);
    return r ? fail(exit_code_of(r), "cannot release %s: %s", h->name, hf_error_detail()) : 0;
}

/* The helper has appended its result to the handle if the release did not succeed. */
static int read_helper_result(const release_args *a, const handle *h) {
    handle ended;
    int code = handle_read_again(a->path, h, &ended);
    if (!code && ended.over) code = fail_not_held(h);
    if (!code && ended.unknown)
        code = fail(EXIT_UNKNOWN,
                    "it is unknown if %s was released, because the store did not answer; the lock "
                    "is free when its lease ends",
                    h->name);
    handle_fini(&ended);
    return code;
}

static int stop_helper(const release_args *a, const handle *h) {
    int fd = handle_open_helper(h);
    if (fd < 0) return fail_not_held(h);
    struct pollfd ended = {.fd = fd, .events = POLLIN};
    int n = -1;
    if (syscall(SYS_pidfd_send_signal, fd, SIGTERM, NULL, 0) == 0) {
        do n = poll(&ended, 1, HELPER_MS);
        while (n < 0 && errno == EINTR);
    }
    close(fd);
    if (n > 0) return read_helper_result(a, h);
    return fail(
        EXIT_UNKNOWN,
        "the helper process of %s (pid %d) does not react; if it is stopped, run: kill -CONT %d",
        h->name, (int)h->helper, (int)h->helper);
}

/* Removes the handle if the lock has ended. */
static int release_handle(const release_args *a, handle *h) {
    int code = h->exported ? act_on_store(a, h, release_exported) : stop_helper(a, h);
    if (code == 0 || code == EXIT_LOST) handle_remove(&h->file);
    return code;
}

/* ---- Extending ---- */

static int extend_exported(const release_args *a, handle *h, hf_client *client) {
    int64_t now = handle_now_ms();
    hf_result r = hf_extend_exported(client, h->exported, a->lease_ms);
    if (r == HF_LOST) return fail_not_held(h);
    if (r) return fail(exit_code_of(r), "cannot extend %s: %s", h->name, hf_error_detail());
    int64_t until = now + (a->lease_ms ? a->lease_ms : h->lease_ms);
    if (until > h->until_unix_ms) h->until_unix_ms = until;
    if (handle_replace(h)) return 0;
    return fail(EXIT_SYSTEM, "%s was extended, but the handle %s cannot be written: %s", h->name,
                a->path, strerror(errno));
}

static int extend_handle(const release_args *a, handle *h) {
    if (h->exported) return act_on_store(a, h, extend_exported);
    int fd = handle_open_helper(h);
    if (fd < 0) return fail_not_held(h);
    close(fd);
    return fail(EXIT_USAGE, "there is no need to extend %s: its helper process renews it", h->name);
}

/* ---- The command lines ---- */

static int parse_path(const char *word, release_args *a, int argc, char **argv) {
    if (optind == argc) return usage_error(word, "the HANDLE is missing");
    if (optind + 1 < argc)
        return usage_error(word, "only one HANDLE is allowed; unexpected argument \"%s\"",
                           WORD(argv[optind + 1]));
    a->path = argv[optind];
    return ARGS_CONTINUE;
}

static int act_on_handle(const release_args *a, int (*what)(const release_args *, handle *)) {
    handle h;
    int code = handle_read(a->path, &h);
    if (!code) code = what(a, &h);
    handle_fini(&h);
    return code;
}

int release_main(int argc, char **argv) {
    static const struct option options[] = {{"store", required_argument, NULL, 'S'},
                                            {"quiet", no_argument, NULL, 'q'},
                                            {"verbose", no_argument, NULL, COMMON_VERBOSE},
                                            {"help", no_argument, NULL, COMMON_HELP},
                                            {0}};
    release_args a = {.path = ""};
    int c, code = ARGS_CONTINUE;
    while (code == ARGS_CONTINUE && (c = getopt_long(argc, argv, ":S:qh", options, NULL)) != -1)
        code = common_option("release", c, argv, &a.store);
    if (code == ARGS_CONTINUE) code = parse_path("release", &a, argc, argv);
    return code == ARGS_CONTINUE ? act_on_handle(&a, release_handle) : code;
}

int extend_main(int argc, char **argv) {
    static const struct option options[] = {
        {"store", required_argument, NULL, 'S'},  {"lease", required_argument, NULL, LEASE},
        {"quiet", no_argument, NULL, 'q'},        {"verbose", no_argument, NULL, COMMON_VERBOSE},
        {"help", no_argument, NULL, COMMON_HELP}, {0}};
    release_args a = {.path = ""};
    int c, code = ARGS_CONTINUE;
    while (code == ARGS_CONTINUE && (c = getopt_long(argc, argv, ":S:qh", options, NULL)) != -1)
        code = c == LEASE ? common_lease("extend", optarg, &a.lease_ms)
                          : common_option("extend", c, argv, &a.store);
    if (code == ARGS_CONTINUE) code = parse_path("extend", &a, argc, argv);
    return code == ARGS_CONTINUE ? act_on_handle(&a, extend_handle) : code;
}
