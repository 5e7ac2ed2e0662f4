/* SPDX-License-Identifier: Apache-2.0 */
#include "doctor/doctor_rights.h"

#include <stdio.h>
#include <string.h>

#include "base/rand.h"

#define WORDS_MAX 8
#define KEY_BYTES 160

/* What a right is needed for. */
typedef enum right_purpose { TO_LOCK, TO_SHOW, TO_WAIT, TO_LIST, NEEDS } right_purpose;

/* Placeholders for names that only this check uses. Nothing is stored under them, so most commands
   do nothing. Commands that create something are tried only if the user may delete it again. */
#define KEY     "\1"
#define LIST    "\2"
#define CHANNEL "\3"

typedef struct acl_right {
    const char *name; /* as in an ACL */
    right_purpose need;
    bool creates; /* it creates something that must be deleted */
    const char *words[WORDS_MAX];
} acl_right;

/* del is first, because commands that create something are tried only if it is allowed. */
static const acl_right rights[] = {
    {"del", TO_LOCK, false, {"DEL", KEY, LIST}},
    {"time", TO_LOCK, false, {"TIME"}},
    {"eval", TO_LOCK, false, {"EVAL", "return 1", "1", KEY}},
    {"evalsha", TO_LOCK, false, {"EVALSHA", "0000000000000000000000000000000000000000", "1", KEY}},
    {"get", TO_LOCK, false, {"GET", KEY}},
    {"set", TO_LOCK, false, {"SET", KEY, "0", "PX", "1000", "XX"}},
    {"hget", TO_LOCK, false, {"HGET", KEY, "f"}},
    {"hset", TO_LOCK, true, {"HSET", KEY, "f", "v"}},
    {"hdel", TO_LOCK, false, {"HDEL", KEY, "g"}},
    {"hexists", TO_LOCK, false, {"HEXISTS", KEY, "f"}},
    {"hmget", TO_SHOW, false, {"HMGET", KEY, "f"}},
    {"hgetall", TO_SHOW, false, {"HGETALL", KEY}},
    {"pttl", TO_LOCK, false, {"PTTL", KEY}},
    {"pexpire", TO_LOCK, false, {"PEXPIRE", KEY, "1000"}},
    {"rpush", TO_WAIT, true, {"RPUSH", LIST, "v"}},
    {"lpos", TO_WAIT, false, {"LPOS", LIST, "v"}},
    {"lrange", TO_WAIT, false, {"LRANGE", LIST, "0", "1"}},
    {"lindex", TO_WAIT, false, {"LINDEX", LIST, "0"}},
    {"llen", TO_WAIT, false, {"LLEN", LIST}},
    {"lset", TO_WAIT, false, {"LSET", LIST, "0", "v"}},
    {"lrem", TO_WAIT, false, {"LREM", LIST, "0", "w"}},
    {"linsert", TO_WAIT, false, {"LINSERT", LIST, "BEFORE", "w", "v"}},
    {"publish", TO_WAIT, false, {"PUBLISH", CHANNEL, "0"}},
    {"pubsub|numsub", TO_WAIT, false, {"PUBSUB", "NUMSUB", CHANNEL}},
    {"ping", TO_WAIT, false, {"PING"}},
    {"scan", TO_LIST, false, {"SCAN", "0", "MATCH", KEY, "COUNT", "1"}},
};

typedef struct rights_check {
    server_admin *admin;
    char key[KEY_BYTES], list[KEY_BYTES], channel[KEY_BYTES];
    bool may_delete;
    char lacking[NEEDS][FINDING_BYTES / 2];
} rights_check;

/* ---- Trying each right ---- */

static const char *expand_word(const rights_check *t, const char *word) {
    switch (*word) {
    case '\1': return t->key;
    case '\2': return t->list;
    case '\3': return t->channel;
    default: return word;
    }
}

/* True if the user lacks the right. Other errors come from the command itself. */
static bool is_denied(const server_reply *reply) {
    return reply->type == '-' && (strncmp(reply->text, "NOPERM", strlen("NOPERM")) == 0 ||
                                  strstr(reply->text, "unknown command"));
}

