/* SPDX-License-Identifier: Apache-2.0 */
/* Store URLs: see url.h. */
#include "base/url.h"

#include <errno.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/error.h"

#define REDIS_PORT    6379
#define SENTINEL_PORT 26379
#define DB_MAX        65535
#define REPLICAS_MAX  100
#define NODES_MIN     3

/* ---- Schemes and options, one list each ---- */

enum {
    ON_MEMORY = 1 << HF__SCHEME_MEMORY,
    ON_FILE = 1 << HF__SCHEME_FILE,
    ON_SENTINEL = 1 << HF__SCHEME_SENTINEL | 1 << HF__SCHEME_SENTINEL_TLS,
    ON_QUORUM = 1 << HF__SCHEME_QUORUM | 1 << HF__SCHEME_QUORUM_TLS,
    ON_CLUSTER = 1 << HF__SCHEME_CLUSTER | 1 << HF__SCHEME_CLUSTER_TLS,
    ON_TLS = 1 << HF__SCHEME_REDIS_TLS | 1 << HF__SCHEME_SENTINEL_TLS | 1 << HF__SCHEME_QUORUM_TLS |
             1 << HF__SCHEME_CLUSTER_TLS,
    ON_PRIMARY = 1 << HF__SCHEME_REDIS | 1 << HF__SCHEME_REDIS_TLS | 1 << HF__SCHEME_REDIS_UNIX |
                 ON_SENTINEL, /* one server at a time, which may have replicas */
    ON_REDIS = ON_PRIMARY | ON_QUORUM | ON_CLUSTER,
    ON_ALL = ON_MEMORY | ON_FILE | ON_REDIS
};

static const struct {
    const char *prefix;
    hf__scheme scheme;
} schemes[] = {
    {"redis://", HF__SCHEME_REDIS},
    {"rediss://", HF__SCHEME_REDIS_TLS},
    {"redis+unix://", HF__SCHEME_REDIS_UNIX},
    {"file:", HF__SCHEME_FILE},
    {"memory:", HF__SCHEME_MEMORY},
    {"redis+sentinel://", HF__SCHEME_SENTINEL},
    {"rediss+sentinel://", HF__SCHEME_SENTINEL_TLS},
    {"redis+quorum://", HF__SCHEME_QUORUM},
    {"rediss+quorum://", HF__SCHEME_QUORUM_TLS},
    {"redis+cluster://", HF__SCHEME_CLUSTER},
    {"rediss+cluster://", HF__SCHEME_CLUSTER_TLS},
};

enum { TLS_VERIFY, NETWORK };

static const struct {
    const char *word, *otherwise; /* `otherwise`: what it means if the option is absent */
} words[] = {[TLS_VERIFY] = {"none", "verify"}, [NETWORK] = {"allow", "refuse"}};

/* WORD: only that word. CREDENTIAL: a TEXT that is never shown (hf__url_shown). Users count as
   credentials. */
typedef enum option_type { DURATION, TEXT, NUMBER, WORD, CREDENTIAL } option_type;

