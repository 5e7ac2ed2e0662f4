/* SPDX-License-Identifier: Apache-2.0 */
/* Commands on scripts, and a server's cache of scripts by SHA-1. */
#include <stdlib.h>

#include "model/command.h"
#include "model/lua.h"

#define REMEMBERED 16

/* ---- The cache of a server ---- */

static int64_t script_at(const rm_server *server, const char *sha1) {
    for (size_t i = 0; i < server->script_count; i++)
        if (!strcmp(server->scripts[i], sha1)) return (int64_t)i;
    return -1;
}

bool rm_script_known(const rm_server *server, const char *sha1) {
    return script_at(server, sha1) >= 0;
}

void rm_scripts_forget(rm_server *server) {
    free(server->scripts);
    server->scripts = NULL;
    server->script_count = 0;
}

/* Computes the SHA-1 of a text. The last few are cached, because most texts are sent repeatedly. */
static void name_of(char sha1[RM_SHA1_LENGTH + 1], rm_bytes text) {
    static struct {
        rm_bytes text;
        char sha1[RM_SHA1_LENGTH + 1];
    } last[REMEMBERED];
    static unsigned next;
    for (int i = 0; i < REMEMBERED; i++)
        if (last[i].text.at && rm_same(last[i].text, text)) {
            memcpy(sha1, last[i].sha1, RM_SHA1_LENGTH + 1);
            return;
        }
    rm_sha1(sha1, text);
    unsigned place = next++ % REMEMBERED;
    free((char *)last[place].text.at);
    last[place].text = (rm_bytes){rm_copy(text), text.length};
    memcpy(last[place].sha1, sha1, RM_SHA1_LENGTH + 1);
}

static bool add_script(rm_call *c, rm_bytes text, char sha1[RM_SHA1_LENGTH + 1]) {
    rm_server *server = c->server;
    name_of(sha1, text);
    if (rm_script_known(server, sha1)) return true;
    if (!rm_lua_compile(sha1, text, c->out)) return false;
    size_t count = server->script_count + 1;
    server->scripts = rm_realloc(server->scripts, count * sizeof *server->scripts);
    memcpy(server->scripts[server->script_count++], sha1, RM_SHA1_LENGTH + 1);
    return true;
}

/* ---- Running ---- */

static void run_watched(rm_call *c, const char *sha1, size_t key_count) {
    size_t before = c->out->length;
    rm_lua_run(c, sha1, key_count);
    if (!c->server->watch) return;
    rm_ran ran = {.conn = c->conn,
                  .sha1 = sha1,
                  .keys = c->argv + 3,
                  .key_count = key_count,
                  .args = c->argv + 3 + key_count,
                  .arg_count = c->argc - 3 - key_count,
                  .answer = {c->out->data + before, c->out->length - before}};
    c->server->watch(c->server->watch_arg, &ran);
}

/* ---- Commands ---- */

static bool take_key_count(rm_call *c, size_t *count) {
    int64_t n;
    if (!rm_arg_integer(c, 2, &n)) return false;
    if (n > (int64_t)c->argc - 3)
        rm_error(c->out, "ERR Number of keys can't be greater than number of args");
    else if (n < 0)
        rm_error(c->out, "ERR Number of keys can't be negative");
    else {
        *count = (size_t)n;
        return true;
    }
    return false;
}

static void c_eval(rm_call *c) {
    size_t keys;
    char sha1[RM_SHA1_LENGTH + 1];
    if (take_key_count(c, &keys) && add_script(c, c->argv[1], sha1)) run_watched(c, sha1, keys);
}

static void copy_lower(char to[RM_SHA1_LENGTH + 1], rm_bytes from) {
    for (size_t i = 0; i < RM_SHA1_LENGTH; i++)
        to[i] = (char)(from.at[i] >= 'A' && from.at[i] <= 'Z' ? from.at[i] + 32 : from.at[i]);
    to[RM_SHA1_LENGTH] = '\0';
}

static bool knows_script(const rm_call *c, rm_bytes name, char sha1[RM_SHA1_LENGTH + 1]) {
    if (name.length != RM_SHA1_LENGTH) return false;
    copy_lower(sha1, name);
    return rm_script_known(c->server, sha1);
}

static void c_evalsha(rm_call *c) {
    size_t keys;
    char sha1[RM_SHA1_LENGTH + 1];
    if (c->argv[1].length != RM_SHA1_LENGTH)
        rm_error(c->out, "NOSCRIPT No matching script. Please use EVAL.");
    else if (!take_key_count(c, &keys))
        return;
    else if (!knows_script(c, c->argv[1], sha1))
        rm_error(c->out, "NOSCRIPT No matching script. Please use EVAL.");
    else
        run_watched(c, sha1, keys);
}

static void c_script_load(rm_call *c) {
    char sha1[RM_SHA1_LENGTH + 1];
    if (add_script(c, c->argv[2], sha1)) rm_bulk(c->out, rm_text(sha1));
}

static void c_script_exists(rm_call *c) {
    char sha1[RM_SHA1_LENGTH + 1];
    rm_array(c->out, c->argc - 2);
    for (size_t i = 2; i < c->argc; i++) rm_number(c->out, knows_script(c, c->argv[i], sha1));
}

static void c_script_flush(rm_call *c) {
    bool how = c->argc == 3 && (rm_is(c->argv[2], "sync") || rm_is(c->argv[2], "async"));
    if (c->argc > 2 && !how) {
        rm_error(c->out, "ERR SCRIPT FLUSH only support SYNC|ASYNC option");
        return;
    }
    rm_scripts_forget(c->server);
    rm_status(c->out, "OK");
}

const rm_command rm_commands_script[] = {
    {"evalsha", -3, RM_NO_SCRIPT, c_evalsha},
    {"eval", -3, RM_NO_SCRIPT, c_eval},
    {"script", -2, RM_NO_SCRIPT, NULL},
    {"script|load", 3, RM_NO_SCRIPT, c_script_load},
    {"script|exists", -3, RM_NO_SCRIPT, c_script_exists},
    {"script|flush", -2, RM_NO_SCRIPT, c_script_flush},
    {0},
};
