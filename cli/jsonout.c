#include "jsonout.h"

#include <stdbool.h>
#include <stdint.h>

/* The length of the UTF-8 character at `at`, 1 to 4; 0: it is none. */
static int utf8_length(const unsigned char *at) {
    static const struct {
        unsigned char mask, lead;
        uint32_t least;
    } shapes[] = {{0x80, 0x00, 0}, {0xe0, 0xc0, 0x80}, {0xf0, 0xe0, 0x800}, {0xf8, 0xf0, 0x10000}};
    for (int i = 0; i < 4; i++) {
        if ((at[0] & shapes[i].mask) != shapes[i].lead) continue;
        uint32_t code = at[0] & (unsigned char)~shapes[i].mask;
        for (int j = 1; j <= i; j++) {
            if ((at[j] & 0xc0) != 0x80) return 0;
            code = code << 6 | (at[j] & 0x3f);
        }
        bool good = code >= shapes[i].least && code <= 0x10ffff && (code & 0xfffff800) != 0xd800;
        return good ? i + 1 : 0;
    }
    return 0;
}

void jsonout_string(FILE *to, const char *text) {
    const unsigned char *at = (const unsigned char *)text;
    putc('"', to);
    while (*at) {
        int length = utf8_length(at);
        if (*at == '"' || *at == '\\')
            fprintf(to, "\\%c", *at);
        else if (*at < 0x20 || *at == 0x7f)
            fprintf(to, "\\u%04x", *at);
        else if (!length)
            fputs("\\ufffd", to);
        else
            fwrite(at, 1, (size_t)length, to);
        at += length ? length : 1;
    }
    putc('"', to);
}
