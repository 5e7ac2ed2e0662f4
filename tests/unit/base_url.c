/* SPDX-License-Identifier: Apache-2.0 */
/* Store URLs: which are accepted, which are refused with which text, and that no text shows a
   secret. */
#include "t.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/url.h"

/* ---- Accepted URLs ---- */

/* A string that is NULL here must be NULL in the result. Numbers are compared as they are. */
static const struct good {
    const char *text;
    hf__url url;
} good[] = {
    {"redis://", {.scheme = HF__SCHEME_REDIS, .host = "localhost", .port = 6379}},
    {"redis:///", {.scheme = HF__SCHEME_REDIS, .host = "localhost", .port = 6379}},
    {"redis://h", {.scheme = HF__SCHEME_REDIS, .host = "h", .port = 6379}},
    {"redis://h:1", {.scheme = HF__SCHEME_REDIS, .host = "h", .port = 1}},
    {"redis://h:65535/", {.scheme = HF__SCHEME_REDIS, .host = "h", .port = 65535}},
    {"redis://:7000", {.scheme = HF__SCHEME_REDIS, .host = "localhost", .port = 7000}},
    {"redis://h/2", {.scheme = HF__SCHEME_REDIS, .host = "h", .port = 6379, .db = 2}},
    {"redis://h/65535", {.scheme = HF__SCHEME_REDIS, .host = "h", .port = 6379, .db = 65535}},
    {"redis://[::1]", {.scheme = HF__SCHEME_REDIS, .host = "::1", .port = 6379}},
    {"redis://[fe80::1%25eth0]:6380/1",
     {.scheme = HF__SCHEME_REDIS, .host = "fe80::1%eth0", .port = 6380, .db = 1}},
    {"redis://:pw@h", {.scheme = HF__SCHEME_REDIS, .password = "pw", .host = "h", .port = 6379}},
    {"redis://u:pw@h:5",
     {.scheme = HF__SCHEME_REDIS, .user = "u", .password = "pw", .host = "h", .port = 5}},
    {"redis://u%40x:p%2Fw%3F%25%23@h",
     {.scheme = HF__SCHEME_REDIS, .user = "u@x", .password = "p/w?%#", .host = "h", .port = 6379}},
    {"redis://:p@w@h", {.scheme = HF__SCHEME_REDIS, .password = "p@w", .host = "h", .port = 6379}},
    {"redis://:p:w@h", {.scheme = HF__SCHEME_REDIS, .password = "p:w", .host = "h", .port = 6379}},
    {"redis://u@h?password_file=/etc/p%20w",
     {.scheme = HF__SCHEME_REDIS,
      .user = "u",
      .host = "h",
      .port = 6379,
      .password_file = "/etc/p w"}},
    {"redis://h?user=u&password_file=f",
     {.scheme = HF__SCHEME_REDIS, .user = "u", .host = "h", .port = 6379, .password_file = "f"}},
    {"redis://"
     "h?prefix=app&lease=500ms&connect_timeout=2s&command_timeout=3m&outage=24h&label=a%26b",
     {.scheme = HF__SCHEME_REDIS,
      .host = "h",
      .port = 6379,
      .prefix = "app",
      .label = "a&b",
      .lease_ms = 500,
      .connect_timeout_ms = 2000,
      .command_timeout_ms = 180000,
      .outage_ms = 86400000}},
    {"redis://h?&&db=1&", {.scheme = HF__SCHEME_REDIS, .host = "h", .port = 6379, .db = 1}},
    {"redis://h?lease=1s&lease=2s",
     {.scheme = HF__SCHEME_REDIS, .host = "h", .port = 6379, .lease_ms = 2000}},
    {"redis://h?label=a=b",
     {.scheme = HF__SCHEME_REDIS, .host = "h", .port = 6379, .label = "a=b"}},
    {"redis+unix:///run/r.sock",
     {.scheme = HF__SCHEME_REDIS_UNIX, .host = "localhost", .port = 6379, .path = "/run/r.sock"}},
    {"redis+unix://u:p@/run/a%20b?db=4",
     {.scheme = HF__SCHEME_REDIS_UNIX,
      .user = "u",
      .password = "p",
      .host = "localhost",
      .port = 6379,
      .path = "/run/a b",
      .db = 4}},
    {"redis+unix:///a@b",
     {.scheme = HF__SCHEME_REDIS_UNIX, .host = "localhost", .port = 6379, .path = "/a@b"}},
    {"memory:", {.scheme = HF__SCHEME_MEMORY, .host = "localhost", .port = 6379, .path = ""}},
    {"memory:a%3Fb?lease=1h&prefix=p&label=l",
     {.scheme = HF__SCHEME_MEMORY,
      .host = "localhost",
      .port = 6379,
      .path = "a?b",
      .prefix = "p",
      .label = "l",
      .lease_ms = 3600000}},
};