static const struct option {
    const char *name;
    int on;
    option_type type;
    size_t offset;
    int64_t max; /* of a WORD: its index in `words` */
} options[] = {
    {"prefix", ON_ALL, TEXT, offsetof(hf__url, prefix), HF__PREFIX_MAX},
    {"lease", ON_ALL, DURATION, offsetof(hf__url, lease_ms), HF_LEASE_MAX_MS},
    {"label", ON_ALL, TEXT, offsetof(hf__url, label), HF__LABEL_MAX},
    {"connect_timeout", ON_REDIS, DURATION, offsetof(hf__url, connect_timeout_ms), 3600000},
    {"command_timeout", ON_REDIS, DURATION, offsetof(hf__url, command_timeout_ms), 3600000},
    {"outage", ON_REDIS, DURATION, offsetof(hf__url, outage_ms), INT64_C(86400000)},
    {"user", ON_REDIS, CREDENTIAL, offsetof(hf__url, user), HF__URL_MAX},
    {"password_file", ON_REDIS, TEXT, offsetof(hf__url, password_file), HF__URL_MAX},
    {"db", ON_PRIMARY | ON_QUORUM, NUMBER, offsetof(hf__url, db), DB_MAX},
    {"sentinel_user", ON_SENTINEL, CREDENTIAL, offsetof(hf__url, sentinel_user), HF__URL_MAX},
    {"sentinel_password", ON_SENTINEL, CREDENTIAL, offsetof(hf__url, sentinel_password),
     HF__PASSWORD_MAX},
    {"sentinel_password_file", ON_SENTINEL, TEXT, offsetof(hf__url, sentinel_password_file),
     HF__URL_MAX},
    {"replicas", ON_PRIMARY | ON_CLUSTER, NUMBER, offsetof(hf__url, replicas), REPLICAS_MAX},
    {"tls_ca", ON_TLS, TEXT, offsetof(hf__url, tls_ca), HF__URL_MAX},
    {"tls_cert", ON_TLS, TEXT, offsetof(hf__url, tls_cert), HF__URL_MAX},
    {"tls_key", ON_TLS, TEXT, offsetof(hf__url, tls_key), HF__URL_MAX},
    {"tls_verify", ON_TLS, WORD, offsetof(hf__url, tls_verify_none), TLS_VERIFY},
    {"rejoin_delay", ON_QUORUM, DURATION, offsetof(hf__url, rejoin_delay_ms), HF_LEASE_MAX_MS},
    {"keep", ON_FILE, DURATION, offsetof(hf__url, keep_ms), HF_LEASE_MAX_MS},
    {"network", ON_FILE, WORD, offsetof(hf__url, network_allowed), NETWORK},
};

/* ---- Helpers ---- */

static int parse_hex_digit(char c) {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    return -1;
}

/* Percent-decode into new memory. A bad escape or an encoded NUL is HF_INVALID. */
static hf_result decode_percent(const char *what, const char *text, size_t length, char **out) {
    char *copy = malloc(length + 1), *to = copy;
    if (!copy) return hf__fail(HF_NOMEM, "out of memory");
    for (size_t i = 0; i < length; i++) {
        if (text[i] != '%') {
            *to++ = text[i];
            continue;
        }
        int high = i + 1 < length ? parse_hex_digit(text[i + 1]) : -1;
        int low = i + 2 < length ? parse_hex_digit(text[i + 2]) : -1;
        if (high < 0 || low < 0 || (high | low) == 0) {
            free(copy);
            return hf__fail(HF_INVALID,
                            "the URL's %s has a '%%' that two hexadecimal digits must follow "
                            "(a percent sign itself is %%25)",
                            what);
        }
        *to++ = (char)(high << 4 | low);
        i += 2;
    }
    *to = '\0';
    free(*out);
    *out = copy;
    return HF_OK;
}

bool hf__duration_parse(const char *text, int64_t *ms) {
    static const struct {
        const char *unit;
        int64_t ms;
    } units[] = {{"ms", 1}, {"s", 1000}, {"m", 60000}, {"h", 3600000}};
    if (*text < '0' || *text > '9') return false;
    char *unit;
    errno = 0;
    long long n = strtoll(text, &unit, 10);
    if (errno || n <= 0) return false;
    for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
        if (strcmp(unit, units[i].unit) != 0) continue;
        return !__builtin_mul_overflow(n, units[i].ms, ms);
    }
    return false;
}

static bool parse_number(const char *text, int64_t max, int32_t *out) {
    if (*text < '0' || *text > '9') return false;
    char *end;
    errno = 0;
    long n = strtol(text, &end, 10);
    if (errno || *end || n > max) return false;
    *out = (int32_t)n;
    return true;
}

/* ---- Options ---- */

/* An option without '=', or one that follows a credential, may be the rest of a password that
   contains '&'. The error text does not quote such an option. */
