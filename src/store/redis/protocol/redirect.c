/* SPDX-License-Identifier: Apache-2.0 */
#include "store/redis/protocol/redirect.h"

#include <stdlib.h>
#include <string.h>

#define WHERE_MAX 300

static bool has_code(const char *error, const char *word) {
    size_t length = strlen(word);
    return !strncmp(error, word, length) && (error[length] == ' ' || !error[length]);
}

/* "MOVED 3999 host:port". If memory is out or the form is unknown, the operation is tried again
   later. */
static void read_address(hf__redirect *redirect, const char *error) {
    const char *slot = strchr(error, ' '), *where = slot ? strchr(slot + 1, ' ') : NULL;
    const char *colon = where ? strrchr(where, ':') : NULL;
    long port = colon ? strtol(colon + 1, NULL, 10) : 0;
    bool good = port > 0 && port <= 65535 && strlen(where + 1) < WHERE_MAX;
    redirect->address = good ? strdup(where + 1) : NULL;
    if (!redirect->address) redirect->kind = HF__REDIRECT_TRY_AGAIN;
}

/* Error texts of a server that refuses a command of a running script. In these cases, too, nothing
   was done. A script with several keys does not start in a slot that is being moved (see encode.c).
   A script with a single key is refused at its first command, because the key has expired since the
   script was admitted. While the cluster is down all writes are refused, including the first one.
   The texts differ between versions, and before Redis 7 they follow the position in the script. */
static const struct {
    const char *text;
    hf__redirect_kind kind;
} phrases[] = {{"to access a non local key", HF__REDIRECT_TRY_AGAIN},
               {"keys were accessed during rehashing of the slot", HF__REDIRECT_TRY_AGAIN},
               {"to access a slot not served", HF__REDIRECT_DOWN},
               {"while the cluster is down", HF__REDIRECT_DOWN}};

static hf__redirect_kind redirect_kind_of(const char *error) {
    static const struct {
        const char *word;
        hf__redirect_kind kind;
    } words[] = {{"MOVED", HF__REDIRECT_MOVED},
                 {"ASK", HF__REDIRECT_ASK},
                 {"TRYAGAIN", HF__REDIRECT_TRY_AGAIN},
                 {"CLUSTERDOWN", HF__REDIRECT_DOWN}};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (has_code(error, words[i].word)) return words[i].kind;
    for (size_t i = 0; i < sizeof phrases / sizeof *phrases; i++)
        if (strstr(error, phrases[i].text)) return phrases[i].kind;
    return HF__REDIRECT_NONE;
}

bool hf__redirect_parse(const char *error, hf__redirect *redirect) {
    hf__redirect_kind kind = redirect_kind_of(error);
    if (kind == HF__REDIRECT_NONE) return false;
    redirect->kind = kind;
    free(redirect->address);
    redirect->address = NULL;
    if (kind == HF__REDIRECT_MOVED || kind == HF__REDIRECT_ASK) read_address(redirect, error);
    return true;
}
