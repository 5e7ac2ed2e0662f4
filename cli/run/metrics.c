#include "run/metrics.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "common/place.h"
#include "common/say.h"

static bool replace(const char *path, const char *text) {
    place p;
    bool good = place_open(&p, path) && place_replace(&p, 0666, text, strlen(text), false);
    int error = errno;
    place_close(&p);
    errno = error;
    return good;
}

void metrics_write(hf_client *client, const char *path) {
    char *text = path ? malloc(HF_METRICS_MAX) : NULL;
    if (!path) return;
    errno = ENOMEM;
    if (!text || hf_metrics_text(client, text, HF_METRICS_MAX) != HF_OK || !replace(path, text))
        say("cannot write --metrics %s: %s", path, strerror(errno));
    free(text);
}