static hf_result report_unknown_option(const hf__url *url, const char *name, size_t length,
                                       bool quoted) {
    char known[512] = "";
    size_t used = 0;
    for (size_t i = 0; i < sizeof options / sizeof *options; i++)
        if (options[i].on & 1 << url->scheme)
            used += (size_t)snprintf(known + used, sizeof known - used, "%s%s", used ? ", " : "",
                                     options[i].name);
    if (!quoted)
        return hf__fail(HF_INVALID,
                        "the URL has an unknown option, which may be part of a password: write '&' "
                        "as %%26 in a password; known here: %s",
                        known);
    return hf__fail(HF_INVALID, "unknown option '%.*s' in the URL; known here: %s", (int)length,
                    name, known);
}

static hf_result set_duration(hf__url *url, const struct option *option, const char *value) {
    int64_t ms;
    if (!hf__duration_parse(value, &ms))
        return hf__fail(HF_INVALID,
                        "%s=%.40s in the URL is not a duration; write a number above zero with a "
                        "unit: 500ms, 30s, 5m or 1h",
                        option->name, value);
    if (ms > option->max)
        return hf__fail(HF_INVALID, "%s=%.40s in the URL is too long: %" PRId64 "h at most",
                        option->name, value, option->max / 3600000);
    *(int64_t *)((char *)url + option->offset) = ms;
    return HF_OK;
}

static hf_result set_word(hf__url *url, const struct option *option, const char *value) {
    if (strcmp(value, words[option->max].word) != 0)
        return hf__fail(HF_INVALID, "%s in the URL can only be %s; omit it to %s", option->name,
                        words[option->max].word, words[option->max].otherwise);
    *(bool *)((char *)url + option->offset) = true;
    return HF_OK;
}

static hf_result set_option(hf__url *url, const struct option *option, char **value) {
    if (option->type == DURATION) return set_duration(url, option, *value);
    if (option->type == WORD) return set_word(url, option, *value);
    if (option->type == NUMBER) {
        if (*(int32_t *)((char *)url + option->offset))
            return hf__fail(HF_INVALID, "the URL sets %s twice", option->name);
        if (parse_number(*value, option->max, (int32_t *)((char *)url + option->offset)))
            return HF_OK;
        return hf__fail(HF_INVALID, "%s=%s in the URL is not a number from 0 to %d", option->name,
                        *value, (int)option->max);
    }
    size_t length = strlen(*value);
    if (!length || length > (size_t)option->max)
        return hf__fail(HF_INVALID, "%s in the URL must have 1 to %d bytes", option->name,
                        (int)option->max);
    char **field = (char **)((char *)url + option->offset);
    free(*field);
    *field = *value;
    *value = NULL;
    return HF_OK;
}

/* The option in `text`, which is NAME or NAME=VALUE; NULL: unknown. */
static const struct option *find_option(const char *text, size_t length) {
    const char *equals = memchr(text, '=', length);
    size_t name = equals ? (size_t)(equals - text) : length;
    for (size_t i = 0; i < sizeof options / sizeof *options; i++)
        if (strlen(options[i].name) == name && memcmp(options[i].name, text, name) == 0)
            return &options[i];
    return NULL;
}

static hf_result parse_option(hf__url *url, const char *text, size_t length, bool *after_secret) {
    const char *equals = memchr(text, '=', length);
    size_t name = equals ? (size_t)(equals - text) : length;
    const struct option *o = find_option(text, length);
    if (!o || !(o->on & 1 << url->scheme))
        return report_unknown_option(url, text, name, o || (equals && !*after_secret));
    if (!equals) return hf__fail(HF_INVALID, "%s in the URL needs a value: %s=…", o->name, o->name);
    *after_secret |= o->type == CREDENTIAL;
    char *value = NULL;
    hf_result r = decode_percent(o->name, equals + 1, length - name - 1, &value);
    if (!r && value) r = set_option(url, o, &value);
    if (value) explicit_bzero(value, strlen(value));
    free(value);
    return r;
}