static void same_text(const char *url, const char *what, const char *got, const char *expected) {
    if (!got != !expected || (got && strcmp(got, expected) != 0))
        fail_msg("%s: %s is %s, not %s", url, what, got ? got : "NULL",
                 expected ? expected : "NULL");
}

static void same_number(const char *url, const char *what, int64_t got, int64_t expected) {
    if (got != expected)
        fail_msg("%s: %s is %lld, not %lld", url, what, (long long)got, (long long)expected);
}

static void check_good(const struct good *g) {
    hf__url u;
    T_HF(HF_OK, hf__url_parse(&u, g->text));
    const hf__url *e = &g->url;
#define SAME_TEXT(field)   same_text(g->text, #field, u.field, e->field)
#define SAME_NUMBER(field) same_number(g->text, #field, (int64_t)u.field, (int64_t)e->field)
    SAME_TEXT(user);
    SAME_TEXT(password);
    SAME_TEXT(host);
    SAME_TEXT(path);
    SAME_TEXT(label);
    SAME_TEXT(password_file);
    same_text(g->text, "prefix", u.prefix, e->prefix ? e->prefix : "hf");
    SAME_NUMBER(scheme);
    SAME_NUMBER(port);
    SAME_NUMBER(db);
    SAME_NUMBER(lease_ms);
    SAME_NUMBER(connect_timeout_ms);
    SAME_NUMBER(command_timeout_ms);
    SAME_NUMBER(outage_ms);
#undef SAME_TEXT
#undef SAME_NUMBER
    hf__url_fini(&u);
}

static const struct {
    const char *text;
    hf__host hosts[HF__HOSTS_MAX];
    hf__scheme scheme;
    int64_t rejoin_ms;
} quorums[] = {
    {"redis+quorum://a,b:1,c", {{"a", 6379}, {"b", 1}, {"c", 6379}}, HF__SCHEME_QUORUM, 0},
    {"redis+quorum://:pw@[::1]:7,[::2],h%2D1/3?rejoin_delay=5s",
     {{"::1", 7}, {"::2", 6379}, {"h-1", 6379}},
     HF__SCHEME_QUORUM,
     5000},
    {"rediss+quorum://a:1,a:2,a:3,a:4,a:5,a:6,a:7,a:8,a:9?tls_verify=none",
     {{"a", 1}, {"a", 2}, {"a", 3}, {"a", 4}, {"a", 5}, {"a", 6}, {"a", 7}, {"a", 8}, {"a", 9}},
     HF__SCHEME_QUORUM_TLS,
     0},
};

static void test_quorums(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof quorums / sizeof *quorums; i++) {
        hf__url u;
        T_HF(HF_OK, hf__url_parse(&u, quorums[i].text));
        same_number(quorums[i].text, "scheme", u.scheme, quorums[i].scheme);
        same_number(quorums[i].text, "rejoin_delay", u.rejoin_delay_ms, quorums[i].rejoin_ms);
        for (int j = 0; j < HF__HOSTS_MAX; j++) {
            same_text(quorums[i].text, "a node", u.hosts[j].name, quorums[i].hosts[j].name);
            same_number(quorums[i].text, "its port", u.hosts[j].port, quorums[i].hosts[j].port);
        }
        hf__url_fini(&u);
    }
}

