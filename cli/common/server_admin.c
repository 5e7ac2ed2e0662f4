#include "common/server_admin.h"

#include <errno.h>
#include <limits.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/buffer.h"
#include "base/error.h"
#include "base/time.h"
#include "store/redis/net/password.h"
#include "store/redis/net/resolve.h"
#include "store/redis/net/tls.h"
#include "store/redis/protocol/command.h"
#include "store/redis/protocol/server_error.h"

#define TIMEOUT_MS  5000 /* where the URL has none */
#define PIECE_BYTES 16384

struct server_admin {
    const hf__url *url;
    int fd;
    hf__tls *tls;
    hf__buffer out, sealed; /* to be sent; and as records */
    hf__buffer in; /* what came and was not looked at; then, the answer, terminated in place */
    bool over;
    char where[300];
};

/* ---- Bytes ---- */

static hf_result fail_connection(server_admin *t, const char *why) {
    t->over = true;
    return hf__fail(HF_UNREACHABLE, "%s: %s", t->where, why);
}

/* Until the socket can be read or written, or has broken. */
static hf_result wait_for_socket(server_admin *t, int fd, short events, hf__time until) {
    struct pollfd p = {.fd = fd, .events = events};
    for (;;) {
        hf__time now = hf__now();
        if (now >= until) return fail_connection(t, "no answer in time");
        int n = poll(&p, 1, hf__poll_ms(now, until));
        if (n > 0) return HF_OK;
        if (n < 0 && errno != EINTR) return fail_connection(t, strerror(errno));
    }
}

static hf_result send_all(server_admin *t, hf__buffer *out, hf__time until) {
    size_t sent = 0;
    while (sent < out->length) {
        ssize_t n = send(t->fd, out->data + sent, out->length - sent, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n < 0 && errno != EAGAIN && errno != EINTR) return fail_connection(t, strerror(errno));
        if (n > 0) sent += (size_t)n;
        if (n < 0 && wait_for_socket(t, t->fd, POLLOUT, until)) return HF_UNREACHABLE;
    }
    explicit_bzero(out->data, out->length); /* there may have been a password in it */
    hf__buffer_cut(out, 0);
    return HF_OK;
}

/* All that is to be sent. */
static hf_result flush_output(server_admin *t, hf__time until) {
    if (t->out.failed || t->sealed.failed) return fail_connection(t, "out of memory");
    if (!t->tls) return t->out.length ? send_all(t, &t->out, until) : HF_OK;
    if (hf__tls_ready(t->tls) && t->out.length) {
        hf__tls_seal(t->tls, t->out.data, t->out.length, &t->sealed);
        explicit_bzero(t->out.data, t->out.length);
        hf__buffer_cut(&t->out, 0);
    }
    return t->sealed.length ? send_all(t, &t->sealed, until) : HF_OK;
}

static hf_result accept_bytes(server_admin *t, const char *bytes, size_t length) {
    char *detail = NULL;
    hf_result r = HF_OK;
    if (t->tls)
        r = hf__tls_feed(t->tls, bytes, length, &t->in, &t->sealed, &detail);
    else
        hf__buffer_add(&t->in, bytes, length);
    if (r) {
        t->over = true;
        r = hf__fail_line(r, detail);
        free(detail);
    } else if (t->in.failed) {
        r = fail_connection(t, "an answer is longer than it may be");
    }
    return r;
}

/* Some more bytes. */
static hf_result receive_bytes(server_admin *t, hf__time until) {
    char piece[PIECE_BYTES];
    hf_result r = wait_for_socket(t, t->fd, POLLIN, until);
    if (r) return r;
    ssize_t n = recv(t->fd, piece, sizeof piece, MSG_DONTWAIT);
    if (n > 0) return accept_bytes(t, piece, (size_t)n);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) return HF_OK;
    return fail_connection(t, n ? strerror(errno) : "the server closed the connection");
}

/* ---- Answers ---- */

/* The line at `at`, terminated in place, and *at past it; NULL: it is not whole yet. */
static char *take_line(hf__buffer *in, size_t *at) {
    char *begin = in->data + *at, *end = memchr(begin, '\n', in->length - *at);
    if (!end || end == begin || end[-1] != '\r') return NULL;
    *at += (size_t)(end - begin) + 1;
    return begin;
}

typedef enum parse_result { WHOLE, MORE, BAD } parse_result;

/* At the end of a line; what is too large is as large as can be. */
static long parse_number(const char *text) {
    bool below = *text == '-';
    long n = 0;
    for (text += below; *text >= '0' && *text <= '9'; text++)
        n = n < SERVER_ADMIN_MAX ? n * 10 + (*text - '0') : LONG_MAX;
    return below ? -n : n;
}

