/* SPDX-License-Identifier: Apache-2.0 */
#include "common/config.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/exit_codes.h"
#include "common/message.h"

#define FILE_MAX 65536
#define BLANKS   " \t\r\f\v"

typedef struct config_reader {
    const char *path;
    int line;
    char **url, **from;
} config_reader;

/* ---- The file ---- */

/* Anyone who can write the file decides where the locks are kept. */
static int check_owner(const char *path, const struct stat *st) {
    if (!S_ISREG(st->st_mode))
        return fail(EXIT_USAGE, "%s is %s; it must be a regular file with the line: store = URL",
                    path, S_ISDIR(st->st_mode) ? "a directory" : "not a regular file");
    if (st->st_uid != getuid() && st->st_uid != 0)
        return fail(EXIT_USAGE, "%s belongs to another user; its owner must be you or root", path);
    if (st->st_mode & (S_IWGRP | S_IWOTH))
        return fail(EXIT_USAGE,
                    "%s can be written by users other than its owner; run: chmod go-w %s", path,
                    path);
    return 0;
}

static int fail_unreadable(const char *path) {
    return fail(EXIT_USAGE, "cannot read %s: %s; fix this, or choose the store with -S", path,
                strerror(errno));
}

/* Reads up to FILE_MAX bytes. Returns the length, or -1 with errno. */
static ssize_t read_whole_file(int fd, char *text) {
    size_t length = 0;
    while (length < FILE_MAX) {
        ssize_t n = read(fd, text + length, FILE_MAX - length);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return -1;
        if (n == 0) break;
        length += (size_t)n;
    }
    return (ssize_t)length;
}

/* ---- Lines ---- */

static int fail_bad_line(const config_reader *r, const char *what) {
    return fail(EXIT_USAGE, "%s:%d: %s", r->path, r->line, what);
}

static char *trim_blanks(char *text) {
    text += strspn(text, BLANKS);
    size_t length = strlen(text);
    while (length && strchr(BLANKS, text[length - 1])) length--;
    text[length] = '\0';
    return text;
}

static void cut_comment(char *text) {
    for (char *hash = text; (hash = strchr(hash, '#')); hash++) {
        if (hash != text && !strchr(BLANKS, hash[-1])) continue;
        *hash = '\0';
        return;
    }
}

static int set_config_url(config_reader *r, const char *url) {
    if (!*url) return fail_bad_line(r, "a URL is missing after 'store ='");
    if (url[strcspn(url, BLANKS)])
        return fail_bad_line(r, "the URL contains a space; write it as %20");
    if (*r->url) return fail_bad_line(r, "the file has more than one store; keep one");
    *r->url = strdup(url);
    if (*r->url && asprintf(r->from, "%s:%d", r->path, r->line) >= 0) return 0;
    *r->from = NULL;
    return fail(EXIT_SYSTEM, "out of memory");
}

static int read_config_line(config_reader *r, char *text) {
    cut_comment(text);
    text = trim_blanks(text);
    if (!*text) return 0;
    char *equals = strchr(text, '=');
    if (!equals) return fail_bad_line(r, "invalid line; the only setting is: store = URL");
    *equals = '\0';
    if (strcmp(trim_blanks(text), "store") != 0)
        return fail_bad_line(r, "unknown setting; the only setting is: store = URL");
    return set_config_url(r, trim_blanks(equals + 1));
}

static int read_config_lines(config_reader *r, char *text, size_t length) {
    if (memchr(text, '\0', length)) return fail(EXIT_USAGE, "%s is not a text file", r->path);
    int code = 0;
    for (char *next = text; next && !code; r->line++) {
        char *line = next;
        next = strchr(line, '\n');
        if (next) *next++ = '\0';
        code = read_config_line(r, line);
    }
    return code;
}

static int read_config_file(config_reader *r, int fd) {
    struct stat st;
    if (fstat(fd, &st) != 0) return fail_unreadable(r->path);
    int code = check_owner(r->path, &st);
    if (code) return code;
    if (st.st_size >= FILE_MAX)
        return fail(EXIT_USAGE, "%s is too large; the maximum is %d bytes", r->path, FILE_MAX - 1);
    char *text = malloc(FILE_MAX + 1);
    if (!text) return fail(EXIT_SYSTEM, "out of memory");
    ssize_t length = read_whole_file(fd, text);
    if (length < 0) {
        code = fail_unreadable(r->path);
    } else {
        text[length] = '\0';
        code = read_config_lines(r, text, (size_t)length);
        explicit_bzero(text, (size_t)length);
    }
    free(text);
    return code;
}

int config_read(const char *path, char **url, char **from) {
    /* O_NONBLOCK, because a FIFO with this name would block forever. */
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0 && (errno == ENOENT || errno == ENOTDIR)) return 0;
    if (fd < 0) return fail_unreadable(path);
    config_reader r = {.path = path, .line = 1, .url = url, .from = from};
    int code = read_config_file(&r, fd);
    close(fd);
    return code;
}