static void test_good_urls(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) check_good(&good[i]);
}

/* ---- Sentinels ---- */

static void test_cluster_urls(void **state) {
    (void)state;
    hf__url u;
    T_HF(HF_OK, hf__url_parse(&u, "redis+cluster://u:p%2Cw@a,b:7,[::1]:8/?prefix=x&replicas=1"));
    assert_int_equal(u.scheme, HF__SCHEME_CLUSTER);
    assert_string_equal(u.password, "p,w");
    assert_string_equal(u.hosts[0].name, "a");
    assert_int_equal(u.hosts[0].port, 6379);
    assert_int_equal(u.hosts[1].port, 7);
    assert_string_equal(u.hosts[2].name, "::1");
    assert_int_equal(u.hosts[2].port, 8);
    assert_null(u.hosts[3].name);
    assert_int_equal(u.replicas, 1);
    assert_false(u.in_cluster);
    hf__url_fini(&u);
    T_HF(HF_OK, hf__url_parse(&u, "rediss+cluster://a/0?tls_ca=x"));
    assert_int_equal(u.scheme, HF__SCHEME_CLUSTER_TLS);
    assert_string_equal(u.tls_ca, "x");
    hf__url_fini(&u);
}

static void test_sentinel_urls(void **state) {
    (void)state;
    hf__url u;
    T_HF(HF_OK, hf__url_parse(&u, "redis+sentinel://u:p%2Cw@a,b:7,[::1]:8/my%2Fmaster/3"
                                  "?sentinel_user=s&sentinel_password=q&prefix=x"));
    assert_int_equal(u.scheme, HF__SCHEME_SENTINEL);
    assert_string_equal(u.user, "u");
    assert_string_equal(u.password, "p,w");
    assert_string_equal(u.hosts[0].name, "a");
    assert_int_equal(u.hosts[0].port, 26379);
    assert_string_equal(u.hosts[1].name, "b");
    assert_int_equal(u.hosts[1].port, 7);
    assert_string_equal(u.hosts[2].name, "::1");
    assert_int_equal(u.hosts[2].port, 8);
    assert_null(u.hosts[3].name);
    assert_string_equal(u.primary, "my/master");
    assert_int_equal(u.db, 3);
    assert_string_equal(u.sentinel_user, "s");
    assert_string_equal(u.sentinel_password, "q");
    hf__url_fini(&u);
    T_HF(HF_OK, hf__url_parse(&u, "rediss+sentinel://a/m?tls_ca=x&db=2&sentinel_password_file=f"));
    assert_int_equal(u.scheme, HF__SCHEME_SENTINEL_TLS);
    assert_string_equal(u.sentinel_password_file, "f");
    assert_int_equal(u.db, 2);
    hf__url_fini(&u);
}

/* ---- Refused URLs ---- */

/* Every password in these URLs is this word, in one piece. */
#define SECRET "s3cr3t"

