/* SPDX-License-Identifier: Apache-2.0 */
/* Encodes lock names as file names, and decodes them. See filename.h. */
#include "store/file/filename.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static int is_plain(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           (c && strchr("-_:.@+=,", c));
}

/* Returns the end of the encoded text, or NULL if it does not fit. */
static char *encode_text(char *to, const char *end, const char *text, size_t length, int dots) {
    static const char hex[] = "0123456789ABCDEF";
    for (size_t i = 0; i < length; i++) {
        unsigned char c = (unsigned char)text[i];
        if (end - to < 4) return NULL;
        if (is_plain(text[i]) && (dots || c != '.')) {
            *to++ = text[i];
        } else {
            *to++ = '%';
            *to++ = hex[c >> 4];
            *to++ = hex[c & 15];
        }
    }
    return to;
}

/* FNV-1a. Locks whose names collide have different keys in the file, and the second one is
   refused. */
static uint64_t hash_text(uint64_t basis, const char *text, size_t length) {
    for (size_t i = 0; i < length; i++)
        basis = (basis ^ (unsigned char)text[i]) * UINT64_C(0x100000001b3);
    return basis;
}

void hf__filename(char out[HF__FILENAME_MAX + 1], const char *key, size_t length) {
    size_t prefix = strlen(key), start = sizeof HF__LOCK_START - 1;
    const char *end = out + HF__FILENAME_MAX;
    memcpy(out, HF__LOCK_START, start + 1);
    char *at = encode_text(out + start, end, key, prefix, 0); /* the first dot ends the prefix */
    if (at) *at++ = '.';
    if (at) at = encode_text(at, end, key + prefix + 1, length - prefix - 1, 1);
    if (at)
        *at = '\0';
    else
        (void)snprintf(out, HF__FILENAME_MAX + 1, HF__LOCK_START "%%%016" PRIx64 "%016" PRIx64,
                       hash_text(UINT64_C(0xcbf29ce484222325), key, length),
                       hash_text(UINT64_C(0x9e3779b97f4a7c15), key, length));
}

static int parse_hex_digit(char c) {
    const char *hex = "0123456789ABCDEF", *at = c ? strchr(hex, c) : NULL;
    return at ? (int)(at - hex) : -1;
}

/* Decode up to `stop` or the NUL. Returns where it stopped; NULL: the text was not encoded by
   encode_text. */
static const char *decode_text(char **to, const char *end, const char *text, char stop) {
    for (; *text && *text != stop; text++) {
        int c = (unsigned char)*text;
        if (c == '%') {
            int high = parse_hex_digit(text[1]), low = high < 0 ? -1 : parse_hex_digit(text[2]);
            if (low < 0) return NULL;
            c = high << 4 | low;
            text += 2;
        }
        if (!c || *to == end) return NULL;
        *(*to)++ = (char)c;
    }
    return text;
}

size_t hf__filename_key(char key[HF__KEY_MAX + 1], const char *name) {
    size_t start = sizeof HF__LOCK_START - 1;
    if (strncmp(name, HF__LOCK_START, start) != 0) return 0;
    char *to = key, *end = key + HF__KEY_MAX;
    const char *dot = decode_text(&to, end, name + start, '.');
    if (!dot || *dot != '.' || to == end) return 0;
    *to++ = '\0';
    if (!decode_text(&to, end, dot + 1, '\0')) return 0;
    *to = '\0';
    return (size_t)(to - key);
}