/* One value that is no list. Nothing is changed before all of the answer is there. */
static parse_result parse_value(hf__buffer *in, size_t *at, char *type, size_t *text,
                                size_t *length) {
    size_t begin = *at;
    char *line = *at < in->length ? take_line(in, at) : NULL;
    if (!line) return MORE;
    *type = *line;
    *text = begin + 1;
    *length = *at - begin - 3;
    if (*type == '+' || *type == '-' || *type == ':') return WHOLE;
    if (*type != '$') return BAD;
    long bytes = parse_number(line + 1);
    if (bytes < -1 || bytes > SERVER_ADMIN_MAX) return BAD;
    *text = *at;
    *length = bytes < 0 ? 0 : (size_t)bytes;
    if (bytes < 0) {
        *type = '_';
        *text = begin;
        return WHOLE;
    }
    if (in->length - *at < *length + 2) return MORE;
    *at += *length + 2;
    return WHOLE;
}

static void set_reply(server_reply *reply, hf__buffer *in, char type, size_t text, size_t length) {
    in->data[text + length] = '\0';
    reply->type = type;
    reply->text = type == '_' ? "" : in->data + text;
    reply->number = strtoll(reply->text, NULL, 10);
}

/* How many items a list has; BAD: it is none of ours. */
static parse_result parse_list_count(hf__buffer *in, size_t *at, size_t *count) {
    const char *line = take_line(in, at);
    long n = line ? parse_number(line + 1) : 0;
    if (!line) return MORE;
    *count = n < 0 ? 0 : (size_t)n;
    return n > SERVER_ADMIN_ITEMS ? BAD : WHOLE;
}

/* A list of values, those of a list in it among them; they are terminated when all are there. */
static parse_result parse_list(hf__buffer *in, size_t *at, server_reply *reply) {
    size_t text[SERVER_ADMIN_ITEMS], length[SERVER_ADMIN_ITEMS], count, inner;
    char type[SERVER_ADMIN_ITEMS];
    parse_result begun = parse_list_count(in, at, &count);
    if (begun != WHOLE) return begun;
    for (size_t i = 0; i < count; i++) {
        while (i < count && *at < in->length && in->data[*at] == '*') {
            begun = parse_list_count(in, at, &inner);
            if (begun != WHOLE) return begun;
            count += inner - 1;
            if (count > SERVER_ADMIN_ITEMS) return BAD;
        }
        if (i == count) break;
        parse_result p = parse_value(in, at, &type[i], &text[i], &length[i]);
        if (p != WHOLE) return p;
    }
    reply->text = "";
    for (size_t i = count; i-- > 0;) {
        set_reply(reply, in, type[i], text[i], length[i]);
        reply->item[i] = reply->text;
    }
    reply->type = '*';
    reply->count = count;
    return WHOLE;
}

static parse_result parse_reply(hf__buffer *in, size_t *at, server_reply *reply) {
    size_t text, length;
    char type;
    *reply = (server_reply){.text = ""};
    if (in->length && *in->data == '*') return parse_list(in, at, reply);
    parse_result p = parse_value(in, at, &type, &text, &length);
    if (p == WHOLE) set_reply(reply, in, type, text, length);
    return p;
}

static hf_result read_reply(server_admin *t, server_reply *reply, hf__time until) {
    hf__buffer_cut(&t->in, 0);
    for (;;) {
        size_t at = 0;
        switch (parse_reply(&t->in, &at, reply)) {
        case WHOLE: return HF_OK;
        case BAD:
            t->over = true;
            return hf__fail(HF_PROTOCOL, "%s does not answer as a Redis server does", t->where);
        case MORE: break;
        }
        hf_result r = receive_bytes(t, until);
        if (!r) r = flush_output(t, until); /* TLS may have something to say meanwhile */
        if (r) return r;
    }
}

static int64_t timeout_or_default(int64_t ms) {
    return ms ? ms : TIMEOUT_MS;
}

static hf_result send_command(server_admin *t, server_reply *reply, const char *const *words,
                              hf__time until) {
    int count = 0;
    while (words[count]) count++;
    hf__command_begin(&t->out, count);
    for (int i = 0; i < count; i++) hf__command_string(&t->out, words[i]);
    hf_result r = flush_output(t, until);
    return r ? r : read_reply(t, reply, until);
}

hf_result server_admin_command(server_admin *t, server_reply *reply, const char *const *words) {
    *reply = (server_reply){.type = '_', .text = ""};
    if (t->over) return hf__fail(HF_UNREACHABLE, "%s: the connection has broken", t->where);
    return send_command(t, reply, words,
                        hf__after_ms(hf__now(), timeout_or_default(t->url->command_timeout_ms)));
}

/* ---- Connecting ---- */

static hf_result connect_address(server_admin *t, int family, const void *address, socklen_t length,
                                 hf__time until) {
    int error = 0, one = 1;
    socklen_t size = sizeof error;
    t->fd = socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (t->fd < 0) return hf__fail(HF_NOMEM, "no socket: %s", strerror(errno));
    if (family != AF_UNIX) setsockopt(t->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    if (connect(t->fd, address, length) == 0) return HF_OK;
    if (errno == EINPROGRESS) {
        hf_result r = wait_for_socket(t, t->fd, POLLOUT, until);
        t->over = false; /* another address may do */
        if (r) return r;
        getsockopt(t->fd, SOL_SOCKET, SO_ERROR, &error, &size);
    } else {
        error = errno;
    }
    if (!error) return HF_OK;
    return hf__fail(HF_UNREACHABLE, "cannot connect to %s: %s", t->where, strerror(error));
}

static hf_result connect_unix(server_admin *t, hf__time until) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    size_t length = strlen(t->url->path);
    if (length >= sizeof address.sun_path)
        return hf__fail(HF_INVALID, "the socket's path is too long: %s", t->where);
    memcpy(address.sun_path, t->url->path, length);
    return connect_address(t, AF_UNIX, &address, sizeof address, until);
}