static const struct bad {
    const char *text;
    hf_result result;
    const char *mentions;
} bad[] = {
    {"", HF_INVALID, "named by a URL"},
    {"localhost", HF_INVALID, "named by a URL"},
    {"localhost/x:y", HF_INVALID, "named by a URL"},
    {SECRET "@host:6379", HF_INVALID, "named by a URL"},
    {"localhost:6379", HF_INVALID, "redis://HOST:PORT"},
    {"redisx://h", HF_UNSUPPORTED, "'redisx:'"},
    {"http://h", HF_UNSUPPORTED, "redis+unix://"},
    {"REDIS://h", HF_UNSUPPORTED, "'REDIS:'"},
    {"redis:h", HF_INVALID, "redis://HOST"},
    {"redis://h/2?db=3", HF_INVALID, "twice"},
    {"redis://h:0", HF_INVALID, "port"},
    {"redis://h:65536", HF_INVALID, "port"},
    {"redis://h:", HF_INVALID, "port"},
    {"redis://h:x", HF_INVALID, "1 to 65535"},
    {"redis://h:+1", HF_INVALID, "port"},
    {"redis://h:1 ", HF_INVALID, "port"},
    {"redis://u:" SECRET, HF_INVALID, "port"},
    {"redis://:" SECRET "/x@h", HF_INVALID, "port"},
    {"redis://::1", HF_INVALID, "port"},
    {"redis://[::1", HF_INVALID, "']'"},
    {"redis://[::1]x", HF_INVALID, "port"},
    {"redis://:" SECRET "@[::1", HF_INVALID, "']'"},
    {"redis://h/x", HF_INVALID, "database"},
    {"redis://h/-1", HF_INVALID, "database"},
    {"redis://h/65536", HF_INVALID, "65535"},
    {"redis://h/1/2", HF_INVALID, "database"},
    {"redis://h?db=65536", HF_INVALID, "db=65536"},
    {"redis://h?db=", HF_INVALID, "db="},
    {"redis://h?db=99999999999999999999", HF_INVALID, "db="},
    {"redis://h?db", HF_INVALID, "needs a value"},
    {"redis://h%zz", HF_INVALID, "host"},
    {"redis://h%4", HF_INVALID, "%25"},
    {"redis://h%00", HF_INVALID, "host"},
    {"redis://u:" SECRET "%@h", HF_INVALID, "password"},
    {"redis://u%:" SECRET "@h", HF_INVALID, "user"},
    {"redis://:@h", HF_INVALID, "password must have 1"},
    {"redis://u:@h", HF_INVALID, "password must have 1"},
    {"redis://u@h", HF_INVALID, "neither a password nor"},
    {"redis://h?user=u", HF_INVALID, "neither a password nor"},
    {"redis://:" SECRET "@h?password_file=f", HF_INVALID, "keep one"},
    {"redis://:" SECRET "?x@h", HF_INVALID, "%3F"},
    {"redis://:1?" SECRET "=" SECRET "@h", HF_INVALID, "'@' after its '?'"},
    {"redis://h?label=" SECRET "@x", HF_INVALID, "%3F"},
    {"redis://h?nope=1", HF_INVALID, "unknown option 'nope'"},
    {"redis://h?nope=1", HF_INVALID, "command_timeout, outage, user, password_file, db"},
    {"redis://:" SECRET "@h?leas=1s", HF_INVALID, "unknown option 'leas'"},
    {"redis://h?=1", HF_INVALID, "unknown option ''"},
    {"redis://h?LEASE=1s", HF_INVALID, "unknown option 'LEASE'"},
    {"memory:?connect_timeout=1s", HF_INVALID, "known here: prefix, lease, label"},
    {"memory:?db=1", HF_INVALID, "unknown option 'db'"},
    {"memory:%", HF_INVALID, "space"},
    {"redis://h?lease=0s", HF_INVALID, "lease=0s"},
    {"redis://h?lease=30", HF_INVALID, "500ms, 30s, 5m or 1h"},
    {"redis://h?lease=-1s", HF_INVALID, "lease=-1s"},
    {"redis://h?lease=1d", HF_INVALID, "lease=1d"},
    {"redis://h?lease=1S", HF_INVALID, "lease=1S"},
    {"redis://h?lease=721h", HF_INVALID, "lease=721h"},
    {"redis://h?lease=9999999999999h", HF_INVALID, "lease=9999999999999h"},
    {"redis://h?connect_timeout=61m", HF_INVALID, "connect_timeout=61m"},
    {"redis://h?command_timeout=2h", HF_INVALID, "command_timeout=2h"},
    {"redis://h?outage=25h", HF_INVALID, "outage=25h"},
    {"redis://h?prefix=", HF_INVALID, "1 to 64"},
    {"redis://h?prefix=a%7Bb", HF_INVALID, "'{'"},
    {"redis://h?prefix=a}", HF_INVALID, "'}'"},
    {"redis://h?label=", HF_INVALID, "1 to 128"},
    {"redis://h?label=%g0", HF_INVALID, "label"},
    {"redis+quorum://", HF_INVALID, "empty element"},
    {"redis+quorum://a,b", HF_INVALID, "3 to 9 nodes"},
    {"redis+quorum://a,,b", HF_INVALID, "empty element"},
    {"redis+quorum://a,b,", HF_INVALID, "empty element"},
    {"redis+quorum://a,b,A", HF_INVALID, "twice"},
    {"redis+quorum://a:1,b,a:2,a:1", HF_INVALID, "a:1 twice"},
    {"redis+quorum://a,b,c:0", HF_INVALID, "port"},
    {"redis+quorum://a,b,c/x", HF_INVALID, "database"},
    {"redis+quorum://a,b,c,d,e,f,g,h,i,j", HF_INVALID, "more than 9"},
    {"redis+quorum://:" SECRET ",a,b,c", HF_INVALID, "port"},
    {"redis+quorum://:" SECRET "@a,b", HF_INVALID, "3 to 9"},
    {"redis+quorum://a,b,c?rejoin_delay=0s", HF_INVALID, "rejoin_delay=0s"},
    {"redis+quorum://a,b,c?tls_ca=x", HF_INVALID, "rejoin_delay"},
    {"redis+quorum://a,b,c?replicas=1", HF_INVALID, "unknown option 'replicas'"},
    {"redis+quorum://a,b,c?sentinel_user=x", HF_INVALID, "unknown option"},
    {"redis+sentinel://a/m?rejoin_delay=1s", HF_INVALID, "unknown option"},
    {"redis://a?rejoin_delay=1s", HF_INVALID, "unknown option"},
    {"redis+unix://h/x", HF_INVALID, "three slashes"},
    {"redis+unix://", HF_INVALID, "three slashes"},
    {"redis+unix://u:" SECRET "@h/x", HF_INVALID, "three slashes"},
    {"redis+unix://:" SECRET "%@/x", HF_INVALID, "password"},
    {"redis+unix:///x%", HF_INVALID, "path"},
    {"redis+sentinel://a,b", HF_INVALID, "ends with the primary"},
    {"redis+sentinel://a,b/", HF_INVALID, "ends with the primary"},
    {"redis+sentinel://a//2", HF_INVALID, "ends with the primary"},
    {"redis+sentinel:///m", HF_INVALID, "empty element"},
    {"redis+sentinel://a,,b/m", HF_INVALID, "empty element"},
    {"redis+sentinel://a,b,/m", HF_INVALID, "empty element"},
    {"redis+sentinel://a,b:0/m", HF_INVALID, "port"},
    {"redis+sentinel://a,b,c,d,e,f,g,h,i,j/m", HF_INVALID, "more than 9"},
    {"redis+sentinel://a/m/x", HF_INVALID, "database"},
    {"redis+cluster://", HF_INVALID, "empty element"},
    {"redis+cluster://a,,b", HF_INVALID, "list of nodes has an empty element"},
    {"redis+cluster://a,b,c,d,e,f,g,h,i,j", HF_INVALID, "more than 9 nodes"},
    {"redis+cluster://a/2", HF_INVALID, "one database"},
    {"redis+cluster://a?db=2", HF_INVALID, "unknown option 'db'"},
    {"redis+cluster://a?tls_ca=x", HF_INVALID, "unknown option 'tls_ca'"},
    {"redis+cluster://u:" SECRET "@a,,b", HF_INVALID, "empty element"},
    {"redis+sentinel://a/m?tls_ca=x", HF_INVALID, "unknown option 'tls_ca'"},
    {"redis+sentinel://a/m?sentinel_user=u", HF_INVALID, "sentinel_password nor"},
    {"redis+sentinel://a/m?sentinel_password=" SECRET "&sentinel_password_file=f", HF_INVALID,
     "keep one"},
    {"redis+sentinel://u:" SECRET "@a,,b/m", HF_INVALID, "empty element"},
    {"redis://h?sentinel_user=u", HF_INVALID, "unknown option 'sentinel_user'"},
    {"redis://h?password=" SECRET, HF_INVALID, "unknown option 'password'"},
    {"redis://h?" SECRET, HF_INVALID, "%26"},
    {"redis+sentinel://a/m?sentinel_password=x&" SECRET "=1", HF_INVALID, "%26"},
    {"redis+sentinel://a/m?sentinel_password=x&" SECRET, HF_INVALID, "%26"},
    {"redis+sentinel://a/m?sentinel_password=" SECRET "%", HF_INVALID, "sentinel_password"},
    {"redis+sentinel://a:1/" SECRET "@h/m", HF_INVALID, "%2F"},
};

