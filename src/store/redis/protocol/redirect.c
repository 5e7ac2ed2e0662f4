#include "store/redis/protocol/redirect.h"

#include <stdlib.h>
#include <string.h>

#define WHERE_MAX 300

static bool begins(const char *error, const char *word) {
    size_t length = strlen(word);
    return !strncmp(error, word, length) && (error[length] == ' ' || !error[length]);
}

/* "MOVED 3999 host:port". Without memory, or said in a way that we do not know, it is asked again later. */
static void turn_to(hf__detour *detour, const char *error) {
    const char *slot = strchr(error, ' '), *where = slot ? strchr(slot + 1, ' ') : NULL;
    const char *colon = where ? strrchr(where, ':') : NULL;
    long port = colon ? strtol(colon + 1, NULL, 10) : 0;
    bool good = port > 0 && port <= 65535 && strlen(where + 1) < WHERE_MAX;
    detour->to = good ? strdup(where + 1) : NULL;
    if (!detour->to) detour->what = HF__DETOUR_AGAIN;
}

/* What a server says when it refuses a command of a script that has begun. Nothing was done then, either: a script with
   several keys does not begin in a slot that is being moved (see encode.c), and one with a single key is refused at its
   first command, because the key has expired since the script was let in. While the cluster is down all writes are refused,
   and so the first one. The words differ between versions, and before Redis 7 they stand behind the place in the script. */
static const struct {
    const char *text;
    hf__detour_what what;
} phrases[] = {{"to access a non local key", HF__DETOUR_AGAIN},
               {"keys were accessed during rehashing of the slot", HF__DETOUR_AGAIN},
               {"to access a slot not served", HF__DETOUR_DOWN},
               {"while the cluster is down", HF__DETOUR_DOWN}};

static hf__detour_what detour_of(const char *error) {
    static const struct {
        const char *word;
        hf__detour_what what;
    } words[] = {{"MOVED", HF__DETOUR_MOVED},
                 {"ASK", HF__DETOUR_ASK},
                 {"TRYAGAIN", HF__DETOUR_AGAIN},
                 {"CLUSTERDOWN", HF__DETOUR_DOWN}};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (begins(error, words[i].word)) return words[i].what;
    for (size_t i = 0; i < sizeof phrases / sizeof *phrases; i++)
        if (strstr(error, phrases[i].text)) return phrases[i].what;
    return HF__DETOUR_NONE;
}

bool hf__turned(const char *error, hf__detour *detour) {
    hf__detour_what what = detour_of(error);
    if (what == HF__DETOUR_NONE) return false;
    detour->what = what;
    free(detour->to);
    detour->to = NULL;
    if (what == HF__DETOUR_MOVED || what == HF__DETOUR_ASK) turn_to(detour, error);
    return true;
}
