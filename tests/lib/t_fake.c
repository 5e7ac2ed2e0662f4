/* SPDX-License-Identifier: Apache-2.0 */
/*
 * See t_fake.h.
 *
 * One thread runs the steps in order and owns the sockets. `mutex` guards what it reports to the
 * test: the current step, whether it has ended, and what went wrong.
 */
#include "t_fake.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "t_exempt.h"
#include "t_fail.h"
#include "t_net.h"
#include "t_time.h"

#define STEPS_MAX       1000
#define LOOPS_MAX       8
#define CONNECTIONS_MAX 16
#define INPUT_MAX       ((size_t)1 << 20) /* bytes of one connection that are not parsed yet */
#define ARGS_MAX        256
#define TEXT_MAX        2048 /* of the printable form of a command, which is searched */

enum op {
    EXPECT,
    EXPECT_ANY,
    EXPECT_CLOSE,
    SEND,
    SEND_SLOWLY,
    HANDSHAKE,
    ACCEPT,
    USE,
    CLOSE_IT,
    RESET_IT,
    REFUSE,
    SLEEP,
    LOOP,
    END
};

enum takes { NOTHING, NUMBER, MAYBE_NUMBER, TEXT, NUMBER_AND_TEXT };

static const struct {
    const char *name;
    enum op op;
    enum takes takes;
} words[] = {
    {"EXPECT", EXPECT, TEXT},
    {"EXPECT_ANY", EXPECT_ANY, NOTHING},
    {"EXPECT_CLOSE", EXPECT_CLOSE, NOTHING},
    {"SEND", SEND, TEXT},
    {"SEND_BYTES_SLOWLY", SEND_SLOWLY, NUMBER_AND_TEXT},
    {"HANDSHAKE", HANDSHAKE, NOTHING},
    {"ACCEPT", ACCEPT, NOTHING},
    {"USE", USE, NUMBER},
    {"CLOSE", CLOSE_IT, NOTHING},
    {"RESET", RESET_IT, NOTHING},
    {"REFUSE", REFUSE, NOTHING},
    {"SLEEP", SLEEP, NUMBER},
    {"LOOP", LOOP, MAYBE_NUMBER},
    {"END", END, NOTHING},
};

struct step {
    enum op op;
    int line;
    long number;       /* LOOP: 0 is forever */
    long rounds;       /* LOOP: iterations started */
    size_t partner;    /* LOOP: index of its END; END: index of its LOOP */
    const char *whole; /* the line of the script, for messages */
    const char *text;
};

struct fake_bytes {
    char *at;
    size_t length;
};

struct fake_connection {
    int fd; /* -1: closed */
    char *input;
    size_t length;
    /* The last command that was read. Arguments point into `command`. */
    char *command;
    struct fake_bytes args[ARGS_MAX];
    int argc;
    bool pending; /* it was read ahead; the next EXPECT uses it */
};

struct t_fake {
    char *script;
    struct step steps[STEPS_MAX];
    size_t count;
    uint16_t port;
    char url[64];
    pthread_t thread;
    bool joined;
    int stop; /* readable: the thread must end now */

    pthread_mutex_t mutex;
    pthread_cond_t changed;
    size_t at; /* the current step */
    bool ended, endless, failed;
    char failure[TEXT_MAX + 256];

    /* Used by the thread only. */
    int listener;
    struct fake_connection connections[CONNECTIONS_MAX];
    int opened;
    struct fake_connection *current;
};

/* ---- Reading the script ---------------------------------------------------------------------- */

_Noreturn static void bad_script(int line, const char *why, const char *text) {
    t_fail("line %d of the script: %s: %s", line, why, text);
}

static long read_number(struct step *step, const char **rest) {
    char *end;
    long number = strtol(*rest, &end, 10);
    if (end == *rest || number < 0) bad_script(step->line, "needs a number", step->whole);
    *rest = *end == ' ' ? end + 1 : end;
    return number;
}

static void read_arguments(struct step *step, enum takes takes, const char *rest) {
    bool number = takes == NUMBER || takes == NUMBER_AND_TEXT || (takes == MAYBE_NUMBER && *rest);
    bool text = takes == TEXT || takes == NUMBER_AND_TEXT;
    if (number) step->number = read_number(step, &rest);
    if (text && !*rest) bad_script(step->line, "needs a text", step->whole);
    if (!text && *rest) bad_script(step->line, "takes no more", step->whole);
    step->text = rest;
}

