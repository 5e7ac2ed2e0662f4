/* SPDX-License-Identifier: Apache-2.0 */
#include "common/show.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include "base/text.h"
#include "common/duration.h"
#include "common/exit_codes.h"
#include "common/json.h"
#include "common/message.h"

#define WORD_COLUMNS 11 /* width of the first column of show_line, including the space after it */
#define LONG_MS      INT64_C(86400000) /* longer than all leases, except the default of file: */
#define LEAST_ROOM   16 /* the terminal itself wraps a second column that is narrower */

/* ---- On a terminal ---- */

size_t show_width(void) {
    struct winsize size;
    if (!isatty(STDOUT_FILENO)) return 0;
    return ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col ? size.ws_col : 80;
}

static bool is_continuation_byte(char c) {
    return ((unsigned char)c & 0xc0) == 0x80;
}

size_t show_columns(const char *text) {
    size_t n = 0;
    for (; *text; text++) n += !is_continuation_byte(*text);
    return n;
}

size_t show_cut(char *to, size_t size, const char *text, size_t columns) {
    static const char dots[] = "..";
    bool all = show_columns(text) <= columns;
    size_t room = all ? columns : columns > 2 ? columns - 2 : 0, bytes = 0, seen = 0;
    for (; text[bytes] && bytes + sizeof dots < size; bytes++) {
        if (!is_continuation_byte(text[bytes]) && seen++ == room) break;
        to[bytes] = text[bytes];
    }
    memcpy(to + bytes, all ? "" : dots, all ? 1 : sizeof dots);
    return bytes + (all ? 0 : 2);
}

/* The number of bytes that fit without breaking a word; at least one word. */
static size_t fit_words(const char *text, size_t columns) {
    size_t end = 0, at = 0, seen = 0;
    while (text[at]) {
        seen += text[at] == ' ';
        for (at += text[at] == ' '; text[at] && text[at] != ' '; at++)
            seen += !is_continuation_byte(text[at]);
        if (seen > columns && end) break;
        end = at;
    }
    return end;
}

void show_line(const char *word, const char *text) {
    char tame[SHOW_TEXT];
    hf__text_sanitize(tame, sizeof tame, text, strlen(text));
    size_t width = show_width(), room = width > WORD_COLUMNS ? width - WORD_COLUMNS : 0;
    const char *rest = tame;
    do {
        size_t length = room >= LEAST_ROOM ? fit_words(rest, room) : strlen(rest);
        printf("%-*s%.*s\n", WORD_COLUMNS, word, (int)length, rest);
        rest += length + (rest[length] == ' ');
        word = "";
    } while (*rest);
}

/* ---- Holders and states ---- */

void show_who(char *text, size_t size, const char *program, int64_t pid, const char *host,
              const char *label) {
    char process[32] = "";
    if (pid) snprintf(process, sizeof process, ", pid %" PRId64, pid);
    if (!*program && !pid && !*host)
        snprintf(text, size, "unknown");
    else
        snprintf(text, size, "%s%s%s%s%s%s%s", *program ? program : "a program", process,
                 *host ? " on " : "", host, *label ? " (" : "", label, *label ? ")" : "");
}

void show_holder(char *text, size_t size, const hf_info *info) {
    show_who(text, size, info->program, info->pid, info->host, info->label);
}

void show_state(char *text, size_t size, const hf_info *info) {
    if (!info->held && info->waiting)
        snprintf(text, size, "free, but others are waiting");
    else if (!info->held)
        snprintf(text, size, "free");
    else if (info->kind == HF_PERMITS)
        snprintf(text, size, "%" PRIu32 " of %" PRIu32 " permits in use, by %" PRIu32, info->used,
                 info->capacity, info->holders);
    else if (info->kind == HF_READ || info->kind == HF_UPGRADABLE)
        snprintf(text, size, "shared, by %" PRIu32, info->holders);
    else
        snprintf(text, size, "held");
}

const char *show_kind(uint32_t kind) {
    static const char *const names[] = {"mutex", "read", "write", "upgradable", "permits"};
    return kind < sizeof names / sizeof *names ? names[kind] : "unknown";
}

void show_state_word(char *text, size_t size, const hf_info *info) {
    if (!info->held)
        snprintf(text, size, "free");
    else if (info->kind == HF_PERMITS)
        snprintf(text, size, "permits %" PRIu32 "/%" PRIu32, info->used, info->capacity);
    else if (info->kind == HF_READ || info->kind == HF_UPGRADABLE)
        snprintf(text, size, "%s %" PRIu32, show_kind(info->kind), info->holders);
    else
        snprintf(text, size, "%s", info->kind == HF_WRITE ? "write" : "held");
}

