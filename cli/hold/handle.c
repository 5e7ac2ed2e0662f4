/* SPDX-License-Identifier: Apache-2.0 */
#include "hold/handle.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/url.h"
#include "common/exit_codes.h"
#include "common/message.h"
#include "holdfast.h"

#define FIRST_LINE "holdfast handle 1"
#define FILE_MAX   (HF_EXPORT_MAX + 3 * HF_NAME_MAX + 8192) /* a URL has at most 4096 bytes */

int64_t handle_now_ms(void) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* ---- Processes ---- */

/* Field 22 of /proc/PID/stat. Field 2 is a name in parentheses that may contain anything. */
uint64_t handle_process_start(pid_t pid) {
    char path[64], text[1024];
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? 0 : read(fd, text, sizeof text - 1);
    if (fd >= 0) close(fd);
    if (n <= 0) return 0;
    text[n] = '\0';
    const char *at = strrchr(text, ')');
    for (int field = 2; at && field < 22; field++) at = strchr(at + 1, ' ');
    return at ? strtoull(at, NULL, 10) : 0;
}

int handle_open_helper(const handle *h) {
    int fd = h->helper > 0 ? (int)syscall(SYS_pidfd_open, h->helper, 0) : -1;
    if (fd < 0) return -1;
    struct pollfd ended = {.fd = fd,
                           .events = POLLIN}; /* readable once it has ended, even if not reaped */
    if (handle_process_start(h->helper) == h->helper_started && poll(&ended, 1, 0) == 0) return fd;
    close(fd);
    return -1;
}

/* ---- Writing ---- */

/* Writes a name on one line: special bytes are percent-encoded, such as %0A. */
static void print_name(FILE *to, const char *name) {
    for (const unsigned char *c = (const unsigned char *)name; *c; c++)
        fprintf(to, *c <= ' ' || *c >= 127 || *c == '%' ? "%%%02X" : "%c", *c);
}

/* Returns the content of the file, which the caller frees, or NULL with errno. The URL may come
   from a handle of an older version that contains a secret, so only its public part is written. */
static char *compose_handle(const handle *h, size_t *length) {
    char *text = NULL, *store = hf__url_shown(h->store);
    FILE *to = store ? open_memstream(&text, length) : NULL;
    if (to) {
        fprintf(to, FIRST_LINE "\nname ");
        print_name(to, h->name);
        fprintf(to, "\nstore %s\ntoken %" PRIu64 "\n", store, h->token);
        if (h->exported)
            fprintf(to, "exported %s\nlease %" PRId64 "\nuntil %" PRId64 "\n", h->exported,
                    h->lease_ms, h->until_unix_ms);
        else
            fprintf(to, "helper %d %" PRIu64 "\n", (int)h->helper, h->helper_started);
    }
    free(store);
    if (to && fclose(to) == 0) return text;
    free(text);
    errno = ENOMEM;
    return NULL;
}

int handle_write(const char *path, const handle_file *f, const handle *h) {
    size_t length = 0;
    char *text = compose_handle(h, &length);
    bool good = text && write_all(f->fd, text, length) && fsync(f->fd) == 0;
    const char *why = good ? "the file was replaced by another" : strerror(errno);
    free(text);
    if (good && safe_file_is_current(&f->location, f->fd)) return 0;
    return fail(EXIT_SYSTEM, "cannot write the handle %s: %s", path, why);
}

void handle_append_result(const handle_file *f, const char *word) {
    char line[32];
    int length = snprintf(line, sizeof line, "%s 1\n", word);
    (void)write_all(f->fd, line, (size_t)length);
}

bool handle_replace(const handle *h) {
    size_t length = 0;
    char *text = compose_handle(h, &length);
    bool good = text && safe_file_replace(&h->file.location, 0600, text, length, true);
    int error = errno;
    free(text);
    errno = error;
    return good;
}

void handle_close(handle_file *f) {
    if (f->fd) close(f->fd);
    f->fd = 0;
    safe_file_close(&f->location);
}

void handle_remove(handle_file *f) {
    if (f->fd) safe_file_remove(&f->location, f->fd);
    handle_close(f);
}

/* ---- Reading ---- */

static int fail_bad_handle(const char *path) {
    return fail(EXIT_USAGE, "%s is not a handle made by holdfast acquire", path);
}

static int hex_digit(char c) {
    const char *hex = "0123456789ABCDEF", *at = c ? strchr(hex, c) : NULL;
    return at ? (int)(at - hex) : -1;
}

