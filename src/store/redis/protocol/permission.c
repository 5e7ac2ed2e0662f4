/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Explains a missing right. A server names the command that a user may not run only if the client
 * sent it directly. For a script, Redis before 7.2 gives only the line in the script. If a key or a
 * channel is refused, a server does not say which one. This file adds what is missing.
 */
#include "store/redis/protocol/permission.h"

#include <ctype.h>
#include <stdbool.h>
#include <string.h>

#include "base/error.h"
#include "base/text.h"
#include "store/redis/protocol/error_line.h"

#define COMMAND_MAX 32
#define SAID_MAX    160

/* ---- Commands ---- */

/* 'lpos' from "to run the 'lpos' command". */
static bool read_quoted_command(const hf__error_line *error, char out[COMMAND_MAX]) {
    const char *run = strstr(error->text, "run the '"),
               *from = run ? run + strlen("run the '") : NULL;
    size_t length = from ? strcspn(from, "'") : 0;
    if (!length || length >= COMMAND_MAX) return false;
    memcpy(out, from, length);
    out[length] = '\0';
    return true;
}

static const char *find_line(const char *text, long line) {
    while (text && --line > 0) {
        text = strchr(text, '\n');
        if (text) text++;
    }
    return text;
}

/* Appends a command in lower case. Returns the new length. */
static size_t add_command(char out[COMMAND_MAX], size_t used, const char *name) {
    const char *between = used ? " or " : "";
    size_t length = strcspn(name, "'");
    if (used + strlen(between) + length >= COMMAND_MAX) return used;
    for (const char *c = between; *c; c++) out[used++] = *c;
    for (size_t i = 0; i < length; i++) out[used++] = (char)tolower((unsigned char)name[i]);
    return used;
}

/* The commands that are called in a line of the script: usually one, else "pttl or pexpire". */
static bool read_called_commands(const char *text, char out[COMMAND_MAX]) {
    const char *end = text + strcspn(text, "\n"), *at = text;
    size_t used = 0;
    while ((at = strstr(at, "call('")) && at < end) {
        at += strlen("call('");
        used = add_command(out, used, at);
    }
    out[used] = '\0';
    return used > 0;
}

static bool read_script_command(const hf__error_line *error, const hf__script *script,
                                char out[COMMAND_MAX]) {
    long line = error->script_line;
    const char *text = script && line > 0 ? find_line(script->text, line) : NULL;
    if (text) return read_called_commands(text, out);
    if (!script || line) return false;
    hf__text_copy(out, COMMAND_MAX,
                  /* the only command whose error a script catches and returns */
                  "pexpire");
    return true;
}

static char *explain_command(const hf__error_line *error, const hf__attempt *attempt,
                             const char *where) {
    char command[COMMAND_MAX];
    if (read_quoted_command(error, command) || read_script_command(error, attempt->script, command))
        return hf__line("%s: the ACL user lacks a right: it may not run the command %s; "
                        "docs/REDIS-PROTOCOL.md lists the rights that are needed",
                        where, command);
    return hf__line("%s: the ACL user lacks a right; ACL LOG on the server says which: %.*s; "
                    "docs/REDIS-PROTOCOL.md lists the rights that are needed",
                    where, error->length < SAID_MAX ? error->length : SAID_MAX, error->text);
}

/* ---- Keys and channels ---- */

static char *explain_key(const hf__attempt *attempt, const char *where) {
    if (!attempt->name)
        return hf__line(
            "%s: the ACL user lacks a right: it may not use the key %s:client:%s; allow ~%s:*",
            where, attempt->prefix, attempt->client, attempt->prefix);
    return hf__line("%s: the ACL user lacks a right: it may not use the key %s:{%.*s}, or a key "
                    "that begins with it; allow ~%s:*",
                    where, attempt->prefix, attempt->name_length, attempt->name, attempt->prefix);
}

static char *explain_channel(const hf__attempt *attempt, const char *where) {
    return hf__line(
        "%s: the ACL user lacks a right: it may not use the channel %s:c:%s; allow &%s:c:*", where,
        attempt->prefix, attempt->client, attempt->prefix);
}

/* Redis 7.2 and later put the user's name before the missing right, and the user's name may be any
   word, also "key" or "channel". So the quoted command is checked first. */
char *hf__permission_missing(const char *line, const hf__attempt *attempt, const char *where) {
    hf__error_line error = hf__error_unwrap(line);
    if (!hf__error_has_code(&error, "NOPERM")) return NULL;
    bool command = hf__error_says(&error, "run the '");
    if (!command && hf__error_says(&error, "channel")) return explain_channel(attempt, where);
    if (!command && hf__error_says(&error, " key")) return explain_key(attempt, where);
    return explain_command(&error, attempt, where);
}
