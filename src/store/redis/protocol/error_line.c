/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Unwraps a server's error line. An error that a command raises inside a script reaches the client
 * in several forms:
 *
 *   Redis 6.2      ERR Error running script (call to f_SHA1): @user_script:3: @user_script: 3:
 *                  -OOM command …                              (all on one line)
 *                  @user_script: 3: -OOM command …             (a script caught and returned it)
 *   Redis 7.0      OOM command … script: SHA1, on @user_script:3.
 *   Valkey 9       OOM command … script: on @user_script:3.
 *   any, rethrown  user_script:3: in front, with ERR before it from Redis 7.0 on
 *
 * A missing right has no error code of its own inside a script:
 *
 *   up to Redis 7.0   The user executing the script can't run this command or subcommand
 *   Redis 7.2, Valkey ERR ACL failure in script: User anna has no permissions to run the 'hset'
 *                     command                                  (on one line)
 */
#include "store/redis/protocol/error_line.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

static const char WRAPPED[] = "ERR Error running script (call to ", POSITION[] = "user_script:";

static const char *skip_prefix(const char *at, const char *prefix) {
    size_t length = strlen(prefix);
    return strncmp(at, prefix, length) ? at : at + length;
}

/* Skips "@user_script:3: ", with or without the "@" and a space before the number. Returns `at` if
   there is no position. */
static const char *skip_position(const char *at, long *script_line) {
    const char *number = skip_prefix(skip_prefix(at, "@"), POSITION);
    if (number == skip_prefix(at, "@")) return skip_prefix(at, "=[C]: -1: ");
    char *end;
    long line = strtol(number, &end, 10);
    if (end == number || strncmp(end, ": ", 2) != 0) return at;
    if (!*script_line) *script_line = line;
    return end + 2;
}

static const char *skip_positions(const char *at, long *script_line) {
    for (const char *next; (next = skip_position(at, script_line)) != at;) at = next;
    return at;
}

/* Where the error itself begins. */
static const char *unwrap_front(const char *line, long *script_line) {
    const char *wrapped = skip_prefix(line, WRAPPED), *end = strstr(wrapped, "): ");
    const char *at = wrapped != line && end ? end + strlen("): ") : line;
    const char *inside = skip_positions(skip_prefix(at, "ERR "), script_line);
    /* no position in a script: ERR is the error's own code */
    if (inside == skip_prefix(at, "ERR ")) return at;
    return *inside == '-' ? inside + 1 : inside;
}

static const char *find_last(const char *text, const char *end, const char *needle) {
    const char *last = NULL;
    for (const char *at = text; (at = strstr(at, needle)) && (!end || at < end); at++) last = at;
    return last;
}

/* Where the error ends: before " script: SHA1, on @user_script:3." or " script: on
   @user_script:3." */
static const char *unwrap_back(const char *text, long *script_line) {
    const char *position = find_last(text, NULL, "on @user_script:");
    const char *end = position ? find_last(text, position, " script: ") : NULL;
    if (!end) return text + strlen(text);
    if (!*script_line) *script_line = strtol(strchr(position, ':') + 1, NULL, 10);
    return end;
}

/* The code: capital letters only, up to the first space. */
static void read_code(char code[HF__ERROR_CODE], const char *text, const char *end) {
    size_t length = 0;
    while (text + length < end && isupper((unsigned char)text[length])) length++;
    bool whole = text + length == end || text[length] == ' ';
    if (!whole || length >= HF__ERROR_CODE) length = 0;
    memcpy(code, text, length);
    code[length] = '\0';
}

static bool has_prefix(const char *text, const char *prefix) {
    return skip_prefix(text, prefix) != text;
}

static bool lacks_right(const char *text) {
    const char *said = skip_prefix(text, "ERR ");
    return has_prefix(said, "ACL failure in script: ") ||
           has_prefix(said, "The user executing the script can't ");
}

hf__error_line hf__error_unwrap(const char *line) {
    hf__error_line e = {.script_line = 0};
    e.text = unwrap_front(line, &e.script_line);
    const char *end = unwrap_back(e.text, &e.script_line);
    read_code(e.code, e.text, end);
    if (lacks_right(e.text)) memcpy(e.code, "NOPERM", sizeof "NOPERM");
    /* The server repeats the arguments of an unknown command. They may contain a password. */
    const char *echo = strstr(e.text, ", with args");
    if (echo && echo < end) end = echo;
    while (end > e.text && isspace((unsigned char)end[-1])) end--;
    e.length = (int)(end - e.text);
    return e;
}

bool hf__error_has_code(const hf__error_line *error, const char *code) {
    return strcmp(error->code, code) == 0;
}

bool hf__error_says(const hf__error_line *error, const char *phrase) {
    return memmem(error->text, (size_t)error->length, phrase, strlen(phrase)) != NULL;
}