static void read_step(struct step *step) {
    size_t length = strcspn(step->whole, " ");
    const char *rest = step->whole + length;
    if (*rest) rest++;
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        if (strlen(words[i].name) != length) continue;
        if (strncmp(words[i].name, step->whole, length) != 0) continue;
        step->op = words[i].op;
        read_arguments(step, words[i].takes, rest);
        return;
    }
    bad_script(step->line, "no such step", step->whole);
}

/* Connects each LOOP with its END. */
static void pair_loops(t_fake *f) {
    size_t open[LOOPS_MAX], depth = 0;
    for (size_t i = 0; i < f->count; i++) {
        struct step *step = &f->steps[i];
        if (step->op == LOOP) {
            if (depth == LOOPS_MAX) bad_script(step->line, "too deep", step->whole);
            open[depth++] = i;
        } else if (step->op == END) {
            if (depth == 0) bad_script(step->line, "without a LOOP", step->whole);
            step->partner = open[--depth];
            f->steps[step->partner].partner = i;
        }
    }
    if (depth) t_fail("the script has a LOOP without an END");
}

static void read_script(t_fake *f) {
    int line = 0;
    for (char *rest = f->script, *text; (text = strsep(&rest, "\n")) != NULL;) {
        line++;
        text += strspn(text, " \t");
        if (!*text || *text == '#') continue;
        if (f->count == STEPS_MAX) bad_script(line, "too many steps", text);
        struct step *step = &f->steps[f->count++];
        *step = (struct step){.line = line, .whole = text};
        read_step(step);
    }
    pair_loops(f);
}

/* ---- Reports to the test --------------------------------------------------------------------- */

/* Always returns false, so that a step can return its result. Only the first failure is kept. */
static bool fail_step(t_fake *f, const char *format, ...) T_PRINTF(2, 3);

static bool fail_step(t_fake *f, const char *format, ...) {
    va_list args;
    const struct step *step = &f->steps[f->at];
    pthread_mutex_lock(&f->mutex);
    if (!f->failed) {
        int n = snprintf(f->failure, sizeof f->failure, "step %zu (line %d) `%s`: ", f->at + 1,
                         step->line, step->whole);
        va_start(args, format);
        if (n > 0 && (size_t)n < sizeof f->failure) {
            (void)vsnprintf(f->failure + n, sizeof f->failure - (size_t)n, format, args);
        }
        va_end(args);
        f->failed = true;
    }
    pthread_mutex_unlock(&f->mutex);
    return false;
}

static void report_step(t_fake *f, size_t at, bool endless) {
    pthread_mutex_lock(&f->mutex);
    f->at = at;
    f->endless = f->endless || endless;
    pthread_cond_broadcast(&f->changed);
    pthread_mutex_unlock(&f->mutex);
}

static void report_end(t_fake *f) {
    pthread_mutex_lock(&f->mutex);
    f->ended = true;
    pthread_cond_broadcast(&f->changed);
    pthread_mutex_unlock(&f->mutex);
}

/* ---- Connections ----------------------------------------------------------------------------- */

/* Wait until a descriptor is ready (-1: only let time pass). False if the test wants us to stop. */
static bool wait_for(t_fake *f, int fd, short events, int timeout_ms) {
    struct pollfd fds[2] = {{.fd = f->stop, .events = POLLIN}, {.fd = fd, .events = events}};
    int64_t until = t_now_ms() + timeout_ms;
    do {
        int64_t left = until - t_now_ms();
        int n = poll(fds, 2, timeout_ms < 0 ? -1 : (int)(left > 0 ? left : 0));
        if (n > 0 && fds[0].revents) return fail_step(f, "was stopped at this step");
        if (n > 0) return true;
    } while (timeout_ms < 0 || t_now_ms() < until);
    return true;
}

static bool accept_next(t_fake *f) {
    int on = 1;
    if (f->listener < 0) return fail_step(f, "the port is closed");
    if (f->opened == CONNECTIONS_MAX) return fail_step(f, "too many connections");
    if (!wait_for(f, f->listener, POLLIN, -1)) return false;
    int fd = accept4(f->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0) return fail_step(f, "accept: %s", strerror(errno));
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    f->current = &f->connections[f->opened++];
    f->current->fd = fd;
    f->current->input = malloc(INPUT_MAX);
    if (!f->current->input) return fail_step(f, "out of memory");
    return true;
}

