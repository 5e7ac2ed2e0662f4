/* SPDX-License-Identifier: Apache-2.0 */
#include "common/store.h"

#include <errno.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/url.h"
#include "common/config.h"
#include "common/exit_codes.h"
#include "common/message.h"
#include "common/options.h"

#define MACHINE_STORE  "file:"
#define MACHINE_CONFIG "/etc/holdfast.conf"
#define USER_CONFIG    ".config/holdfast"
#define PASSWD_BYTES   4096 /* bytes of one entry; a longer one is ignored */
#define LEASE_MS       30000

static int fail_out_of_memory(void) {
    return fail(EXIT_SYSTEM, "out of memory");
}

/* ---- -S ---- */

/* The value of the last -S. It is valid until the process ends. */
static char *option_url;

int store_option(char *value, char **option) {
    size_t size = strlen(value) + 1;
    if (option_url) explicit_bzero(option_url, strlen(option_url));
    free(option_url);
    option_url = strdup(value);
    char *shown = option_url ? hf__url_shown(value) : NULL;
    explicit_bzero(value, size);
    if (shown) snprintf(value, size, "%s", shown);
    free(shown);
    *option = option_url;
    return option_url ? ARGS_CONTINUE : fail_out_of_memory();
}

/* ---- Finding the URL ---- */

static int set_url(store *s, const char *url, const char *from) {
    s->url = strdup(url);
    s->from = strdup(from);
    return s->url && s->from ? 0 : fail_out_of_memory();
}

static int set_from_user_config(store *s) {
    char buffer[PASSWD_BYTES], *path;
    struct passwd user, *found = NULL;
    const char *home = getenv("HOME");
    if (!home || !*home) {
        if (getpwuid_r(getuid(), &user, buffer, sizeof buffer, &found) != 0 || !found) return 0;
        home = found->pw_dir;
    }
    if (asprintf(&path, "%s/%s", home, USER_CONFIG) < 0) return fail_out_of_memory();
    int code = config_read(path, &s->url, &s->from);
    free(path);
    return code;
}

static int find_url(store *s, const char *option) {
    const char *environment = getenv("HOLDFAST_URL");
    if (option) return set_url(s, option, "--store");
    if (environment && *environment) return set_url(s, environment, "$HOLDFAST_URL");
    int code = set_from_user_config(s);
    if (!code && !s->url) code = config_read(MACHINE_CONFIG, &s->url, &s->from);
    if (!code && !s->url) code = set_url(s, MACHINE_STORE, "the default");
    return code;
}

/* ---- Checking and opening ---- */

void store_drop_label(store *s) {
    hf__url_drop_option(s->url, "label");
}

/* On file: the kernel frees a lock when its holder dies. The lease can be very long there, so that
   a suspended job keeps its lock. */
static int64_t default_lease(const char *url) {
    return strncmp(url, "file:", strlen("file:")) == 0 ? HF_LEASE_MAX_MS : LEASE_MS;
}

static int check_url(store *s) {
    hf__url url;
    hf_result r = hf__url_parse(&url, s->url);
    s->lease_ms = url.lease_ms ? url.lease_ms : default_lease(s->url);
    hf__url_fini(&url);
    if (r) return fail(exit_code_of(r), "invalid store from %s: %s", s->from, hf_error_detail());
    s->shown = hf__url_shown(s->url);
    return s->shown ? 0 : fail_out_of_memory();
}

int store_choose(store *s, const char *option) {
    *s = (store){0};
    int code = find_url(s, option);
    return code ? code : check_url(s);
}

int store_choose_as(store *s, const char *url, const char *from) {
    *s = (store){0};
    int code = set_url(s, url, from);
    return code ? code : check_url(s);
}

void store_fini(store *s) {
    if (s->url) explicit_bzero(s->url, strlen(s->url));
    free(s->url);
    free(s->shown);
    free(s->from);
    *s = (store){0};
}

static void print_log_line(int32_t level, const char *line, void *arg) {
    (void)level;
    (void)arg;
    print_verbose("%s", line);
}

int store_open(const store *s, hf_client **client) {
    print_verbose("the store is %s (from %s)", s->shown, s->from);
    hf_client_options options = {.lease_ms = s->lease_ms, .label = s->label};
    if (get_verbosity() == VERBOSE) {
        options.log = print_log_line;
        options.log_level = HF_LOG_INFO;
    }
    hf_result r = hf_open(s->url, &options, client);
    if (r)
        return fail(exit_code_of(r), "cannot open the store from %s: %s", s->from,
                    hf_error_detail());
    const char *where = hf_where(*client);
    if (*where) print_verbose("the locks are in %s", where);
    return 0;
}