static void note_lacking(rights_check *t, right_purpose which, const char *name) {
    char *list = t->lacking[which];
    size_t length = strlen(list);
    snprintf(list + length, sizeof t->lacking[which] - length, " +%s", name);
}

static hf_result try_right(rights_check *t, const acl_right *r, server_reply *reply) {
    const char *words[WORDS_MAX + 1] = {0};
    for (int i = 0; i < WORDS_MAX && r->words[i]; i++) words[i] = expand_word(t, r->words[i]);
    return server_admin_command(t->admin, reply, words);
}

static bool try_rights(rights_check *t) {
    server_reply reply;
    for (size_t i = 0; i < sizeof rights / sizeof *rights; i++) {
        const acl_right *r = &rights[i];
        if (r->creates && !t->may_delete) continue;
        if (try_right(t, r, &reply)) return false;
        if (is_denied(&reply)) note_lacking(t, r->need, r->name);
        if (i == 0) t->may_delete = !is_denied(&reply);
    }
    return !t->may_delete || !try_right(t, &rights[0], &reply);
}

/* Uses its own connection, because a subscribed connection can do nothing else. */
static bool try_subscribe(rights_check *t, const hf__url *url) {
    server_reply reply;
    server_admin *subscriber;
    if (server_admin_open(url, &subscriber)) return false;
    const char *const words[] = {"SUBSCRIBE", t->channel, NULL};
    hf_result r = server_admin_command(subscriber, &reply, words);
    if (!r && is_denied(&reply)) note_lacking(t, TO_WAIT, "subscribe");
    server_admin_close(subscriber);
    return r == HF_OK;
}

/* ---- Reporting ---- */

static void name_user(const hf__url *url, server_admin *admin, char user[64]) {
    server_reply reply;
    const char *const words[] = {"ACL", "WHOAMI", NULL};
    bool known = !server_admin_command(admin, &reply, words) && reply.type == '$';
    snprintf(user, 64, "%s", known ? reply.text : url->user ? url->user : "this user");
}

static void report_lacking(findings *all, rights_check *t, const char *user) {
    static const struct {
        severity level;
        const char *means;
    } kinds[NEEDS] = {
        {LEVEL_ERROR, "Without this, locks cannot be acquired, renewed or released."},
        {LEVEL_WARNING, "Without this, the holder of a lock cannot be shown, and readers, permits, "
                        "latches and leaders fail."},
        {LEVEL_WARNING, "Without this, waiters are refused or served late, because they must poll "
                        "instead of being notified."},
        {LEVEL_NOTE, "holdfast list, holdfast top and hf_list need this; locks do not."},
    };
    bool all_there = true;
    for (int i = 0; i < NEEDS; i++) {
        if (!t->lacking[i][0]) continue;
        all_there &= i == TO_LIST;
        findings_add(all, kinds[i].level, "rights", kinds[i].means,
                     "Grant the rights with ACL SETUSER; docs/REDIS-PROTOCOL.md has the complete "
                     "line.",
                     "%s lacks%s", user, t->lacking[i]);
    }
    if (all_there)
        findings_add(all, LEVEL_OK, "rights", NULL, NULL, "%s has all rights that locks need",
                     user);
}

void doctor_rights(findings *all, const hf__url *url, server_admin *admin) {
    char uuid[HF__UUID_LENGTH + 1], user[64];
    rights_check t = {.admin = admin};
    hf__uuid_make(uuid);
    snprintf(t.key, sizeof t.key, "%s:{holdfast-doctor:%s}", url->prefix, uuid);
    snprintf(t.list, sizeof t.list, "%s:{holdfast-doctor:%s}:q", url->prefix, uuid);
    snprintf(t.channel, sizeof t.channel, "%s:c:%s", url->prefix, uuid);
    name_user(url, admin, user);
    if (try_rights(&t) && try_subscribe(&t, url))
        report_lacking(all, &t, user);
    else
        findings_add(all, LEVEL_ERROR, "reach",
                     "Locks are lost when a connection is down for long.", NULL,
                     "the connection was lost: %s", hf_error_detail());
}