static bool need_connection(t_fake *f) {
    if (!f->current) return accept_next(f);
    return f->current->fd >= 0 || fail_step(f, "the connection has been closed by the script");
}

static void end_connection(struct fake_connection *c, bool reset) {
    if (c->fd < 0) return;
    if (reset) {
        t_net_reset(c->fd);
    } else {
        (void)shutdown(c->fd, SHUT_RDWR);
        close(c->fd);
    }
    c->fd = -1;
}

/* Read more input. 1: some arrived; 0: the client closed the connection; -1: the step failed. */
static int read_more(t_fake *f, struct fake_connection *c) {
    if (c->length == INPUT_MAX) {
        fail_step(f, "more than %zu bytes unread", INPUT_MAX);
        return -1;
    }
    for (;;) {
        if (!wait_for(f, c->fd, POLLIN, -1)) return -1;
        ssize_t n = recv(c->fd, c->input + c->length, INPUT_MAX - c->length, 0);
        if (n < 0 && (errno == EAGAIN || errno == EINTR)) continue;
        if (n <= 0) return 0;
        c->length += (size_t)n;
        return 1;
    }
}

static bool send_bytes(t_fake *f, const char *bytes, size_t length) {
    struct fake_connection *c = f->current;
    while (length) {
        ssize_t n = send(c->fd, bytes, length, MSG_NOSIGNAL);
        if (n > 0) {
            bytes += n;
            length -= (size_t)n;
        } else if (errno == EAGAIN || errno == EINTR) {
            if (!wait_for(f, c->fd, POLLOUT, -1)) return false;
        } else {
            return fail_step(f, "the client has closed the connection: %s", strerror(errno));
        }
    }
    return true;
}

/* ---- Commands -------------------------------------------------------------------------------- */

/* Parse a line "<type><number>\r\n" at *at. 1: done; 0: incomplete; -1: not such a line. */
static int read_header(const struct fake_connection *c, size_t *at, char type, long *number) {
    if (*at == c->length) return 0;
    const char *start = c->input + *at, *end = memchr(start, '\n', c->length - *at);
    char digits[24];
    if (*start != type) return -1;
    if (!end) return c->length - *at < sizeof digits ? 0 : -1;
    size_t length = (size_t)(end - start);
    if (length < 3 || length >= sizeof digits || end[-1] != '\r') return -1;
    memcpy(digits, start + 1, length - 2);
    digits[length - 2] = '\0';
    char *stop;
    *number = strtol(digits, &stop, 10);
    *at += length + 1;
    return *stop == '\0' && *number >= 0 ? 1 : -1;
}

/* The length of the first complete command of the input; 0: incomplete; -1: not a command. */
static long parse_command(struct fake_connection *c) {
    size_t at = 0;
    long argc, length;
    int rc = read_header(c, &at, '*', &argc);
    if (rc <= 0) return rc;
    if (argc < 1 || argc > ARGS_MAX) return -1;
    for (int i = 0; i < argc; i++) {
        rc = read_header(c, &at, '$', &length);
        if (rc <= 0) return rc;
        if ((size_t)length > INPUT_MAX) return -1;
        if (c->length - at < (size_t)length + 2) return 0;
        if (memcmp(c->input + at + length, "\r\n", 2) != 0) return -1;
        c->args[i] = (struct fake_bytes){c->input + at, (size_t)length};
        at += (size_t)length + 2;
    }
    c->argc = (int)argc;
    return (long)at;
}

/* Move the first `length` bytes of the input to `command`, and adjust the arguments. */
static bool take_command(struct fake_connection *c, size_t length) {
    char *command = malloc(length);
    if (!command) return false;
    memcpy(command, c->input, length);
    for (int i = 0; i < c->argc; i++) c->args[i].at = command + (c->args[i].at - c->input);
    c->length -= length;
    memmove(c->input, c->input + length, c->length);
    free(c->command);
    c->command = command;
    return true;
}