static void check_bad(const char *text, hf_result result, const char *mentions) {
    hf__url u;
    hf_result r = hf__url_parse(&u, text);
    const char *detail = hf_error_detail();
    if (r != result || !strstr(detail, mentions))
        fail_msg("%s: %s (%s), not %s with \"%s\"", text, hf_result_name(r), detail,
                 hf_result_name(result), mentions);
    if (strstr(detail, SECRET)) fail_msg("%s: the detail shows the password: %s", text, detail);
    hf__url_fini(&u);
}

static void test_bad_urls(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        check_bad(bad[i].text, bad[i].result, bad[i].mentions);
}

/* ---- URLs as they are shown ---- */

static const struct {
    const char *text, *shown;
} shows[] = {
    {"redis://h", "redis://h"},
    {"redis://u:" SECRET "@h:1/2?lease=1s", "redis://h:1/2?lease=1s"},
    {"redis://:a@" SECRET "@h", "redis://h"},
    {"redis://h?user=u&password_file=f&lease=1s", "redis://h?password_file=f&lease=1s"},
    {"redis+unix://:" SECRET "@/a@b", "redis+unix:///a@b"},
    {"redis+sentinel://:" SECRET "@a,b/m?sentinel_password=" SECRET, "redis+sentinel://a,b/m"},
    {"redis+sentinel://a/m?sentinel_password=" SECRET "&lease=1s&sentinel_user=u&&label=x"
     "&sentinel_password=%73" SECRET,
     "redis+sentinel://a/m?lease=1s&label=x"},
    {"rediss+sentinel://a/m?sentinel_password_file=f",
     "rediss+sentinel://a/m?sentinel_password_file=f"},
    {"file:///a@b?keep=1h", "file:///a@b?keep=1h"},
    {"file:", "file:"},
    {"memory:x?label=a%20b", "memory:x?label=a%20b"},
    /* Invalid URLs. */
    {"redis://:x/" SECRET "@h", "redis://***"},
    {"redis://:" SECRET "@h?walk=1", "redis://***"},
    {"redis+sentinel://a/m?sentinel_password=x&" SECRET, "redis+sentinel://***"},
    {"redis+sentinel://a:1/" SECRET "@h/m", "redis+sentinel://***"},
    {"redis://h?password=" SECRET, "redis://***"},
    {"rediz://:" SECRET "@h", "***"},
    {SECRET, "***"},
    {"", "***"},
};