/* The first address that answers; each has its share of the time. */
static hf_result connect_any(server_admin *t, const struct addrinfo *list, hf__time until) {
    int64_t left = 0;
    hf_result r = HF_UNREACHABLE;
    for (const struct addrinfo *a = list; a; a = a->ai_next) left++;
    for (const struct addrinfo *a = list; a && r; a = a->ai_next, left--) {
        hf__time now = hf__now();
        if (t->fd >= 0) close(t->fd);
        r = connect_address(t, a->ai_family, a->ai_addr, a->ai_addrlen, now + (until - now) / left);
    }
    return r;
}

static hf_result connect_host(server_admin *t, hf__time until) {
    struct addrinfo *list = NULL;
    const char *error = "";
    hf__resolve *resolve = hf__resolve_start(t->url->host, t->url->port);
    if (!resolve) return hf__fail(HF_NOMEM, "no memory, thread or descriptor to look up the host");
    hf_result r = HF_OK;
    while (!r && !hf__resolve_done(resolve, &list, &error))
        r = wait_for_socket(t, hf__resolve_fd(resolve), POLLIN, until);
    if (!r && !list)
        r = hf__fail(HF_UNREACHABLE, "cannot find the host of %s: %s", t->where, error);
    if (!r) r = connect_any(t, list, until);
    hf__resolve_free(resolve);
    if (list) freeaddrinfo(list);
    return r;
}

static hf_result start_tls(server_admin *t, hf__time until) {
    char *detail = NULL;
    hf_result r = hf__tls_new(t->url, &t->sealed, &t->tls, &detail);
    if (r) {
        r = hf__fail_line(r, detail);
        free(detail);
        return r;
    }
    r = flush_output(t, until);
    while (!r && !hf__tls_ready(t->tls)) {
        r = receive_bytes(t, until);
        if (!r) r = flush_output(t, until);
    }
    return r;
}

/* What the server says to a step of the login must be +OK. */
static hf_result send_login_step(server_admin *t, const char *const *words, hf__time until) {
    server_reply reply;
    char *detail = NULL;
    hf_result r = send_command(t, &reply, words, until);
    if (r || reply.type != '-') return r;
    r = hf__server_error(reply.text, t->where, &detail);
    r = hf__fail_line(r, detail);
    free(detail);
    return r;
}

static hf_result log_in(server_admin *t, hf__time until) {
    char *password, *detail = NULL, db[16];
    const hf__url *url = t->url;
    hf_result r = hf__password_get(url, &password, &detail);
    if (r) {
        r = hf__fail_line(r, detail);
        free(detail);
        return r;
    }
    if (password && url->user)
        r = send_login_step(t, (const char *[]){"AUTH", url->user, password, NULL}, until);
    else if (password)
        r = send_login_step(t, (const char *[]){"AUTH", password, NULL}, until);
    hf__password_free(password);
    snprintf(db, sizeof db, "%d", (int)url->db);
    if (!r && url->db) r = send_login_step(t, (const char *[]){"SELECT", db, NULL}, until);
    return r;
}

static hf_result connect_and_log_in(server_admin *t) {
    hf__time until = hf__after_ms(hf__now(), timeout_or_default(t->url->connect_timeout_ms));
    hf_result r =
        t->url->scheme == HF__SCHEME_REDIS_UNIX ? connect_unix(t, until) : connect_host(t, until);
    if (!r && t->url->scheme == HF__SCHEME_REDIS_TLS) r = start_tls(t, until);
    return r ? r : log_in(t, until);
}

hf_result server_admin_open(const hf__url *url, server_admin **admin) {
    *admin = NULL;
    server_admin *t = calloc(1, sizeof *t);
    if (!t) return hf__fail(HF_NOMEM, "out of memory");
    t->url = url;
    t->fd = -1;
    hf__buffer_init(&t->out, SERVER_ADMIN_MAX);
    hf__buffer_init(&t->sealed, SERVER_ADMIN_MAX);
    hf__buffer_init(&t->in, SERVER_ADMIN_MAX);
    if (url->scheme == HF__SCHEME_REDIS_UNIX)
        snprintf(t->where, sizeof t->where, "%s", url->path);
    else
        snprintf(t->where, sizeof t->where, "%s:%d", url->host, (int)url->port);
    hf_result r = connect_and_log_in(t);
    if (r)
        server_admin_close(t);
    else
        *admin = t;
    return r;
}

void server_admin_close(server_admin *t) {
    if (!t) return;
    if (t->fd >= 0) close(t->fd);
    hf__tls_free(t->tls);
    hf__buffer_fini(&t->out);
    hf__buffer_fini(&t->sealed);
    hf__buffer_fini(&t->in);
    free(t);
}