static bool read_command(t_fake *f) {
    struct fake_connection *c = f->current;
    char text[TEXT_MAX];
    if (c->pending) {
        c->pending = false;
        return true;
    }
    for (;;) {
        long length = parse_command(c);
        if (length > 0) return take_command(c, (size_t)length) || fail_step(f, "out of memory");
        t_net_printable(c->input, c->length, text, sizeof text);
        if (length < 0) return fail_step(f, "got input that is not a command: %s", text);
        int rc = read_more(f, c);
        if (rc < 0) return false;
        if (rc == 0) {
            return fail_step(f, "the client closed the connection%s%s", c->length ? " after " : "",
                             text);
        }
    }
}

static const char *command_text(const struct fake_connection *c, char *text, size_t size) {
    size_t used = 0;
    text[0] = '\0';
    for (int i = 0; i < c->argc && used + 8 < size; i++) {
        if (i) text[used++] = ' ';
        t_net_printable(c->args[i].at, c->args[i].length, text + used, size - used);
        used += strlen(text + used);
    }
    return text;
}

static bool is_command(const struct fake_connection *c, const char *name) {
    return c->args[0].length == strlen(name) &&
           strncasecmp(c->args[0].at, name, c->args[0].length) == 0;
}

static bool expect_command(t_fake *f, const char *wanted) {
    char text[TEXT_MAX];
    if (!read_command(f)) return false;
    if (strcasestr(command_text(f->current, text, sizeof text), wanted)) return true;
    return fail_step(f, "got `%s`", text);
}

static bool expect_close(t_fake *f) {
    struct fake_connection *c = f->current;
    int rc;
    do {
        c->length = 0;
        rc = read_more(f, c);
    } while (rc > 0);
    return rc == 0;
}

/* ---- Sending --------------------------------------------------------------------------------- */

static int64_t wall_us(void) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

/* The bytes that \{n} means. False if there is no such argument. */
static bool write_argument(const t_fake *f, const char **text, FILE *out) {
    const struct fake_connection *c = f->current;
    char *end;
    long n = strtol(*text + 1, &end, 10);
    if (*end != '}' || n < 0 || n >= c->argc) return false;
    fwrite(c->args[n].at, 1, c->args[n].length, out);
    *text = end + 1;
    return true;
}

static bool write_hex(const char **text, FILE *out) {
    char digits[3] = "", *end;
    memcpy(digits, *text + 1, strnlen(*text + 1, 2));
    long value = strtol(digits, &end, 16);
    if (end != digits + 2) return false;
    fputc((int)value, out);
    *text += 3;
    return true;
}

/* Decode one escape. *text points after its backslash. */
static bool write_escape(const t_fake *f, const char **text, FILE *out) {
    char c = **text;
    if (c == '{') return write_argument(f, text, out);
    if (c == 'x') return write_hex(text, out);
    ++*text;
    switch (c) {
    case 'r': return fputc('\r', out) != EOF;
    case 'n': return fputc('\n', out) != EOF;
    case 't': return fputc('\t', out) != EOF;
    case '\\': return fputc('\\', out) != EOF;
    case 'T': return fprintf(out, "%lld", (long long)wall_us()) > 0;
    case 'M': return fprintf(out, "%lld", (long long)wall_us() / 1000) > 0;
    default: return false;
    }
}

/* The bytes that a text describes; the caller frees them. NULL after a failure. */
static char *unescape_bytes(t_fake *f, const char *text, size_t *length) {
    char *bytes = NULL;
    bool good = true;
    FILE *out = open_memstream(&bytes, length);
    if (!out) {
        fail_step(f, "out of memory");
        return NULL;
    }
    while (*text && good) {
        if (*text != '\\') {
            fputc(*text++, out);
            continue;
        }
        text++;
        good = write_escape(f, &text, out);
    }
    if (fclose(out) != 0) good = false;
    if (good) return bytes;
    fail_step(f, "an unknown escape, or an argument that is missing");
    free(bytes);
    return NULL;
}

static bool send_text(t_fake *f, const char *text) {
    size_t length;
    char *bytes = unescape_bytes(f, text, &length);
    bool sent = bytes && send_bytes(f, bytes, length);
    free(bytes);
    return sent;
}