static void test_F41_a_shown_url_has_no_secret(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof shows / sizeof *shows; i++) {
        char *shown = hf__url_shown(shows[i].text);
        assert_non_null(shown);
        assert_string_equal(shown, shows[i].shown);
        free(shown);
    }
}

static void test_an_option_is_dropped(void **state) {
    (void)state;
    static const char *const pairs[][2] = {
        {"redis://h?label=a&lease=1s", "redis://h?lease=1s"},
        {"redis://h?lease=1s&label=a&labels=b", "redis://h?lease=1s&labels=b"},
        {"redis://h?label=a", "redis://h"},
        {"redis://label=h", "redis://label=h"},
    };
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        char text[64];
        strcpy(text, pairs[i][0]);
        hf__url_drop_option(text, "label");
        assert_string_equal(text, pairs[i][1]);
    }
}

/* ---- Lengths ---- */

/* Makes `before`, `length` times 'x', `after`. */
static const char *make_long_url(const char *before, size_t length, const char *after) {
    static char text[HF__URL_MAX + 100];
    size_t start = strlen(before);
    assert_true(start + length + strlen(after) < sizeof text);
    memcpy(text, before, start);
    memset(text + start, 'x', length);
    strcpy(text + start + length, after);
    return text;
}

static void check_taken(const char *text) {
    hf__url u;
    T_HF(HF_OK, hf__url_parse(&u, text));
    hf__url_fini(&u);
}

