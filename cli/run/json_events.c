/* SPDX-License-Identifier: Apache-2.0 */
#include "run/json_events.h"

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
#include "common/json.h"
#include "common/message.h"

/* A line of up to PIPE_BUF bytes is written atomically, and does not block after poll. */
#define LINE_BYTES  PIPE_BUF
#define PATIENCE_MS 200

/* The limits of texts in bytes of JSON, so that a line always fits. A name that does not fit or is
   not UTF-8 is cut to TEXT_BYTES, because name_hex has all of it. */
#define NAME_BYTES 2400
#define TEXT_BYTES 300

bool events_check_fd(int fd) {
    int flags = fcntl(fd, F_GETFL);
    if (flags < 0 || (flags & O_ACCMODE) == O_RDONLY) return false;
    return fd <= STDERR_FILENO || fcntl(fd, F_SETFD, FD_CLOEXEC) == 0;
}

/* ---- Lines ---- */

typedef struct event_line {
    char text[LINE_BYTES];
    FILE *to;
} event_line;

/* The number of bytes of the text that fit into `most` bytes of JSON, without cutting a
   character. */
static size_t fit_json(const char *text, size_t most) {
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

static void write_json_string(FILE *to, const char *text, size_t most) {
    char cut[NAME_BYTES + 1];
    hf__text_copy(cut, fit_json(text, most) + 1, text);
    json_write_string(to, cut);
}

static void write_name(FILE *to, const char *name) {
    bool whole = hf__is_utf8(name) && !name[fit_json(name, NAME_BYTES)];
    fputs(",\"name\":", to);
    write_json_string(to, name, whole ? NAME_BYTES : TEXT_BYTES);
    if (!whole) json_write_name_hex(to, name);
}

static void write_text_member(event_line *l, const char *key, const char *text) {
    fprintf(l->to, ",\"%s\":", key);
    write_json_string(l->to, text, TEXT_BYTES);
}

static void write_number_member(event_line *l, const char *key, int64_t value) {
    fprintf(l->to, ",\"%s\":%" PRId64, key, value);
}

static bool begin_event(events *e, event_line *l, const char *event) {
    struct timespec now;
    if (e->fd < 0) return false;
    l->to = fmemopen(l->text, sizeof l->text, "w");
    if (!l->to) return false;
    clock_gettime(CLOCK_REALTIME, &now);
    fprintf(l->to, "{\"event\":\"%s\"", event);
    write_number_member(l, "time_unix_ms", (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000);
    write_name(l->to, e->name);
    return true;
}

/* A slow reader misses events, because the lock must not wait for a reader. */
static void send_event(events *e, event_line *l) {
    struct pollfd to = {.fd = e->fd, .events = POLLOUT};
    fputs("}\n", l->to);
    long length = ftell(l->to);
    bool whole = fclose(l->to) == 0 && length > 0 && length < LINE_BYTES;
    if (!whole) return;
    if (poll(&to, 1, e->stuck ? 0 : PATIENCE_MS) == 1 && (to.revents & POLLOUT)) {
        while (write(e->fd, l->text, (size_t)length) < 0 && errno == EINTR) continue;
    } else if (!e->stuck) {
        e->stuck = true;
        print_message("the reader of --json does not read; some events are dropped");
    }
}

/* ---- Events ---- */

void events_waiting(events *e, const hf_info *info, int64_t ahead) {
    event_line l;
    if (!begin_event(e, &l, "waiting")) return;
    if (ahead >= 0) write_number_member(&l, "ahead", ahead);
    if (info && info->held) {
        fprintf(l.to, ",\"holder\":{\"pid\":%" PRId64, info->pid);
        write_text_member(&l, "program", info->program);
        write_text_member(&l, "host", info->host);
        write_text_member(&l, "label", info->label);
        fputs("}", l.to);
    }
    send_event(e, &l);
}

/* One token per name; all of them fit into a line. */
void events_acquired(events *e, const hf_hold *hold, int names, int64_t waited_ms) {
    event_line l;
    if (!begin_event(e, &l, "acquired")) return;
    write_number_member(&l, "waited_ms", waited_ms);
    fprintf(l.to, ",\"token\":%" PRIu64 ",\"tokens\":[", hf_fence(hold));
    for (int i = 0; i < names; i++)
        fprintf(l.to, "%s%" PRIu64, i ? "," : "", hf_fence_of(hold, (size_t)i));
    fputs("]", l.to);
    send_event(e, &l);
}

void events_started(events *e, int64_t pid) {
    event_line l;
    if (!begin_event(e, &l, "started")) return;
    write_number_member(&l, "pid", pid);
    send_event(e, &l);
}

void events_lost(events *e, const char *why) {
    event_line l;
    if (!begin_event(e, &l, "lost")) return;
    write_text_member(&l, "why", why);
    send_event(e, &l);
}

void events_ended(events *e, int code, int sig) {
    event_line l;
    if (!begin_event(e, &l, "ended")) return;
    write_number_member(&l, "exit_code", code);
    if (sig) write_number_member(&l, "signal", sig);
    send_event(e, &l);
}

void events_released(events *e, hf_result result) {
    event_line l;
    if (!begin_event(e, &l, "released")) return;
    write_text_member(&l, "result", hf_result_name(result));
    if (result) write_text_member(&l, "detail", hf_error_detail());
    send_event(e, &l);
}

void events_failed(events *e, hf_result result, int code, const char *detail) {
    event_line l;
    if (!begin_event(e, &l, "failed")) return;
    if (result) write_text_member(&l, "result", hf_result_name(result));
    write_number_member(&l, "exit_code", code);
    write_text_member(&l, "detail", detail);
    send_event(e, &l);
}
