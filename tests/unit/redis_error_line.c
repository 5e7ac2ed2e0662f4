/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Errors that servers send when a script of ours fails, word for word. They must mean the same from
 * every server (F27).
 *
 * The lines were recorded on Redis 6.2.14, Redis 7.0.15 and Valkey 9.1.2. Redis 7.2 differs from
 * 7.0 for missing permissions, where it has the wording of Valkey.
 */
#include "t.h"

#include <stdlib.h>
#include <string.h>

#include "store/redis/protocol/error_line.h"
#include "store/redis/protocol/permission.h"
#include "store/redis/protocol/sentinel.h"
#include "store/redis/protocol/server_error.h"

#define SHA "1a4b39702e3dfbfd049bcea2e8ec00531e5544ba"

/* The text around an error that a command raised in line 3 of a script. */
#define IN_62    "ERR Error running script (call to f_" SHA "): @user_script:3: "
#define PLACE_62 "@user_script: 3: "
#define ON_70    " script: " SHA ", on @user_script:3."
#define ON_91    " script: on @user_script:3."

#define OOM      "OOM command not allowed when used memory > 'maxmemory'."
#define REPLICAS "NOREPLICAS Not enough good replicas to write."
#define READONLY "READONLY You can't write against a read only replica."
#define TYPE     "WRONGTYPE Operation against a key holding the wrong kind of value"
#define DOWN     "MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'."
#define FENCE    "HFFENCE the fence holds no token"
#define MISCONF_62                                                                                \
    "MISCONF Redis is configured to save RDB snapshots, but it is currently not able to persist " \
    "on disk. Commands that may modify the data set are disabled, because this instance is "      \
    "configured to report errors during writes if RDB snapshotting fails "                        \
    "(stop-writes-on-bgsave-error option). Please check the Redis logs for details about the "    \
    "RDB error."
#define MISCONF_91                                                                                 \
    "MISCONF Valkey is configured to save RDB snapshots, but it's currently unable to persist to " \
    "disk. Commands that may modify the data set are disabled, because this instance is "          \
    "configured to report errors during writes if RDB snapshotting fails "                         \
    "(stop-writes-on-bgsave-error option). Please check the Valkey logs for details about the "    \
    "RDB error."
#define MAY_NOT_RUN "The user executing the script can't run this command or subcommand"
#define MAY_NOT_KEY                                                                         \
    "The user executing the script can't access at least one of the keys mentioned in the " \
    "command arguments"
#define MAY_NOT_SAY \
    "The user executing the script can't publish to the channel mentioned in the command"
#define NOT_RUN    "ACL failure in script: User anna has no permissions to run the 'hset' command"
#define NOT_KEY    "ACL failure in script: No permissions to access a key"
#define NOT_SAY    "ACL failure in script: No permissions to access a channel"
#define LACKS_HSET "may not run the command hset"
#define LACKS_KEY  "may not use the key hf:{na}"
#define LACKS_SAY  "may not use the channel hf:c:CLIENT"
#define ELSEWHERE  "attempted to access a non local key in a cluster node"

typedef struct error_case {
    const char *line;
    const char *code;
    long script_line;
    hf_result result;
    const char *mentions; /* a text in the detail */
} error_case;

