#include "handle.h"

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

#include "exits.h"
#include "holdfast.h"
#include "say.h"

#define FIRST_LINE "holdfast handle 1"
#define FILE_MAX   (HF_EXPORT_MAX + 3 * HF_NAME_MAX + 8192) /* a URL has up to 4096 bytes */

int64_t handle_now_ms(void) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* ---- Processes ---- */

/* The 22nd field; the second is a name in parentheses, which may hold anything. */
uint64_t handle_began(pid_t pid) {
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

int handle_helper(const handle *h) {
    int fd = h->helper > 0 ? (int)syscall(SYS_pidfd_open, h->helper, 0) : -1;
    if (fd < 0) return -1;
    struct pollfd ended = {.fd = fd, .events = POLLIN}; /* also if nobody has waited for it yet */
    if (handle_began(h->helper) == h->helper_began && poll(&ended, 1, 0) == 0) return fd;
    close(fd);
    return -1;
}

/* ---- Writing ---- */

/* A name on a line: bytes that are not plain as %0A. */
static void print_name(FILE *to, const char *name) {
    for (const unsigned char *c = (const unsigned char *)name; *c; c++)
        fprintf(to, *c <= ' ' || *c >= 127 || *c == '%' ? "%%%02X" : "%c", *c);
}

bool handle_write(int fd, const handle *h) {
    FILE *to = fdopen(fd, "w");
    if (!to) {
        close(fd);
        return false;
    }
    fprintf(to, FIRST_LINE "\nname ");
    print_name(to, h->name);
    fprintf(to, "\nstore %s\ntoken %" PRIu64 "\n", h->store, h->token);
    if (h->exported)
        fprintf(to, "exported %s\nlease %" PRId64 "\nuntil %" PRId64 "\n", h->exported, h->lease_ms,
                h->until_unix_ms);
    else
        fprintf(to, "helper %d %" PRIu64 "\n", (int)h->helper, h->helper_began);
    bool good = fflush(to) == 0 && fsync(fd) == 0;
    return fclose(to) == 0 && good;
}

int handle_mark_open(const char *path) {
    return open(path, O_WRONLY | O_APPEND | O_CLOEXEC);
}

void handle_mark(int fd, const char *word) {
    char line[32];
    int length = snprintf(line, sizeof line, "%s 1\n", word);
    while (write(fd, line, (size_t)length) < 0 && errno == EINTR) continue;
}

bool handle_replace(const char *path, const handle *h) {
    char *beside;
    if (asprintf(&beside, "%s.%d", path, (int)getpid()) < 0) return false;
    int fd = open(beside, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    bool good = fd >= 0 && handle_write(fd, h) && rename(beside, path) == 0;
    if (fd >= 0 && !good) unlink(beside);
    free(beside);
    return good;
}

/* ---- Reading ---- */

static int bad_handle(const char *path) {
    return fail(EXIT_USAGE, "%s is no handle that holdfast acquire has written", path);
}

static int hex_digit(char c) {
    const char *hex = "0123456789ABCDEF", *at = c ? strchr(hex, c) : NULL;
    return at ? (int)(at - hex) : -1;
}

static char *decode(const char *text) {
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

static void read_line(handle *h, const char *word, const char *value) {
    if (!strcmp(word, "name") && !h->name) h->name = decode(value);
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
        h->helper_began = strtoull(end, NULL, 10);
    }
}

static bool parse(handle *h, char *text) {
    char *rest = text, *line = strsep(&rest, "\n");
    if (strcmp(line, FIRST_LINE) != 0) return false;
    while (rest && (line = strsep(&rest, "\n"))) {
        char *space = strchr(line, ' ');
        if (!space) continue;
        *space = '\0';
        read_line(h, line, space + 1);
    }
    return h->name && *h->name && h->store && h->token && (h->exported || h->helper > 0);
}

/* Others could make us end a process of ours. */
static int check_file(int fd, const char *path) {
    struct stat st;
    if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_uid == geteuid() &&
        !(st.st_mode & 022) && st.st_size < FILE_MAX)
        return 0;
    return fail(EXIT_USAGE, "%s is not a small file that is yours alone to write", path);
}

int handle_read(const char *path, handle *h) {
    char text[FILE_MAX];
    *h = (handle){0};
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0) return fail(EXIT_USAGE, "cannot open the handle %s: %s", path, strerror(errno));
    int code = check_file(fd, path);
    ssize_t n = code ? 0 : read(fd, text, sizeof text - 1);
    close(fd);
    if (code) return code;
    text[n < 0 ? 0 : n] = '\0';
    return parse(h, text) ? 0 : bad_handle(path);
}

void handle_fini(handle *h) {
    free(h->name);
    free(h->store);
    free(h->exported);
    *h = (handle){0};
}

/* ---- Making ---- */

/* One that cannot be read is somebody's file. */
static bool is_over(const char *path) {
    handle h;
    loudness level = say_get();
    say_set(QUIET);
    bool over = handle_read(path, &h) == 0;
    say_set(level);
    int fd = over && !h.exported ? handle_helper(&h) : -1;
    if (over) over = h.exported ? h.until_unix_ms < handle_now_ms() : fd < 0;
    if (fd >= 0) close(fd);
    handle_fini(&h);
    return over;
}

int handle_create(const char *path, int *fd) {
    for (int i = 0; i < 2; i++) {
        *fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
        if (*fd >= 0) return 0;
        if (errno != EEXIST || !is_over(path) || unlink(path) != 0) break;
    }
    if (errno == EEXIST)
        return fail(EXIT_USAGE,
                    "%s is there already; if it is the handle of a lock, release that first: "
                    "holdfast release %s",
                    path, path);
    return fail(EXIT_USAGE, "cannot make the handle %s: %s", path, strerror(errno));
}
