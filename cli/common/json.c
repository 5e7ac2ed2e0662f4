/* SPDX-License-Identifier: Apache-2.0 */
#include "common/json.h"

#include <stdint.h>
#include <string.h>

#include "base/text.h"

static void write_character(FILE *to, const char *at, size_t length, uint32_t code) {
    if (code == '"' || code == '\\')
        fprintf(to, "\\%c", (char)code);
    else if (hf__is_control(code))
        fprintf(to, "\\u%04x", (unsigned)code); /* no control character is above U+FFFF */
    else
        fwrite(at, 1, length, to);
}

void json_write_string(FILE *to, const char *text) {
    size_t left = strlen(text);
    uint32_t code = 0;
    putc('"', to);
    while (left) {
        size_t length = hf__utf8(text, left, &code);
        if (length)
            write_character(to, text, length, code);
        else
            fputs("\\ufffd", to);
        if (!length) length = 1;
        text += length;
        left -= length;
    }
    putc('"', to);
}

void json_write_name_hex(FILE *to, const char *name) {
    fputs(",\"name_hex\":\"", to);
    for (; *name; name++) fprintf(to, "%02x", (unsigned char)*name);
    putc('"', to);
}