static const error_case lines[] = {
    /* A command that a script called. */
    {IN_62 PLACE_62 "-" OOM, "OOM", 3, HF_REFUSED, "maxmemory"},
    {OOM ON_70, "OOM", 3, HF_REFUSED, "maxmemory"},
    {OOM ON_91, "OOM", 3, HF_REFUSED, "maxmemory"},
    {IN_62 PLACE_62 "-" REPLICAS, "NOREPLICAS", 3, HF_UNREACHABLE, "min-replicas"},
    {REPLICAS ON_70, "NOREPLICAS", 3, HF_UNREACHABLE, "min-replicas"},
    {REPLICAS ON_91, "NOREPLICAS", 3, HF_UNREACHABLE, "min-replicas"},
    {IN_62 PLACE_62 "-" READONLY, "READONLY", 3, HF_REFUSED, "primary"},
    {READONLY ON_70, "READONLY", 3, HF_REFUSED, "primary"},
    {READONLY ON_91, "READONLY", 3, HF_REFUSED, "primary"},
    {IN_62 PLACE_62 "-" MISCONF_62, "MISCONF", 3, HF_REFUSED, "disk"},
    {MISCONF_62 ON_70, "MISCONF", 3, HF_REFUSED, "disk"},
    {MISCONF_91 ON_91, "MISCONF", 3, HF_REFUSED, "disk"},
    {IN_62 TYPE, "WRONGTYPE", 3, HF_PROTOCOL, "holds something else"},
    {TYPE ON_70, "WRONGTYPE", 3, HF_PROTOCOL, "holds something else"},
    {TYPE ON_91, "WRONGTYPE", 3, HF_PROTOCOL, "holds something else"},
    {IN_62 PLACE_62 "Unknown Redis command called from Lua script", "", 3, HF_UNSUPPORTED, "6.2"},
    {"ERR Unknown Redis command called from script" ON_70, "ERR", 3, HF_UNSUPPORTED, "6.2"},
    {"ERR Unknown command called from script" ON_91, "ERR", 3, HF_UNSUPPORTED, "6.2"},
    /* An error that a script caught and returned. */
    {PLACE_62 "-" OOM, "OOM", 3, HF_REFUSED, "maxmemory"},
    {PLACE_62 "-" READONLY, "READONLY", 3, HF_REFUSED, "primary"},
    {PLACE_62 MAY_NOT_RUN, "NOPERM", 3, HF_REFUSED, LACKS_HSET},
    {OOM, "OOM", 0, HF_REFUSED, "maxmemory"},
    {TYPE, "WRONGTYPE", 0, HF_PROTOCOL, "holds something else"},
    {FENCE, "HFFENCE", 0, HF_PROTOCOL, "fence"},
    {"ERR " MAY_NOT_RUN, "NOPERM", 0, HF_REFUSED, "may not run the command pexpire"},
    {"ERR " NOT_RUN, "NOPERM", 0, HF_REFUSED, LACKS_HSET},
    /* An error that a script caught and raised again. */
    {IN_62 "user_script:3: =[C]: -1: -" OOM, "OOM", 3, HF_REFUSED, "maxmemory"},
    {IN_62 "user_script:3: " TYPE, "WRONGTYPE", 3, HF_PROTOCOL, "holds something else"},
    {"ERR user_script:3: " OOM ON_70, "OOM", 3, HF_REFUSED, "maxmemory"},
    {"ERR user_script:3: " READONLY ON_91, "READONLY", 3, HF_REFUSED, "primary"},
    {"ERR user_script:3: ERR " MAY_NOT_RUN ON_70, "NOPERM", 3, HF_REFUSED, LACKS_HSET},
    {"ERR user_script:3: ERR " NOT_RUN ON_91, "NOPERM", 3, HF_REFUSED, LACKS_HSET},
    /* Missing permissions inside a script. */
    {IN_62 PLACE_62 MAY_NOT_RUN, "NOPERM", 3, HF_REFUSED, LACKS_HSET},
    {"ERR " MAY_NOT_RUN ON_70, "NOPERM", 3, HF_REFUSED, LACKS_HSET},
    {"ERR " NOT_RUN ON_70, "NOPERM", 3, HF_REFUSED, LACKS_HSET}, /* Redis 7.2 */
    {"ERR " NOT_RUN ON_91, "NOPERM", 3, HF_REFUSED, LACKS_HSET},
    {IN_62 PLACE_62 MAY_NOT_KEY, "NOPERM", 3, HF_REFUSED, LACKS_KEY},
    {"ERR " MAY_NOT_KEY ON_70, "NOPERM", 3, HF_REFUSED, LACKS_KEY},
    {"ERR " NOT_KEY ON_91, "NOPERM", 3, HF_REFUSED, LACKS_KEY},
    {IN_62 PLACE_62 MAY_NOT_SAY, "NOPERM", 3, HF_REFUSED, LACKS_SAY},
    {"ERR " MAY_NOT_SAY ON_70, "NOPERM", 3, HF_REFUSED, LACKS_SAY},
    {"ERR " NOT_SAY ON_91, "NOPERM", 3, HF_REFUSED, LACKS_SAY},
    {"ERR ACL failure in script: User 'key channel' has no permissions to run the 'hset' "
     "command" ON_91,
     "NOPERM", 3, HF_REFUSED, LACKS_HSET},
    {"ERR ACL failure in script: User a has no permissions to run the 'pubsub|numsub' "
     "command" ON_91,
     "NOPERM", 3, HF_REFUSED, "may not run the command pubsub|numsub"},
    /* Missing permissions outside a script. */
    {"NOPERM this user has no permissions to run the 'hset' command or its subcommand", "NOPERM", 0,
     HF_REFUSED, LACKS_HSET},
    {"NOPERM this user has no permissions to run the 'hset' command", "NOPERM", 0, HF_REFUSED,
     LACKS_HSET},
    {"NOPERM User anna has no permissions to run the 'hset' command", "NOPERM", 0, HF_REFUSED,
     LACKS_HSET},
    {"NOPERM this user has no permissions to access one of the keys used as arguments", "NOPERM", 0,
     HF_REFUSED, LACKS_KEY},
    {"NOPERM No permissions to access a key", "NOPERM", 0, HF_REFUSED, LACKS_KEY},
    {"NOPERM this user has no permissions to access one of the channels used as arguments",
     "NOPERM", 0, HF_REFUSED, LACKS_SAY},
    {"NOPERM No permissions to access a channel", "NOPERM", 0, HF_REFUSED, LACKS_SAY},
    /* Errors without a script. */
    {DOWN, "MASTERDOWN", 0, HF_UNREACHABLE, "primary"},
    {"CLUSTERDOWN Hash slot not served", "CLUSTERDOWN", 0, HF_UNREACHABLE, "cluster"},
    {"CROSSSLOT Keys in request don't hash to the same slot", "CROSSSLOT", 0, HF_PROTOCOL,
     "CROSSSLOT"},
    {"NOSCRIPT No matching script. Please use EVAL.", "NOSCRIPT", 0, HF_PROTOCOL, "NOSCRIPT"},
    {"ERR unknown command `SSUBSCRIBE`, with args beginning with: `password`, ", "ERR", 0,
     HF_UNSUPPORTED, "6.2"},
    {"ERR unknown command 'SSUBSCRIBE', with args beginning with: 'password' ", "ERR", 0,
     HF_UNSUPPORTED, "6.2"},
    /* Errors of no known form. */
    {IN_62 "user_script:3: attempt to perform arithmetic on a nil value", "", 3, HF_PROTOCOL,
     "the server said: attempt to"},
    {"ERR the word READONLY alone", "ERR", 0, HF_PROTOCOL, "the server said: ERR the word"},
    {"ERR Error running script (call to f_", "ERR", 0, HF_PROTOCOL, "the server said"},
    {"OOMPH is another word", "OOMPH", 0, HF_PROTOCOL, "the server said"},
    {"@user_script", "", 0, HF_PROTOCOL, "the server said"},
    {"@user_script:", "", 0, HF_PROTOCOL, "the server said"},
    {" script: on @user_script:", "", 0, HF_PROTOCOL, "the server said"},
    {"ERR ", "ERR", 0, HF_PROTOCOL, "the server said"},
    {"", "", 0, HF_PROTOCOL, "the server said"},
};
enum { LINES = sizeof lines / sizeof *lines };

