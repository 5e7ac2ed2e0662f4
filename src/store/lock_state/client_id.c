/* SPDX-License-Identifier: Apache-2.0 */
/* The text of a client's id. See client_id.h. */
#include "store/lock_state/client_id.h"

#define DIGITS 32 /* of a UUID */

static bool is_dash(unsigned at) {
    return at == 8 || at == 13 || at == 18 || at == 23;
}

/* -1: not a digit. */
static int value_of(char digit) {
    if (digit >= '0' && digit <= '9') return digit - '0';
    if (digit >= 'a' && digit <= 'f') return digit - 'a' + 10;
    if (digit >= 'A' && digit <= 'F') return digit - 'A' + 10;
    return -1;
}

hf__client_id hf__client_id_of_uuid(const char *uuid) {
    hf__client_id id = {0}, none = {0};
    for (unsigned at = 0; at < HF__UUID_LENGTH; at++) {
        int value = value_of(uuid[at]);
        if (is_dash(at) ? uuid[at] != '-' : value < 0) return none;
        if (is_dash(at)) continue;
        id.high = id.high << 4 | id.low >> 60;
        id.low = id.low << 4 | (uint64_t)value;
    }
    return uuid[HF__UUID_LENGTH] ? none : id;
}

void hf__client_id_to_uuid(hf__client_id id, char out[HF__UUID_LENGTH + 1]) {
    unsigned left = DIGITS;
    for (unsigned at = 0; at < HF__UUID_LENGTH; at++) {
        if (is_dash(at)) {
            out[at] = '-';
            continue;
        }
        left--;
        uint64_t half = left >= DIGITS / 2 ? id.high : id.low;
        out[at] = "0123456789abcdef"[half >> left % (DIGITS / 2) * 4 & 15];
    }
    out[HF__UUID_LENGTH] = '\0';
}
