/* SPDX-License-Identifier: Apache-2.0 */
#include "store/redis/protocol/list.h"

#include <stdlib.h>

#include "base/url.h"
#include "store/redis/protocol/command.h"

#define DIGEST      40                                           /* digits of a SHA-1 */
#define PATTERN_MAX (2 * (HF__PREFIX_MAX + 3 * HF_NAME_MAX + 4)) /* each byte may be escaped */

/* ---- Requests ---- */

typedef struct pattern {
    char text[PATTERN_MAX];
    size_t length;
} pattern;

static void add_byte(pattern *p, char c) {
    if (strchr("*?[]\\", c)) p->text[p->length++] = '\\';
    p->text[p->length++] = c;
}

/* Escapes a name as hf__command_key does. */
static void add_name(pattern *p, const char *name, size_t length) {
    for (size_t i = 0; i < length; i++) {
        const char *escape = hf__key_escape(name[i]);
        if (!escape) add_byte(p, name[i]);
        for (; escape && *escape; escape++) add_byte(p, *escape);
    }
}

void hf__list_encode(hf__buffer *out, const char *prefix, const hf__list_walk *l) {
    pattern p = {.length = 0};
    for (; *prefix; prefix++) add_byte(&p, *prefix);
    p.text[p.length++] = ':';
    p.text[p.length++] = '{';
    add_name(&p, l->prefix, l->prefix_length);
    p.text[p.length++] = '*';
    hf__command_text(out, "%" PRIu64, l->cursor);
    hf__command_bytes(out, p.text, p.length);
    hf__command_string(out, l->last);
}

/* ---- Answers ---- */

static bool read_cursor(const hf__reply *r, hf__list_walk *l) {
    const char *cursor = hf__reply_text(r, 2), *last = hf__reply_text(r, 3);
    if (!cursor || !last || (*last && strlen(last) != DIGEST)) return false;
    if (!*cursor || strspn(cursor, "0123456789") != r->item[2].length) return false;
    l->cursor = strtoull(cursor, NULL, 10);
    memcpy(l->last, last, strlen(last) + 1);
    l->finished = !l->cursor && !*last;
    return true;
}

/* The brace or percent sign that an escape stands for; 0: not an escape. */
static char unescape_char(const char *text) {
    static const char escaped[] = "{}%";
    for (const char *c = escaped; *c; c++)
        if (!strncmp(text, hf__key_escape(*c), 3)) return *c;
    return 0;
}

static bool decode_name(char name[HF_NAME_MAX + 1], const char *text, size_t length) {
    size_t n = 0;
    for (size_t i = 0; i < length; i++) {
        char c = text[i];
        if (c == '%') {
            c = i + 2 < length ? unescape_char(text + i) : 0;
            i += 2;
        }
        if (!c || n == HF_NAME_MAX) return false;
        name[n++] = c;
    }
    name[n] = '\0';
    return n > 0;
}

/* The name is between the braces. A key that cannot be parsed is not a lock and is skipped. */
static void read_key(hf__list_walk *l, const hf__value *key, const char *prefix) {
    size_t before = strlen(prefix) + 2, end = key->length;
    hf__list_item *to = &l->names[l->count];
    to->from_queue = end > 2 && !strcmp(key->text + end - 2, ":q");
    if (to->from_queue) end -= 2;
    if (end <= before || key->text[end - 1] != '}') return;
    if (decode_name(to->name, key->text + before, end - 1 - before)) l->count++;
}

bool hf__list_answer(const hf__reply *r, const char *prefix, hf__list_walk *l) {
    const size_t first = 4;
    l->count = 0;
    if (!read_cursor(r, l) || r->count - first > HF__LIST_BATCH) return false;
    for (size_t i = first; i < r->count; i++) {
        if (!hf__reply_text(r, i)) return false;
        read_key(l, &r->item[i], prefix);
    }
    return true;
}
