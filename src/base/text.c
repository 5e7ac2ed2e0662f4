/* SPDX-License-Identifier: Apache-2.0 */
/* Copying text, and making foreign text safe to show: see text.h. */
#include "base/text.h"

#include <string.h>

void hf__text_copy(char *to, size_t size, const char *from) {
    size_t length = from ? strnlen(from, size - 1) : 0;
    if (length) memcpy(to, from, length);
    to[length] = '\0';
}

size_t hf__utf8(const char *text, size_t length, uint32_t *code) {
    static const struct {
        unsigned char mask, lead;
        uint32_t least; /* smaller codes have a shorter encoding */
    } shapes[] = {{0x80, 0x00, 0}, {0xe0, 0xc0, 0x80}, {0xf0, 0xe0, 0x800}, {0xf8, 0xf0, 0x10000}};
    const unsigned char *at = (const unsigned char *)text;
    for (size_t i = 0; i < 4 && i < length; i++) {
        if ((at[0] & shapes[i].mask) != shapes[i].lead) continue;
        uint32_t c = at[0] & (unsigned char)~shapes[i].mask;
        for (size_t j = 1; j <= i; j++) {
            if ((at[j] & 0xc0) != 0x80) return 0;
            c = c << 6 | (at[j] & 0x3f);
        }
        bool surrogate = c >= 0xd800 && c <= 0xdfff;
        *code = c;
        return c >= shapes[i].least && c <= 0x10ffff && !surrogate ? i + 1 : 0;
    }
    return 0;
}

bool hf__is_utf8(const char *text) {
    uint32_t code;
    size_t left = strlen(text), n = 1;
    for (; left && n; left -= n, text += n) n = hf__utf8(text, left, &code);
    return n > 0;
}

bool hf__is_control(uint32_t code) {
    return code < 0x20 || (code >= 0x7f && code <= 0x9f) || (code >= 0x2028 && code <= 0x202e) ||
           (code >= 0x2066 && code <= 0x2069);
}

/* The output is never ahead of the input, so `to` may be `from`. */
void hf__text_sanitize(char *to, size_t size, const char *from, size_t length) {
    size_t used = 0;
    uint32_t code = 0;
    for (size_t i = 0, n; i < length; i += n) {
        n = hf__utf8(from + i, length - i, &code);
        bool plain = n && !hf__is_control(code);
        if (used + (plain ? n : 1) > size - 1) break;
        if (plain)
            memmove(to + used, from + i, n);
        else
            to[used] = n ? ' ' : '?';
        used += plain ? n : 1;
        if (!n) n = 1;
    }
    to[used] = '\0';
}
