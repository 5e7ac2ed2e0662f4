#include "store/redis/detour.h"

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

bool hf__turned(const char *error, hf__detour *detour) {
    static const struct {
        const char *word;
        hf__detour_what what;
    } words[] = {{"MOVED", HF__DETOUR_MOVED},
                 {"ASK", HF__DETOUR_ASK},
                 {"TRYAGAIN", HF__DETOUR_AGAIN},
                 {"CLUSTERDOWN", HF__DETOUR_DOWN}};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        if (!begins(error, words[i].word)) continue;
        detour->what = words[i].what;
        free(detour->to);
        detour->to = NULL;
        if (detour->what == HF__DETOUR_MOVED || detour->what == HF__DETOUR_ASK)
            turn_to(detour, error);
        return true;
    }
    return false;
}
