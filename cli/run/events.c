#include "run/events.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/text.h"
#include "common/jsonout.h"
#include "common/say.h"

/* A line is written in one piece, and does not block where there is room for it. */
#define LINE_BYTES  PIPE_BUF
#define PATIENCE_MS 200

/* The most of a text that is written, in bytes of JSON, so that a line always fits. A name that
   does not fit, or is not UTF-8, is cut to TEXT_BYTES, because name_hex has all of it. */
#define NAME_BYTES 2400
#define TEXT_BYTES 300

bool events_take(int fd) {
    int flags = fcntl(fd, F_GETFL);
    if (flags < 0 || (flags & O_ACCMODE) == O_RDONLY) return false;
    return fd <= STDERR_FILENO || fcntl(fd, F_SETFD, FD_CLOEXEC) == 0;
}

/* ---- A line ---- */

typedef struct line {
    char text[LINE_BYTES];
    FILE *to;
} line;

/* How many bytes of the text fit into `most` bytes of JSON, without cutting a character. */
static size_t fitting(const char *text, size_t most) {
    size_t at = 0, used = 0, left = strlen(text);
    uint32_t code = 0;
    while (at < left) {
        size_t n = hf__utf8(text + at, left - at, &code);
        used += !n || hf__is_control(code) ? 6 : code == '"' || code == '\\' ? 2 : n;
        if (used > most) break;
        at += n ? n : 1;
    }
    return at;
}

static void string(FILE *to, const char *text, size_t most) {
    char cut[NAME_BYTES + 1];
    hf__text_copy(cut, fitting(text, most) + 1, text);
    jsonout_string(to, cut);
}

static void write_name(FILE *to, const char *name) {
    bool whole = hf__is_utf8(name) && !name[fitting(name, NAME_BYTES)];
    fputs(",\"name\":", to);
    string(to, name, whole ? NAME_BYTES : TEXT_BYTES);
    if (!whole) jsonout_hex(to, name);
}

static void member(line *l, const char *key, const char *text) {
    fprintf(l->to, ",\"%s\":", key);
    string(l->to, text, TEXT_BYTES);
}

static void number(line *l, const char *key, int64_t value) {
    fprintf(l->to, ",\"%s\":%" PRId64, key, value);
}

static bool begin(events *e, line *l, const char *event) {
    struct timespec now;
    if (e->fd < 0) return false;
    l->to = fmemopen(l->text, sizeof l->text, "w");
    if (!l->to) return false;
    clock_gettime(CLOCK_REALTIME, &now);
    fprintf(l->to, "{\"event\":\"%s\"", event);
    number(l, "time_unix_ms", (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000);
    write_name(l->to, e->name);
    return true;
}

/* Who reads too slowly misses lines: the lock does not wait for him. */
static void end(events *e, line *l) {
    struct pollfd to = {.fd = e->fd, .events = POLLOUT};
    fputs("}\n", l->to);
    long length = ftell(l->to);
    bool whole = fclose(l->to) == 0 && length > 0 && length < LINE_BYTES;
    if (!whole) return;
    if (poll(&to, 1, e->stuck ? 0 : PATIENCE_MS) == 1 && (to.revents & POLLOUT)) {
        while (write(e->fd, l->text, (size_t)length) < 0 && errno == EINTR) continue;
    } else if (!e->stuck) {
        e->stuck = true;
        say("nobody reads the events of --json: some are left out");
    }
}

/* ---- What happens ---- */

void events_waiting(events *e, const hf_info *info, int64_t ahead) {
    line l;
    if (!begin(e, &l, "waiting")) return;
    if (ahead >= 0) number(&l, "ahead", ahead);
    if (info && info->held) {
        fprintf(l.to, ",\"holder\":{\"pid\":%" PRId64, info->pid);
        member(&l, "program", info->program);
        member(&l, "host", info->host);
        member(&l, "label", info->label);
        fputs("}", l.to);
    }
    end(e, &l);
}

/* As many tokens as there are names; all fit. */
void events_acquired(events *e, const hf_hold *hold, int names, int64_t waited_ms) {
    line l;
    if (!begin(e, &l, "acquired")) return;
    number(&l, "waited_ms", waited_ms);
    fprintf(l.to, ",\"token\":%" PRIu64 ",\"tokens\":[", hf_fence(hold));
    for (int i = 0; i < names; i++)
        fprintf(l.to, "%s%" PRIu64, i ? "," : "", hf_fence_of(hold, (size_t)i));
    fputs("]", l.to);
    end(e, &l);
}

void events_started(events *e, int64_t pid) {
    line l;
    if (!begin(e, &l, "started")) return;
    number(&l, "pid", pid);
    end(e, &l);
}

void events_lost(events *e, const char *why) {
    line l;
    if (!begin(e, &l, "lost")) return;
    member(&l, "why", why);
    end(e, &l);
}

void events_ended(events *e, int code, int sig) {
    line l;
    if (!begin(e, &l, "ended")) return;
    number(&l, "exit_code", code);
    if (sig) number(&l, "signal", sig);
    end(e, &l);
}

void events_released(events *e, hf_result result) {
    line l;
    if (!begin(e, &l, "released")) return;
    member(&l, "result", hf_result_name(result));
    if (result) member(&l, "detail", hf_error_detail());
    end(e, &l);
}

void events_failed(events *e, hf_result result, int code, const char *detail) {
    line l;
    if (!begin(e, &l, "failed")) return;
    if (result) member(&l, "result", hf_result_name(result));
    number(&l, "exit_code", code);
    member(&l, "detail", detail);
    end(e, &l);
}