static char *decode_name(const char *text) {
    char *name = strdup(text), *to = name;
    for (; name && *text; text++) {
        int high = *text == '%' ? hex_digit(text[1]) : -1;
        int low = high < 0 ? -1 : hex_digit(text[2]);
        int c = low < 0 ? (unsigned char)*text : high << 4 | low;
        *to++ = (char)c;
        if (low >= 0) text += 2;
    }
    if (name) *to = '\0';
    return name;
}

static void read_handle_line(handle *h, const char *word, const char *value) {
    if (!strcmp(word, "name") && !h->name) h->name = decode_name(value);
    if (!strcmp(word, "store") && !h->store) h->store = strdup(value);
    if (!strcmp(word, "token")) h->token = strtoull(value, NULL, 10);
    if (!strcmp(word, "exported") && !h->exported) h->exported = strdup(value);
    if (!strcmp(word, "lease")) h->lease_ms = strtoll(value, NULL, 10);
    if (!strcmp(word, "until")) h->until_unix_ms = strtoll(value, NULL, 10);
    if (!strcmp(word, "over")) h->over = true;
    if (!strcmp(word, "unknown")) h->unknown = true;
    if (!strcmp(word, "helper")) {
        char *end;
        h->helper = (pid_t)strtol(value, &end, 10);
        h->helper_started = strtoull(end, NULL, 10);
    }
}

static bool parse_handle(handle *h, char *text) {
    char *rest = text, *line = strsep(&rest, "\n");
    if (strcmp(line, FIRST_LINE) != 0) return false;
    while (rest && (line = strsep(&rest, "\n"))) {
        char *space = strchr(line, ' ');
        if (!space) continue;
        *space = '\0';
        read_handle_line(h, line, space + 1);
    }
    return h->name && *h->name && h->store && h->token && (h->exported || h->helper > 0);
}

/* With a forged handle, another user could make us end one of our own processes. */
static int check_handle_file(int fd, const char *path) {
    struct stat st;
    if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_uid == geteuid() &&
        !(st.st_mode & 022) && st.st_size < FILE_MAX)
        return 0;
    return fail(EXIT_USAGE, "%s is not a handle: it must be a small file that only you can write",
                path);
}

static int read_handle_file(int fd, const char *path, handle *h) {
    char text[FILE_MAX];
    int code = check_handle_file(fd, path);
    ssize_t n = code ? 0 : pread(fd, text, sizeof text - 1, 0);
    if (code) return code;
    text[n < 0 ? 0 : n] = '\0';
    return parse_handle(h, text) ? 0 : fail_bad_handle(path);
}

int handle_read(const char *path, handle *h) {
    *h = (handle){0};
    int fd =
        safe_file_open(&h->file.location, path) ? safe_file_open_existing(&h->file.location) : -1;
    if (fd < 0)
        return fail(EXIT_USAGE, "cannot open the handle %s: %s", LONG_WORD(path),
                    errno == ELOOP ? "it is a symbolic link" : strerror(errno));
    h->file.fd = fd;
    return read_handle_file(fd, path, h);
}

int handle_read_again(const char *path, const handle *h, handle *again) {
    *again = (handle){0};
    return read_handle_file(h->file.fd, path, again);
}

void handle_fini(handle *h) {
    handle_close(&h->file);
    free(h->name);
    free(h->store);
    free(h->exported);
    *h = (handle){0};
}

/* ---- Creating ---- */

/* A file that is not a valid handle may be important, so it is not removed. */
static bool remove_ended_handle(const char *path) {
    handle h;
    verbosity level = get_verbosity();
    set_verbosity(QUIET);
    bool over = handle_read(path, &h) == 0;
    set_verbosity(level);
    int fd = over && !h.exported ? handle_open_helper(&h) : -1;
    if (over) over = h.exported ? h.until_unix_ms < handle_now_ms() : fd < 0;
    if (fd >= 0) close(fd);
    if (over) handle_remove(&h.file);
    handle_fini(&h);
    return over;
}

int handle_create(const char *path, handle_file *f) {
    *f = (handle_file){0};
    int fd = -1;
    if (safe_file_open(&f->location, path)) {
        fd = safe_file_create(&f->location, 0600);
        if (fd < 0 && errno == EEXIST) {
            bool over = remove_ended_handle(path);
            fd = over ? safe_file_create(&f->location, 0600) : -1;
            if (!over) errno = EEXIST;
        }
    }
    f->fd = fd < 0 ? 0 : fd;
    if (fd >= 0) return 0;
    if (errno == EEXIST)
        return fail(EXIT_USAGE,
                    "%s already exists; if it is the handle of a lock, release the lock first: "
                    "holdfast release %s",
                    path, path);
    return fail(EXIT_USAGE, "cannot create the handle %s: %s", path, strerror(errno));
}
