/* SPDX-License-Identifier: Apache-2.0 */
#include "store/net/password.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"

/* Reads the first line of the file. O_NONBLOCK: a FIFO or device must not make us wait. */
static hf_result read_file(const char *path, char **password, char **detail) {
    char text[HF__PASSWORD_MAX + 2];
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
    int error = errno;
    if (fd >= 0) close(fd);
    if (n < 0) {
        *detail = hf__line("cannot read password_file %s: %s", path, strerror(error));
        return HF_INVALID;
    }
    text[n] = '\0';
    size_t length = strcspn(text, "\r\n");
    text[length] = '\0';
    if (length && length <= HF__PASSWORD_MAX) *password = strdup(text);
    explicit_bzero(text, sizeof text);
    if (*password) return HF_OK;
    if (length && length <= HF__PASSWORD_MAX) return HF_NOMEM;
    *detail = hf__line("the first line of password_file %s must have 1 to %d bytes", path,
                       HF__PASSWORD_MAX);
    return HF_INVALID;
}

hf_result hf__password_get(const hf__url *url, char **password, char **detail) {
    *password = *detail = NULL;
    if (url->password_file) return read_file(url->password_file, password, detail);
    if (!url->password) return HF_OK;
    *password = strdup(url->password);
    return *password ? HF_OK : HF_NOMEM;
}

void hf__password_free(char *password) {
    if (password) explicit_bzero(password, strlen(password));
    free(password);
}