/* On file: the kernel keeps a lock while its holder lives, so the long default lease has no
   meaning for a user. */
void show_remaining(char *text, size_t size, const hf_info *info, const store *s) {
    char duration[DURATION_TEXT];
    bool in_files = strncmp(s->url, "file:", strlen("file:")) == 0;
    if (in_files && !info->remaining_ms)
        snprintf(text, size, "none: the holder is not running; it may be stopped");
    else if (in_files && info->remaining_ms > LONG_MS)
        snprintf(text, size, "as long as its holder runs");
    else
        snprintf(text, size, "%s of its lease; a renewal extends it",
                 duration_text(info->remaining_ms, duration));
}

int64_t show_held_ms(const hf_info *info) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    int64_t ms = (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000 - info->since_unix_ms;
    return info->since_unix_ms && ms > 0 ? ms : 0;
}

/* ---- Commands ---- */

/* Adds single quotes if a shell would interpret the text. */
static size_t quote_word(char *to, size_t size, const char *text) {
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                "_-./:@%+,=";
    size_t n = 0;
    if (*text && !text[strspn(text, plain)]) return (size_t)snprintf(to, size, "%s", text);
    if (n < size) to[n++] = '\'';
    for (; *text && n + 6 < size; text++) {
        if (*text == '\'') {
            memcpy(to + n, "'\\''", 4);
            n += 4;
        } else {
            to[n++] = *text;
        }
    }
    if (n + 1 < size) to[n++] = '\'';
    to[n < size ? n : size - 1] = '\0';
    return n;
}

void show_command(char *text, size_t size, const char *subcommand, const store *s,
                  const char *name) {
    char url[SHOW_TEXT], lock[SHOW_TEXT];
    quote_word(url, sizeof url, s->shown);
    quote_word(lock, sizeof lock, name);
    snprintf(text, size, "holdfast %s -S %s %s%s", subcommand, url, *name == '-' ? "-- " : "",
             lock);
}

/* ---- For programs ---- */

static void print_text_member(const char *name, const char *text) {
    printf(",\"%s\":", name);
    json_write_string(stdout, text);
}

static void print_json_process(const char *program, int64_t pid, const char *host,
                               const char *label, const char *client, const char *owner) {
    printf("{\"pid\":%" PRId64, pid);
    print_text_member("program", program);
    print_text_member("host", host);
    print_text_member("label", label);
    print_text_member("client", client);
    print_text_member("owner", owner);
    printf("}");
}

/* For a waiter of which only the client id is known. */
static void print_json_client(const char *client, const char *owner) {
    printf("{\"client\":");
    json_write_string(stdout, client);
    print_text_member("owner", owner);
    printf("}");
}

static void print_json_waiters(const hf_info *info) {
    printf(",\"waiting\":%" PRIu32 ",\"waiters\":[", info->waiting);
    for (uint32_t i = 0; i < info->waiting && i < 64; i++) {
        const hf_waiter *w = &info->waiters[i];
        if (i) printf(",");
        if (!w->pid && !*w->program)
            print_json_client(w->client, w->owner);
        else
            print_json_process(w->program, w->pid, w->host, w->label, w->client, w->owner);
    }
    printf("]");
}

static void print_json_held(const hf_info *info) {
    printf(",\"kind\":\"%s\",\"holders\":%" PRIu32 ",\"count\":%" PRIu32, show_kind(info->kind),
           info->holders, info->count);
    if (info->kind == HF_PERMITS)
        printf(",\"used\":%" PRIu32 ",\"capacity\":%" PRIu32, info->used, info->capacity);
    printf(",\"token\":%" PRIu64 ",\"since_unix_ms\":%" PRId64 ",\"held_ms\":%" PRId64
           ",\"remaining_ms\":%" PRId64 ",\"holder\":",
           info->token, info->since_unix_ms, show_held_ms(info), info->remaining_ms);
    print_json_process(info->program, info->pid, info->host, info->label, info->client,
                       info->owner);
}

void show_json_lock(const char *name, const hf_info *info, const store *s) {
    printf("{\"name\":");
    json_write_string(stdout, name);
    if (!hf__is_utf8(name)) json_write_name_hex(stdout, name);
    printf(",\"held\":%s", info->held ? "true" : "false");
    if (info->held) print_json_held(info);
    print_json_waiters(info);
    print_text_member("store", s->shown);
    printf("}\n");
}

int show_end(int code) {
    if (fflush(stdout) == 0 && !ferror(stdout)) return code;
    return fail(EXIT_SYSTEM, "cannot write to standard output");
}