static void test_longest_parts(void **state) {
    (void)state;
    check_taken(make_long_url("redis://:", HF__PASSWORD_MAX, "@h"));
    check_bad(make_long_url("redis://:", HF__PASSWORD_MAX + 1, "@h"), HF_INVALID, "1024");
    check_taken(make_long_url("memory:?prefix=", HF__PREFIX_MAX, ""));
    check_bad(make_long_url("memory:?prefix=", HF__PREFIX_MAX + 1, ""), HF_INVALID, "64");
    check_taken(make_long_url("memory:?label=", HF__LABEL_MAX, ""));
    check_bad(make_long_url("memory:?label=", HF__LABEL_MAX + 1, ""), HF_INVALID, "128");
    check_taken(make_long_url("memory:", HF__URL_MAX - strlen("memory:"), ""));
    check_bad(make_long_url("memory:", HF__URL_MAX - strlen("memory:") + 1, ""), HF_INVALID,
              "4096");
    check_bad(make_long_url("", 100, "://h"), HF_UNSUPPORTED,
              "'xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx:'");
    check_bad(make_long_url("memory:?", HF__URL_MAX - strlen("memory:?"), ""), HF_INVALID,
              "unknown");
}

/* ---- Durations ---- */

static const struct {
    const char *text;
    int64_t ms; /* 0: refused */
} durations[] = {
    {"1ms", 1},
    {"500ms", 500},
    {"30s", 30000},
    {"5m", 300000},
    {"1h", 3600000},
    {"007s", 7000},
    {"9223372036854775807ms", INT64_MAX},
    {"", 0},
    {"s", 0},
    {"0ms", 0},
    {"0h", 0},
    {"1", 0},
    {"1 s", 0},
    {" 1s", 0},
    {"+1s", 0},
    {"-1s", 0},
    {"1sec", 0},
    {"1.5s", 0},
    {"1s ", 0},
    {"0x1s", 0},
    {"1e3ms", 0},
    {"9223372036854775808ms", 0},
    {"9223372036854775807s", 0},
};

static void test_durations(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof durations / sizeof *durations; i++) {
        int64_t ms = 0;
        bool taken = hf__duration_parse(durations[i].text, &ms);
        if (taken != (durations[i].ms != 0) || (taken && ms != durations[i].ms))
            fail_msg("\"%s\" is %s, %lld ms", durations[i].text, taken ? "accepted" : "refused",
                     (long long)ms);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_good_urls),
        cmocka_unit_test(test_sentinel_urls),
        cmocka_unit_test(test_quorums),
        cmocka_unit_test(test_cluster_urls),
        cmocka_unit_test(test_bad_urls),
        cmocka_unit_test(test_F41_a_shown_url_has_no_secret),
        cmocka_unit_test(test_an_option_is_dropped),
        cmocka_unit_test(test_longest_parts),
        cmocka_unit_test(test_durations),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
