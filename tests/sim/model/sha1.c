/* SPDX-License-Identifier: Apache-2.0 */
#include "model/sha1.h"

#include <stdio.h>

#define BLOCK 64

static uint32_t rotate_left(uint32_t x, unsigned by) {
    return x << by | x >> (32 - by);
}

static void mix_block(uint32_t h[5], const unsigned char *block) {
    static const uint32_t constants[] = {0x5A827999, 0x6ED9EBA1, 0x8F1BBCDC, 0xCA62C1D6};
    uint32_t w[80];
    for (int i = 0; i < 16; i++, block += 4)
        w[i] = (uint32_t)block[0] << 24 | (uint32_t)block[1] << 16 | (uint32_t)block[2] << 8 |
               block[3];
    for (int i = 16; i < 80; i++)
        w[i] = rotate_left(w[i - 3] ^ w[i - 8] ^ w[i - 14] ^ w[i - 16], 1);
    uint32_t a = h[0], b = h[1], c = h[2], d = h[3], e = h[4];
    for (int i = 0; i < 80; i++) {
        uint32_t f = i < 20   ? (b & c) | (~b & d)
                     : i < 40 ? b ^ c ^ d
                     : i < 60 ? (b & c) | (b & d) | (c & d)
                              : b ^ c ^ d;
        uint32_t next = rotate_left(a, 5) + f + e + constants[i / 20] + w[i];
        e = d;
        d = c;
        c = rotate_left(b, 30);
        b = a;
        a = next;
    }
    h[0] += a;
    h[1] += b;
    h[2] += c;
    h[3] += d;
    h[4] += e;
}

/* Pads the rest of the text: a one bit, zeros, and the length in bits. That takes one or two
   blocks. */
static void finish_hash(uint32_t h[5], rm_bytes rest, size_t length) {
    unsigned char last[2 * BLOCK] = {0};
    if (rest.length) memcpy(last, rest.at, rest.length);
    last[rest.length] = 0x80;
    size_t end = rest.length + 9 <= BLOCK ? BLOCK : 2 * BLOCK;
    uint64_t bits = (uint64_t)length * 8;
    for (int i = 1; i <= 8; i++, bits >>= 8) last[end - (size_t)i] = (unsigned char)bits;
    for (size_t at = 0; at < end; at += BLOCK) mix_block(h, last + at);
}

void rm_sha1(char out[RM_SHA1_LENGTH + 1], rm_bytes text) {
    uint32_t h[5] = {0x67452301, 0xEFCDAB89, 0x98BADCFE, 0x10325476, 0xC3D2E1F0};
    size_t at = 0;
    for (; text.length - at >= BLOCK; at += BLOCK)
        mix_block(h, (const unsigned char *)text.at + at);
    finish_hash(h, (rm_bytes){text.at + at, text.length - at}, text.length);
    for (int i = 0; i < 5; i++) snprintf(out + 8 * (ptrdiff_t)i, 9, "%08x", h[i]);
}
