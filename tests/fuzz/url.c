/* SPDX-License-Identifier: Apache-2.0 */
/*
 * URLs, patterns, and options of all sizes: input from a user, or from a file that a user wrote.
 *
 * The first byte selects the kind; the rest is the text, or the bytes of the options.
 */
#include "fuzz.h"

#include "base/glob.h"
#include "base/url.h"
#include "fake_time.h"
#include "holdfast.h"

/* ---- URLs ---- */

#define SECRET "hunter2"

/* An accepted URL is complete and within its limits. */
static void check_url(const hf__url *u) {
    FUZZ_CHECK(u->scheme <= HF__SCHEME_CLUSTER_TLS);
    FUZZ_CHECK(u->prefix && strlen(u->prefix) <= HF__PREFIX_MAX);
    FUZZ_CHECK(!u->label || strlen(u->label) <= HF__LABEL_MAX);
    FUZZ_CHECK(!u->password || strlen(u->password) <= HF__PASSWORD_MAX);
    FUZZ_CHECK(u->lease_ms >= 0 && u->connect_timeout_ms >= 0 && u->command_timeout_ms >= 0);
    FUZZ_CHECK(u->outage_ms >= 0 && u->keep_ms >= 0 && u->rejoin_delay_ms >= 0);
    FUZZ_CHECK(u->port >= 0 && u->port <= 65535 && u->db >= 0 && u->replicas >= 0);
    for (int i = 0; i < HF__HOSTS_MAX && u->hosts[i].name; i++)
        FUZZ_CHECK(*u->hosts[i].name && u->hosts[i].port > 0 && u->hosts[i].port <= 65535);
}

/* A line for a person: a single, short line without credentials. */
static void check_line(const char *text) {
    const char *line = hf_error_detail(), *secret = strstr(text, ":" SECRET "@");
    FUZZ_CHECK(*line && !strchr(line, '\n'));
    if (secret && strstr(text, "://") && !strstr(secret + 2, SECRET))
        FUZZ_CHECK(!strstr(line, SECRET) || (size_t)(secret - text) != strcspn(text, "@?/ ") ||
                   !strstr(line, SECRET "@"));
}

/* The printable form is a URL of the same store without credentials; for an invalid URL, its
   scheme. */
static void check_shown(const char *text, hf_result r) {
    hf__url url;
    char *shown = hf__url_shown(text), *again = hf__url_shown(shown);
    FUZZ_CHECK(shown && again);
    if (r == HF_OK) {
        FUZZ_CHECK(hf__url_parse(&url, shown) == HF_OK);
        FUZZ_CHECK(!url.user && !url.password && !url.sentinel_user && !url.sentinel_password);
        FUZZ_CHECK(!strcmp(shown, again));
        hf__url_fini(&url);
    }
    free(shown);
    free(again);
}

static void try_url(input *in) {
    hf__url url;
    int64_t ms = 0;
    char *text = input_text(in, '\0');
    hf_result r = hf__url_parse(&url, text);
    if (r == HF_OK)
        check_url(&url);
    else
        check_line(text);
    FUZZ_CHECK(r == HF_OK || r == HF_INVALID || r == HF_UNSUPPORTED);
    hf__url_fini(&url);
    check_shown(text, r);
    if (hf__duration_parse(text, &ms)) FUZZ_CHECK(ms > 0);
    free(text);
}

/* ---- Patterns ---- */

static void try_pattern(input *in) {
    char *pattern = input_text(in, '\0'), *name = input_text(in, '\0');
    size_t start = hf__glob_prefix_length(pattern);
    FUZZ_CHECK(start <= strlen(pattern));
    if (strlen(pattern) < 200 && strlen(name) < 200 && hf__glob(pattern, name))
        FUZZ_CHECK(!strncmp(pattern, name, start));
    free(pattern);
    free(name);
}

/* ---- Options ---- */

enum { BEYOND = 16 };

/* Copies the bytes of the input over zeros. Pointers stay NULL: wrong pointers are not tested. */
static size_t fill_options(input *in, void *to, size_t known) {
    size_t size = input_byte(in) % (known + BEYOND + 1), length = size;
    const uint8_t *from = input_bytes(in, &length);
    memset(to, 0, known + BEYOND);
    if (length) memcpy(to, from, length);
    return size;
}

static void use_options(hf_client *client, hf_options *options, size_t size, const char *name) {
    hf_hold *hold = (hf_hold *)(uintptr_t)1, *again = NULL;
    hf_info *info = NULL;
    int64_t began = fake_time_now_ms();
    fake_time_call_begins();
    hf_result r = hf_acquire_v(client, name, options, size, &hold);
    FUZZ_CHECK((r == HF_OK) == (hold != NULL));
    FUZZ_CHECK(fake_time_now_ms() - began < 100);
    if (r) {
        FUZZ_CHECK(*hf_error_detail());
        return;
    }
    if (hf_held(hold)) {
        FUZZ_CHECK(hf_inspect(client, name, &info) == HF_OK && info->held);
        FUZZ_CHECK(info->token == hf_fence(hold) && hf_remaining_ms(hold) <= HF_LEASE_MAX_MS);
        hf_info_free(info);
    }
    options->wait_ms = 0; /* a held lock could be waited for without limit */
    r = hf_acquire_v(client, name, options, size, &again);
    FUZZ_CHECK((r == HF_OK) == (again != NULL));
    if (again) (void)hf_release(again);
    (void)!hf_extend(hold, (int64_t)options->lease_ms);
    (void)hf_release(hold);
}

static void try_options(input *in) {
    struct {
        hf_client_options known;
        char beyond[BEYOND];
    } client_options;
    struct {
        hf_options known;
        char beyond[BEYOND];
    } options;
    hf_client *client = (hf_client *)(uintptr_t)1;
    size_t client_size = fill_options(in, &client_options, sizeof client_options.known);
    client_options.known.label = NULL;
    client_options.known.log = NULL;
    client_options.known.flags |= HF_NO_THREAD;
    if (client_size < sizeof client_options.known) client_size = sizeof client_options.known;
    size_t size = fill_options(in, &options, sizeof options.known);
    options.known.cancel = NULL;
    options.known.on_lost = NULL;
    char *name = input_text(in, '\0');
    hf_result r = hf_open_v("memory:fuzz", &client_options.known, client_size, &client);
    FUZZ_CHECK((r == HF_OK) == (client != NULL));
    if (r)
        FUZZ_CHECK(*hf_error_detail());
    else
        use_options(client, &options.known, size, name);
    hf_close(client);
    free(name);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    input in = {data, size};
    fake_time_begin();
    switch (input_byte(&in)) {
    case 'o': try_options(&in); break;
    case 'p': try_pattern(&in); break;
    default: try_url(&in); break;
    }
    return 0;
}
