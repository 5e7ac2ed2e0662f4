/* SPDX-License-Identifier: Apache-2.0 */
/* CRC16 of keys and names. See slot.h. */
#include "store/cluster/slot.h"

#include <stdint.h>
#include <string.h>

#include "store/redis/protocol/cluster_slots.h"
#include "store/redis/protocol/command.h"

/* CRC-16/XMODEM, four bits at a time. */
static const uint16_t table[16] = {0x0000, 0x1021, 0x2042, 0x3063, 0x4084, 0x50a5, 0x60c6, 0x70e7,
                                   0x8108, 0x9129, 0xa14a, 0xb16b, 0xc18c, 0xd1ad, 0xe1ce, 0xf1ef};

static uint16_t add_byte(uint16_t crc, unsigned char byte) {
    crc = (uint16_t)(crc << 4) ^ table[(crc >> 12) ^ (byte >> 4)];
    return (uint16_t)(crc << 4) ^ table[(crc >> 12) ^ (byte & 15)];
}

static uint16_t add_bytes(uint16_t crc, const char *bytes, size_t length) {
    for (size_t i = 0; i < length; i++) crc = add_byte(crc, (unsigned char)bytes[i]);
    return crc;
}

unsigned hf__slot_of_key(const char *key, size_t length) {
    const char *open = memchr(key, '{', length);
    const char *from = open ? open + 1 : key;
    const char *close = open ? memchr(from, '}', length - (size_t)(from - key)) : NULL;
    if (!close || close == from) return add_bytes(0, key, length) % HF__SLOT_COUNT;
    return add_bytes(0, from, (size_t)(close - from)) % HF__SLOT_COUNT;
}

/* The hash of the name as it appears in a key. The braces of the name are escaped there, so the
   part between the key's own braces is the whole name, and is never empty. */
unsigned hf__slot_of_name(const char *name, size_t length) {
    uint16_t crc = 0;
    for (size_t i = 0; i < length; i++) {
        const char *escape = hf__key_escape(name[i]);
        crc = escape ? add_bytes(crc, escape, strlen(escape)) : add_bytes(crc, name + i, 1);
    }
    return crc % HF__SLOT_COUNT;
}
