#include "metrics.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "say.h"

static bool write_all(int fd, const char *text, size_t left) {
    while (left) {
        ssize_t n = write(fd, text, left);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return false;
        text += n;
        left -= (size_t)n;
    }
    return true;
}

static bool write_file(const char *path, const char *text) {
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0666);
    if (fd < 0) return false;
    bool good = write_all(fd, text, strlen(text));
    return close(fd) == 0 && good;
}

/* Beside it first, under a name that is ours alone: who reads the file never finds half of it. */
static bool replace(const char *path, const char *text) {
    char *beside;
    if (asprintf(&beside, "%s.%d", path, (int)getpid()) < 0) return false;
    bool good = write_file(beside, text) && rename(beside, path) == 0;
    int error = errno;
    if (!good) unlink(beside);
    free(beside);
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
