/* SPDX-License-Identifier: Apache-2.0 */
#include "run/metrics_file.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "common/message.h"
#include "common/safe_file.h"

static bool replace_file(const char *path, const char *text) {
    safe_file p;
    bool good = safe_file_open(&p, path) && safe_file_replace(&p, 0666, text, strlen(text), false);
    int error = errno;
    safe_file_close(&p);
    errno = error;
    return good;
}

void metrics_file_write(hf_client *client, const char *path) {
    char *text = path ? malloc(HF_METRICS_MAX) : NULL;
    if (!path) return;
    errno = ENOMEM;
    if (!text || hf_metrics_text(client, text, HF_METRICS_MAX) != HF_OK ||
        !replace_file(path, text))
        print_message("cannot write --metrics %s: %s", path, strerror(errno));
    free(text);
}