/* An '@' here most likely belongs to a password that contains '?': refuse, and show nothing. */
static hf_result check_options(const char *text) {
    if (!strchr(text, '@')) return HF_OK;
    return hf__fail(HF_INVALID, "the URL has an '@' after its '?'; in a password write '?' as "
                                "%%3F, in an option write '@' as %%40");
}

static hf_result parse_options(hf__url *url, const char *text) {
    bool after_secret = false;
    while (*text) {
        size_t length = strcspn(text, "&");
        hf_result r = length ? parse_option(url, text, length, &after_secret) : HF_OK;
        if (r) return r;
        text += length + (text[length] == '&');
    }
    return HF_OK;
}

/* ---- The part before the options ---- */

static hf_result parse_user(hf__url *url, const char *text, size_t length) {
    const char *colon = memchr(text, ':', length);
    size_t user = colon ? (size_t)(colon - text) : length;
    hf_result r = user ? decode_percent("user", text, user, &url->user) : HF_OK;
    if (!r && colon) r = decode_percent("password", colon + 1, length - user - 1, &url->password);
    if (r) return r;
    if (url->password && (!*url->password || strlen(url->password) > HF__PASSWORD_MAX))
        return hf__fail(HF_INVALID,
                        "the URL's password must have 1 to %d bytes; omit the ':' for no password",
                        HF__PASSWORD_MAX);
    return HF_OK;
}

static hf_result parse_port(const char *text, int32_t *port) {
    if (!*text) return HF_OK;
    if (*text == ':' && parse_number(text + 1, 65535, port) && *port) return HF_OK;
    return hf__fail(HF_INVALID, "the URL's port must be a number from 1 to 65535; write an IPv6 "
                                "address in brackets, and a '/' in a password as %%2F");
}

static hf_result parse_host(const char *text, char **name, int32_t *port_number) {
    size_t length = strcspn(text, ":");
    const char *host = text, *port = text + length;
    if (*text == '[') {
        const char *close = strchr(text, ']');
        if (!close) return hf__fail(HF_INVALID, "the URL's '[' has no ']' after the IPv6 address");
        host = text + 1;
        length = (size_t)(close - host);
        port = close + 1;
    }
    hf_result r = parse_port(port, port_number);
    if (r || !length) return r;
    return decode_percent("host", host, length, name);
}

/* `what`: what the hosts are, for the error text. `count`: how many were found. */
static hf_result parse_hosts(hf__url *url, char *text, const char *what, int32_t port, int *count) {
    *count = 0;
    for (char *comma; text; text = comma ? comma + 1 : NULL) {
        if (*count == HF__HOSTS_MAX)
            return hf__fail(HF_INVALID, "the URL names more than %d %s", HF__HOSTS_MAX, what);
        comma = strchr(text, ',');
        if (comma) *comma = '\0';
        hf__host *host = &url->hosts[(*count)++];
        host->port = port;
        hf_result r = parse_host(text, &host->name, &host->port);
        if (r) return r;
        if (!host->name)
            return hf__fail(HF_INVALID, "the URL's list of %s has an empty element", what);
    }
    return HF_OK;
}

static bool is_quorum_url(const hf__url *url) {
    return ON_QUORUM & 1 << url->scheme;
}

/* No node twice: it would have two votes. */
static hf_result check_nodes(const hf__url *url, int count) {
    if (count < NODES_MIN)
        return hf__fail(HF_INVALID,
                        "a quorum needs %d to %d nodes, each an independent server: "
                        "redis+quorum://HOST,HOST,HOST",
                        NODES_MIN, HF__HOSTS_MAX);
    for (int i = 0; i < count; i++)
        for (int j = 0; j < i; j++)
            if (url->hosts[i].port == url->hosts[j].port &&
                !strcasecmp(url->hosts[i].name, url->hosts[j].name))
                return hf__fail(HF_INVALID, "the URL names the node %s:%d twice",
                                url->hosts[i].name, (int)url->hosts[i].port);
    return HF_OK;
}