static bool send_slowly(t_fake *f, const char *text, long gap_ms) {
    size_t length = 0;
    char *bytes = unescape_bytes(f, text, &length);
    bool sent = bytes != NULL;
    for (size_t i = 0; sent && i < length; i++) {
        if (i) sent = wait_for(f, -1, 0, (int)gap_ms);
        if (sent) sent = send_bytes(f, bytes + i, 1);
    }
    free(bytes);
    return sent;
}

/* ---- A login --------------------------------------------------------------------------------- */

static bool answer_time(t_fake *f) {
    char answer[96], seconds[24], us[24];
    int64_t now = wall_us();
    int a = snprintf(seconds, sizeof seconds, "%lld", (long long)now / 1000000);
    int b = snprintf(us, sizeof us, "%lld", (long long)now % 1000000);
    int n = snprintf(answer, sizeof answer, "*2\r\n$%d\r\n%s\r\n$%d\r\n%s\r\n", a, seconds, b, us);
    return send_bytes(f, answer, (size_t)n);
}

static bool answer_subscribe(t_fake *f) {
    const struct fake_connection *c = f->current;
    char answer[96];
    size_t length = c->argc > 1 ? c->args[1].length : 0;
    snprintf(answer, sizeof answer, "*3\\r\\n$9\\r\\nsubscribe\\r\\n$%zu\\r\\n\\{1}\\r\\n:1\\r\\n",
             length);
    return send_text(f, answer);
}

static const struct {
    const char *command, *answer;
} login_answers[] = {
    {"PING", "+PONG\\r\\n"},
    {"HSET", ":1\\r\\n"},
    {"EXPIRE", ":1\\r\\n"},
    {"PEXPIRE", ":1\\r\\n"},
    {"DEL", ":1\\r\\n"},
    {"ROLE", "*3\\r\\n$6\\r\\nmaster\\r\\n:0\\r\\n*0\\r\\n"},
    {"INFO", "$21\\r\\nredis_version:7.0.0\\r\\n\\r\\n"},
    {"SCRIPT", "$40\\r\\n0000000000000000000000000000000000000000\\r\\n"},
};

static bool answer_login(t_fake *f) {
    const struct fake_connection *c = f->current;
    if (is_command(c, "TIME")) return answer_time(f);
    if (is_command(c, "SUBSCRIBE")) return answer_subscribe(f);
    for (size_t i = 0; i < sizeof login_answers / sizeof login_answers[0]; i++) {
        if (is_command(c, login_answers[i].command)) return send_text(f, login_answers[i].answer);
    }
    return send_text(f, "+OK\\r\\n");
}

static bool run_handshake(t_fake *f) {
    struct fake_connection *c = f->current;
    for (;;) {
        if (!read_command(f)) return false;
        c->pending = is_command(c, "EVAL") || is_command(c, "EVALSHA") || is_command(c, "FCALL");
        if (c->pending) return true;
        if (!answer_login(f)) return false;
    }
}

/* ---- Running the script ---------------------------------------------------------------------- */

static bool use_connection(t_fake *f, long n) {
    if (n < 1 || n > f->opened)
        return fail_step(f, "there are only %d connections so far", f->opened);
    f->current = &f->connections[n - 1];
    return true;
}

static bool run_on_connection(t_fake *f, const struct step *step) {
    if (!need_connection(f)) return false;
    switch (step->op) {
    case EXPECT: return expect_command(f, step->text);
    case EXPECT_ANY: return read_command(f);
    case EXPECT_CLOSE: return expect_close(f);
    case SEND: return send_text(f, step->text);
    case SEND_SLOWLY: return send_slowly(f, step->text, step->number);
    case HANDSHAKE: return run_handshake(f);
    default: end_connection(f->current, step->op == RESET_IT); return true;
    }
}

static bool run_step(t_fake *f, const struct step *step) {
    switch (step->op) {
    case ACCEPT: return accept_next(f);
    case USE: return use_connection(f, step->number);
    case SLEEP: return wait_for(f, -1, 0, (int)step->number);
    case REFUSE:
        t_net_unlisten(f->listener);
        f->listener = -1;
        return true;
    case LOOP:
    case END: return true;
    default: return run_on_connection(f, step);
    }
}

/* The step after step `at`. */
static size_t next_step(t_fake *f, size_t at) {
    struct step *step = &f->steps[at];
    if (step->op == LOOP) step->rounds = 1;
    if (step->op != END) return at + 1;
    struct step *loop = &f->steps[step->partner];
    if (loop->number && loop->rounds >= loop->number) return at + 1;
    loop->rounds++;
    return step->partner + 1;
}