/* Line 3 calls HSET, as a script of ours would. */
static const hf__script SCRIPT = {.text = "local call = redis.call\n"
                                          "call('PTTL', KEYS[1])\n"
                                          "call('HSET', KEYS[1], 'a', 'b')\n"};
static const hf__attempt TRIED = {
    .script = &SCRIPT, .prefix = "hf", .name = "na", .name_length = 2, .client = "CLIENT"};

static void test_every_error_unwraps_to_its_code_and_line(void **state) {
    (void)state;
    for (int i = 0; i < LINES; i++) {
        hf__error_line e = hf__error_unwrap(lines[i].line);
        if (!hf__error_has_code(&e, lines[i].code) || e.script_line != lines[i].script_line)
            fail_msg("\"%s\": code \"%s\", line %ld", lines[i].line, e.code, e.script_line);
        if (memmem(e.text, (size_t)e.length, "user_script", strlen("user_script")) &&
            strncmp(lines[i].line, "@user_script", strlen("@user_script")) != 0)
            fail_msg("\"%s\": the position in the script is still in \"%.*s\"", lines[i].line,
                     e.length, e.text);
    }
}

static void test_an_error_means_the_same_from_every_server(void **state) {
    (void)state;
    for (int i = 0; i < LINES; i++) {
        char *detail = hf__permission_missing(lines[i].line, &TRIED, "h:1");
        hf_result result = detail ? HF_REFUSED : hf__server_error(lines[i].line, "h:1", &detail);
        if (result != lines[i].result || !strstr(detail, lines[i].mentions))
            fail_msg("\"%s\": %s, \"%s\"", lines[i].line, hf_result_name(result), detail);
        if (strstr(detail, "password`") || strstr(detail, "password'"))
            fail_msg("\"%s\" shows an argument", detail);
        free(detail);
    }
}

/* F32: after a failover the error code is recognised inside any wrapping. */
static void test_a_demoted_primary_is_known_by_every_form_of_its_error(void **state) {
    (void)state;
    for (int i = 0; i < LINES; i++) {
        bool lost = !strcmp(lines[i].code, "READONLY") || !strcmp(lines[i].code, "MASTERDOWN");
        if (hf__role_lost(lines[i].line) != lost)
            fail_msg("\"%s\": whether the role was lost is wrong", lines[i].line);
    }
}

static void test_the_text_is_only_the_error(void **state) {
    (void)state;
    static const char *const wrapped[] = {IN_62 PLACE_62 "-" OOM, OOM ON_70, OOM ON_91,
                                          PLACE_62 "-" OOM, OOM " "};
    for (size_t i = 0; i < sizeof wrapped / sizeof *wrapped; i++) {
        hf__error_line e = hf__error_unwrap(wrapped[i]);
        assert_int_equal(e.length, strlen(OOM));
        assert_memory_equal(e.text, OOM, strlen(OOM));
    }
    hf__error_line e = hf__error_unwrap("ERR Script " ELSEWHERE ON_70);
    assert_true(hf__error_says(&e, ELSEWHERE));
    assert_false(hf__error_says(&e, "user_script"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_error_unwraps_to_its_code_and_line),
        cmocka_unit_test(test_an_error_means_the_same_from_every_server),
        cmocka_unit_test(test_a_demoted_primary_is_known_by_every_form_of_its_error),
        cmocka_unit_test(test_the_text_is_only_the_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