static hf_result parse_nodes(hf__url *url, char *text) {
    int count = 0;
    hf_result r = parse_hosts(url, text, "nodes", REDIS_PORT, &count);
    return r ? r : check_nodes(url, count);
}

/* [user:password@]host[:port][/db], or several hosts */
static hf_result parse_redis(hf__url *url, char *text) {
    char *slash = strchr(text, '/');
    if (slash) *slash = '\0';
    char *at = strrchr(text, '@'), *host = at ? at + 1 : text;
    hf_result r = at ? parse_user(url, text, (size_t)(at - text)) : HF_OK;
    if (!r)
        r = is_quorum_url(url) ? parse_nodes(url, host) : parse_host(host, &url->host, &url->port);
    if (!r && slash && slash[1] && !parse_number(slash + 1, DB_MAX, &url->db))
        r = hf__fail(HF_INVALID,
                     "after the host the URL may name a database from 0 to %d, as in "
                     "redis://host/2",
                     DB_MAX);
    return r;
}

/* [user:password@]n1[:port],n2,… of a cluster, which has no databases to choose from */
static hf_result parse_cluster(hf__url *url, char *text) {
    char *slash = strchr(text, '/'), *at;
    if (slash && slash[1] && strcmp(slash, "/0") != 0)
        return hf__fail(HF_INVALID, "a cluster has one database: the URL ends with its nodes, as "
                                    "in redis+cluster://HOST,HOST,HOST");
    if (slash) *slash = '\0';
    at = strrchr(text, '@');
    int count;
    hf_result r = at ? parse_user(url, text, (size_t)(at - text)) : HF_OK;
    return r ? r : parse_hosts(url, at ? at + 1 : text, "nodes", REDIS_PORT, &count);
}

/* [user:password@]s1[:port],s2,…/primary[/db] */
static hf_result parse_sentinel(hf__url *url, char *text) {
    char *slash = strchr(text, '/');
    if (slash) *slash++ = '\0';
    if (!slash || !*slash || *slash == '/')
        return hf__fail(HF_INVALID, "a Sentinel URL ends with the primary's name: "
                                    "redis+sentinel://HOST,HOST,HOST/mymaster");
    if (strchr(slash, '@')) /* it may end a password that contains '/' */
        return hf__fail(HF_INVALID, "the URL has an '@' after a '/'; in a password write '/' as "
                                    "%%2F, in the primary's name write '@' as %%40");
    char *db = strchr(slash, '/'), *at = strrchr(text, '@');
    if (db) *db++ = '\0';
    hf_result r = at ? parse_user(url, text, (size_t)(at - text)) : HF_OK;
    int count;
    if (!r) r = parse_hosts(url, at ? at + 1 : text, "Sentinels", SENTINEL_PORT, &count);
    if (!r) r = decode_percent("primary", slash, strlen(slash), &url->primary);
    if (!r && db && *db && !parse_number(db, DB_MAX, &url->db))
        r = hf__fail(HF_INVALID, "after the primary the URL may name a database from 0 to %d",
                     DB_MAX);
    return r;
}

static hf_result parse_unix(hf__url *url, char *text) {
    char *slash = strchr(text, '/'), *at = slash ? memchr(text, '@', (size_t)(slash - text)) : NULL;
    if (!slash || (at ? at + 1 : text) != slash)
        return hf__fail(HF_INVALID,
                        "a unix socket's URL has three slashes: redis+unix:///path/to/redis.sock");
    hf_result r = at ? parse_user(url, text, (size_t)(at - text)) : HF_OK;
    return r ? r : decode_percent("path", slash, strlen(slash), &url->path);
}

/* Empty: the default directory. Both file:/dir and file:///dir are in common use. */
static hf_result parse_file(hf__url *url, const char *text) {
    if (!strncmp(text, "//", 2)) text += 2;
    if (*text && *text != '/')
        return hf__fail(HF_INVALID, "a directory's URL has three slashes: file:///path/to/dir; "
                                    "file: alone is the default directory");
    size_t length = strlen(text);
    while (length > 1 && text[length - 1] == '/') length--; /* each directory has one spelling */
    return length ? decode_percent("path", text, length, &url->path) : HF_OK;
}