static void *fake_main(void *arg) {
    t_fake *f = arg;
    bool followed = true;
    t_exempt_begin();
    for (size_t at = 0; at < f->count && followed; at = next_step(f, at)) {
        const struct step *step = &f->steps[at];
        report_step(f, at, step->op == LOOP && step->number == 0);
        followed = run_step(f, step);
    }
    if (!followed) {
        for (int i = 0; i < f->opened; i++) end_connection(&f->connections[i], true);
        t_net_unlisten(f->listener);
        f->listener = -1;
    }
    report_end(f);
    return NULL;
}

/* ---- Starting and ending --------------------------------------------------------------------- */

static void start_thread(t_fake *f) {
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int error = pthread_create(&f->thread, NULL, fake_main, f);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (error) t_fail("cannot start the fake server's thread: %s", strerror(error));
}

t_fake *t_fake_start(const char *script) {
    t_exempt_begin();
    t_fake *f = calloc(1, sizeof *f);
    if (!f || !(f->script = strdup(script))) t_fail("out of memory");
    read_script(f);
    f->stop = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (f->stop < 0) t_fail("eventfd: %s", strerror(errno));
    f->listener = t_net_listen_any(&f->port);
    snprintf(f->url, sizeof f->url, "redis://" T_HOST ":%u", f->port);
    for (int i = 0; i < CONNECTIONS_MAX; i++) f->connections[i].fd = -1;
    pthread_mutex_init(&f->mutex, NULL);
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&f->changed, &attributes);
    pthread_condattr_destroy(&attributes);
    start_thread(f);
    t_exempt_end();
    return f;
}

uint16_t t_fake_port(const t_fake *fake) {
    return fake->port;
}

const char *t_fake_url(const t_fake *fake) {
    return fake->url;
}

/* Whether the script reached its end, or an endless loop, before the deadline. */
static bool await_end(t_fake *f, int64_t limit_ms) {
    struct timespec until;
    int error = 0;
    clock_gettime(CLOCK_MONOTONIC, &until);
    int64_t ns = until.tv_nsec + limit_ms % 1000 * 1000000;
    until.tv_sec += (time_t)(limit_ms / 1000 + ns / 1000000000);
    until.tv_nsec = (long)(ns % 1000000000);
    pthread_mutex_lock(&f->mutex);
    while (!f->ended && !f->endless && !error) {
        error = pthread_cond_timedwait(&f->changed, &f->mutex, &until);
    }
    bool over = f->ended || f->endless;
    pthread_mutex_unlock(&f->mutex);
    return over;
}

static void end_thread(t_fake *fake) {
    if (!fake->joined) pthread_join(fake->thread, NULL);
    fake->joined = true;
}

void t_fake_join(t_fake *fake, int64_t deadline_ms) {
    char failure[sizeof fake->failure] = "";
    int64_t limit_ms = t_patience(deadline_ms);
    bool over = await_end(fake, limit_ms);
    if (!over) {
        (void)eventfd_write(fake->stop, 1); /* makes the current step report where it is */
        T_CHECK(await_end(fake, t_patience(5000)));
    }
    pthread_mutex_lock(&fake->mutex);
    if (fake->failed) snprintf(failure, sizeof failure, "%s", fake->failure);
    pthread_mutex_unlock(&fake->mutex);
    if (failure[0]) end_thread(fake); /* a test that fails may never free it */
    if (failure[0] && !over)
        t_fail("the script did not end in %lld ms: %s", (long long)limit_ms, failure);
    if (failure[0]) t_fail("the script was not followed: %s", failure);
}

void t_fake_free(t_fake *fake) {
    if (!fake) return;
    (void)eventfd_write(fake->stop, 1);
    end_thread(fake);
    for (int i = 0; i < fake->opened; i++) {
        end_connection(&fake->connections[i], true);
        free(fake->connections[i].input);
        free(fake->connections[i].command);
    }
    t_net_unlisten(fake->listener);
    close(fake->stop);
    pthread_cond_destroy(&fake->changed);
    pthread_mutex_destroy(&fake->mutex);
    free(fake->script);
    free(fake);
}