static hf_result parse_body(hf__url *url, char *text) {
    switch (url->scheme) {
    case HF__SCHEME_REDIS:
    case HF__SCHEME_QUORUM:
    case HF__SCHEME_QUORUM_TLS:
    case HF__SCHEME_REDIS_TLS: return parse_redis(url, text);
    case HF__SCHEME_REDIS_UNIX: return parse_unix(url, text);
    case HF__SCHEME_SENTINEL:
    case HF__SCHEME_SENTINEL_TLS: return parse_sentinel(url, text);
    case HF__SCHEME_CLUSTER:
    case HF__SCHEME_CLUSTER_TLS: return parse_cluster(url, text);
    case HF__SCHEME_FILE: return parse_file(url, text);
    case HF__SCHEME_MEMORY: return decode_percent("space", text, strlen(text), &url->path);
    }
    return HF_INVALID;
}

static hf_result set_defaults(hf__url *url) {
    if (!url->prefix) url->prefix = strdup("hf");
    if (!url->host) url->host = strdup("localhost");
    return url->prefix && url->host ? HF_OK : hf__fail(HF_NOMEM, "out of memory");
}

/* A prefix with a brace would change the hash tag of the key. */
static hf_result check_url(const hf__url *url) {
    if (strpbrk(url->prefix, "{}"))
        return hf__fail(HF_INVALID, "prefix in the URL may not contain '{' or '}'");
    if (url->password && url->password_file)
        return hf__fail(HF_INVALID, "the URL has both a password and a password_file; keep one");
    if (url->sentinel_password && url->sentinel_password_file)
        return hf__fail(HF_INVALID, "the URL has both a sentinel_password and a "
                                    "sentinel_password_file; keep one");
    if (url->sentinel_user && !url->sentinel_password && !url->sentinel_password_file)
        return hf__fail(HF_INVALID, "the URL names a sentinel_user but neither a "
                                    "sentinel_password nor a sentinel_password_file");
    if (url->tls_key && !url->tls_cert)
        return hf__fail(HF_INVALID, "the URL has a tls_key but no tls_cert to go with it");
    if (url->user && !url->password && !url->password_file)
        return hf__fail(HF_INVALID, "the URL names a user but neither a password nor a "
                                    "password_file; a password alone is written ':password@'");
    return HF_OK;
}

static hf_result parse_copy(hf__url *url, char *copy, size_t scheme_length) {
    char *question = strchr(copy, '?');
    if (question) *question = '\0';
    hf_result r = question ? check_options(question + 1) : HF_OK;
    if (!r) r = parse_body(url, copy + scheme_length);
    if (!r && question) r = parse_options(url, question + 1);
    if (!r) r = set_defaults(url);
    return r ? r : check_url(url);
}

static hf_result report_unknown_scheme(const char *text) {
    size_t length = strcspn(text, ":/?@");
    if (strncmp(text + length, "://", 3) != 0) /* localhost:6379, redis:host, a bare name */
        return hf__fail(
            HF_INVALID,
            "a store is named by a URL: redis://HOST:PORT, rediss://HOST, redis+unix:///PATH, "
            "redis+sentinel://HOST,HOST/NAME, redis+cluster://HOST,HOST, "
            "redis+quorum://HOST,HOST,HOST, file:, file:///DIRECTORY or memory:");
    return hf__fail(HF_UNSUPPORTED,
                    "unknown scheme '%.*s:'; known are redis://, rediss://, redis+unix://, "
                    "redis+sentinel://, rediss+sentinel://, redis+cluster://, rediss+cluster://, "
                    "redis+quorum://, rediss+quorum://, file: and memory:",
                    (int)(length > 32 ? 32 : length), text);
}

hf_result hf__url_parse(hf__url *url, const char *text) {
    *url = (hf__url){.port = REDIS_PORT};
    size_t length = strlen(text);
    if (length > HF__URL_MAX)
        return hf__fail(HF_INVALID, "the URL is longer than %d bytes", HF__URL_MAX);
    for (size_t i = 0; i < sizeof schemes / sizeof *schemes; i++) {
        size_t n = strlen(schemes[i].prefix);
        if (strncmp(text, schemes[i].prefix, n) != 0) continue;
        url->scheme = schemes[i].scheme;
        char *copy = strdup(text);
        if (!copy) return hf__fail(HF_NOMEM, "out of memory");
        hf_result r = parse_copy(url, copy, n);
        explicit_bzero(copy, length);
        free(copy);
        return r;
    }
    return report_unknown_scheme(text);
}

void hf__url_fini(hf__url *url) {
    if (url->password) explicit_bzero(url->password, strlen(url->password));
    if (url->sentinel_password)
        explicit_bzero(url->sentinel_password, strlen(url->sentinel_password));
    char *strings[] = {url->user,
                       url->password,
                       url->host,
                       url->path,
                       url->prefix,
                       url->label,
                       url->password_file,
                       url->tls_ca,
                       url->tls_cert,
                       url->tls_key,
                       url->primary,
                       url->sentinel_user,
                       url->sentinel_password,
                       url->sentinel_password_file};
    for (int i = 0; i < HF__HOSTS_MAX; i++) free(url->hosts[i].name);
    for (size_t i = 0; i < sizeof strings / sizeof *strings; i++) free(strings[i]);
    *url = (hf__url){0};
}

/* ---- Showing a URL ---- */

/* Remove all other options, with their separators, in place. */
static void keep_options(char *url, bool (*keeps)(const char *, size_t, const char *),
                         const char *arg) {
    char *from = strchr(url, '?'), *to = from, mark = '?';
    if (!from) return;
    while (*from) {
        size_t length = strcspn(++from, "&");
        if (length && keeps(from, length, arg)) {
            *to++ = mark;
            memmove(to, from, length);
            to += length;
            mark = '&';
        }
        from += length;
    }
    *to = '\0';
}

static bool is_public(const char *option, size_t length, const char *arg) {
    (void)arg;
    const struct option *o = find_option(option, length);
    return o && o->type != CREDENTIAL;
}

static bool is_other(const char *option, size_t length, const char *name) {
    size_t n = strlen(name);
    return length < n || memcmp(option, name, n) != 0 || (length > n && option[n] != '=');
}

void hf__url_drop_option(char *url, const char *name) {
    keep_options(url, is_other, name);
}

/* User and password are between "://" and the last '@' before the path. */
static void drop_user(char *url) {
    char *user = strstr(url, "://");
    if (!user) return;
    user += strlen("://");
    char *at = memrchr(user, '@', strcspn(user, "/?"));
    if (at) memmove(user, at + 1, strlen(at + 1) + 1);
}

/* A malformed URL may have its password anywhere. */
static char *show_only_scheme(const char *text) {
    for (size_t i = 0; i < sizeof schemes / sizeof *schemes; i++) {
        size_t n = strlen(schemes[i].prefix);
        if (strncmp(text, schemes[i].prefix, n) != 0) continue;
        char *shown = malloc(n + sizeof HF__URL_HIDDEN);
        if (!shown) return NULL;
        memcpy(shown, text, n);
        memcpy(shown + n, HF__URL_HIDDEN, sizeof HF__URL_HIDDEN);
        return shown;
    }
    return strdup(HF__URL_HIDDEN);
}

char *hf__url_shown(const char *text) {
    hf__url url;
    hf_result r = hf__url_parse(&url, text);
    hf__url_fini(&url);
    if (r == HF_NOMEM) return NULL;
    if (r) return show_only_scheme(text);
    char *shown = strdup(text);
    if (!shown) return NULL;
    drop_user(shown);
    keep_options(shown, is_public, NULL);
    return shown;
}
