/* SPDX-License-Identifier: Apache-2.0 */
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
#include "store/net/password.h"
#include "store/net/resolve.h"
#include "store/net/tls.h"
#include "store/redis/protocol/command.h"
#include "store/redis/protocol/server_error.h"

#define TIMEOUT_MS  5000 /* if the URL sets none */
#define PIECE_BYTES 16384

struct server_admin {
    const hf__url *url;
    int fd;
    hf__tls *tls;
    hf__buffer out, sealed; /* plain bytes to send; the same as TLS records */
    hf__buffer in; /* received bytes; then the reply, with its strings terminated in place */
    bool over;
    char where[300];
};

/* ---- Bytes ---- */

static hf_result fail_connection(server_admin *admin, const char *why) {
    admin->over = true;
    return hf__fail(HF_UNREACHABLE, "%s: %s", admin->where, why);
}

/* Waits until the socket is readable or writable, or has failed. */
static hf_result wait_for_socket(server_admin *admin, int fd, short events, hf__time until) {
    struct pollfd p = {.fd = fd, .events = events};
    for (;;) {
        hf__time now = hf__now();
        if (now >= until)
            return fail_connection(admin, admin->tls && !hf__tls_ready(admin->tls)
                                              ? "no answer in time; is this a TLS port?"
                                              : "no answer in time");
        int n = poll(&p, 1, hf__poll_ms(now, until));
        if (n > 0) return HF_OK;
        if (n < 0 && errno != EINTR) return fail_connection(admin, strerror(errno));
    }
}

static hf_result send_all(server_admin *admin, hf__buffer *out, hf__time until) {
    size_t sent = 0;
    while (sent < out->length) {
        ssize_t n =
            send(admin->fd, out->data + sent, out->length - sent, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n < 0 && errno != EAGAIN && errno != EINTR)
            return fail_connection(admin, strerror(errno));
        if (n > 0) sent += (size_t)n;
        if (n < 0 && wait_for_socket(admin, admin->fd, POLLOUT, until)) return HF_UNREACHABLE;
    }
    explicit_bzero(out->data, out->length); /* it may have contained a password */
    hf__buffer_cut(out, 0);
    return HF_OK;
}

/* Sends everything that is pending. */
static hf_result flush_output(server_admin *admin, hf__time until) {
    if (admin->out.failed || admin->sealed.failed) return fail_connection(admin, "out of memory");
    if (!admin->tls) return admin->out.length ? send_all(admin, &admin->out, until) : HF_OK;
    if (hf__tls_ready(admin->tls) && admin->out.length) {
        hf__tls_seal(admin->tls, admin->out.data, admin->out.length, &admin->sealed);
        explicit_bzero(admin->out.data, admin->out.length);
        hf__buffer_cut(&admin->out, 0);
    }
    return admin->sealed.length ? send_all(admin, &admin->sealed, until) : HF_OK;
}

static hf_result accept_bytes(server_admin *admin, const char *bytes, size_t length) {
    char *detail = NULL;
    hf_result r = HF_OK;
    if (admin->tls)
        r = hf__tls_feed(admin->tls, bytes, length, &admin->in, &admin->sealed, &detail);
    else
        hf__buffer_add(&admin->in, bytes, length);
    if (r) {
        admin->over = true;
        r = hf__fail_line(r, detail);
        free(detail);
    } else if (admin->in.failed) {
        r = fail_connection(admin, "the server sent a reply that is too long");
    }
    return r;
}

/* Receives some more bytes. */
static hf_result receive_bytes(server_admin *admin, hf__time until) {
    char piece[PIECE_BYTES];
    hf_result r = wait_for_socket(admin, admin->fd, POLLIN, until);
    if (r) return r;
    ssize_t n = recv(admin->fd, piece, sizeof piece, MSG_DONTWAIT);
    if (n > 0) return accept_bytes(admin, piece, (size_t)n);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) return HF_OK;
    return fail_connection(admin, n ? strerror(errno) : "the server closed the connection");
}

/* ---- Replies ---- */

/* Returns the line at *at and moves *at past it. NULL if the line is not complete yet. */
static char *take_line(hf__buffer *in, size_t *at) {
    char *begin = in->data + *at, *end = memchr(begin, '\n', in->length - *at);
    if (!end || end == begin || end[-1] != '\r') return NULL;
    *at += (size_t)(end - begin) + 1;
    return begin;
}

typedef enum parse_result { WHOLE, MORE, BAD } parse_result;

/* Saturates at LONG_MAX. */
static long parse_number(const char *text) {
    bool below = *text == '-';
    long n = 0;
    for (text += below; *text >= '0' && *text <= '9'; text++)
        n = n < SERVER_ADMIN_MAX ? n * 10 + (*text - '0') : LONG_MAX;
    return below ? -n : n;
}

/* Parses one value that is not a list. Changes nothing before the whole reply has arrived. */
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

/* Parses the number of items of a list. BAD if there are too many. */
static parse_result parse_list_count(hf__buffer *in, size_t *at, size_t *count) {
    const char *line = take_line(in, at);
    long n = line ? parse_number(line + 1) : 0;
    if (!line) return MORE;
    *count = n < 0 ? 0 : (size_t)n;
    return n > SERVER_ADMIN_ITEMS ? BAD : WHOLE;
}

/* Parses a list of values and flattens lists inside it. Strings are terminated once all have
   arrived. */
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

static hf_result read_reply(server_admin *admin, server_reply *reply, hf__time until) {
    hf__buffer_cut(&admin->in, 0);
    for (;;) {
        size_t at = 0;
        switch (parse_reply(&admin->in, &at, reply)) {
        case WHOLE: return HF_OK;
        case BAD:
            admin->over = true;
            return hf__fail(HF_PROTOCOL, "%s does not answer like a Redis server", admin->where);
        case MORE: break;
        }
        hf_result r = receive_bytes(admin, until);
        if (!r) r = flush_output(admin, until); /* TLS may have to send something too */
        if (r) return r;
    }
}

static int64_t timeout_or_default(int64_t ms) {
    return ms ? ms : TIMEOUT_MS;
}

static hf_result send_command(server_admin *admin, server_reply *reply, const char *const *words,
                              hf__time until) {
    int count = 0;
    while (words[count]) count++;
    hf__command_begin(&admin->out, count);
    for (int i = 0; i < count; i++) hf__command_string(&admin->out, words[i]);
    hf_result r = flush_output(admin, until);
    return r ? r : read_reply(admin, reply, until);
}

hf_result server_admin_command(server_admin *admin, server_reply *reply, const char *const *words) {
    *reply = (server_reply){.type = '_', .text = ""};
    if (admin->over) return hf__fail(HF_UNREACHABLE, "%s: the connection was lost", admin->where);
    return send_command(
        admin, reply, words,
        hf__after_ms(hf__now(), timeout_or_default(admin->url->command_timeout_ms)));
}

/* ---- Connecting ---- */

static hf_result connect_address(server_admin *admin, int family, const void *address,
                                 socklen_t length, hf__time until) {
    int error = 0, one = 1;
    socklen_t size = sizeof error;
    admin->fd = socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (admin->fd < 0) return hf__fail(HF_NOMEM, "cannot create a socket: %s", strerror(errno));
    if (family != AF_UNIX) setsockopt(admin->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    if (connect(admin->fd, address, length) == 0) return HF_OK;
    if (errno == EINPROGRESS) {
        hf_result r = wait_for_socket(admin, admin->fd, POLLOUT, until);
        admin->over = false; /* another address may work */
        if (r) return r;
        getsockopt(admin->fd, SOL_SOCKET, SO_ERROR, &error, &size);
    } else {
        error = errno;
    }
    if (!error) return HF_OK;
    return hf__fail(HF_UNREACHABLE, "cannot connect to %s: %s", admin->where, strerror(error));
}

static hf_result connect_unix(server_admin *admin, hf__time until) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    size_t length = strlen(admin->url->path);
    if (length >= sizeof address.sun_path)
        return hf__fail(HF_INVALID, "the path of the socket is too long: %s", admin->where);
    memcpy(address.sun_path, admin->url->path, length);
    return connect_address(admin, AF_UNIX, &address, sizeof address, until);
}

/* Connects to the first address that answers. Each gets a share of the time. */
static hf_result connect_any(server_admin *admin, const struct addrinfo *list, hf__time until) {
    int64_t left = 0;
    hf_result r = HF_UNREACHABLE;
    for (const struct addrinfo *a = list; a; a = a->ai_next) left++;
    for (const struct addrinfo *a = list; a && r; a = a->ai_next, left--) {
        hf__time now = hf__now();
        if (admin->fd >= 0) close(admin->fd);
        r = connect_address(admin, a->ai_family, a->ai_addr, a->ai_addrlen,
                            now + (until - now) / left);
    }
    return r;
}

static hf_result connect_host(server_admin *admin, hf__time until) {
    struct addrinfo *list = NULL;
    const char *error = "";
    hf__resolve *resolve = hf__resolve_start(admin->url->host, admin->url->port);
    if (!resolve)
        return hf__fail(HF_NOMEM, "cannot look up the host: out of memory, threads or descriptors");
    hf_result r = HF_OK;
    while (!r && !hf__resolve_done(resolve, &list, &error))
        r = wait_for_socket(admin, hf__resolve_fd(resolve), POLLIN, until);
    if (!r && !list)
        r = hf__fail(HF_UNREACHABLE, "cannot look up the host name of %s: %s", admin->where, error);
    if (!r) r = connect_any(admin, list, until);
    hf__resolve_free(resolve);
    if (list) freeaddrinfo(list);
    return r;
}

static hf_result start_tls(server_admin *admin, hf__time until) {
    char *detail = NULL;
    hf_result r = hf__tls_new(admin->url, NULL, &admin->sealed, &admin->tls, &detail);
    if (r) {
        r = hf__fail_line(r, detail);
        free(detail);
        return r;
    }
    r = flush_output(admin, until);
    while (!r && !hf__tls_ready(admin->tls)) {
        r = receive_bytes(admin, until);
        if (!r) r = flush_output(admin, until);
    }
    return r;
}

/* Runs one command of the login. An error reply fails the login. */
static hf_result send_login_step(server_admin *admin, const char *const *words, hf__time until) {
    server_reply reply;
    char *detail = NULL;
    hf_result r = send_command(admin, &reply, words, until);
    if (r || reply.type != '-') return r;
    r = hf__server_error(reply.text, admin->where, &detail);
    r = hf__fail_line(r, detail);
    free(detail);
    return r;
}

static hf_result log_in(server_admin *admin, hf__time until) {
    char *password, *detail = NULL, db[16];
    const hf__url *url = admin->url;
    hf_result r = hf__password_get(url, &password, &detail);
    if (r) {
        r = hf__fail_line(r, detail);
        free(detail);
        return r;
    }
    if (password && url->user)
        r = send_login_step(admin, (const char *[]){"AUTH", url->user, password, NULL}, until);
    else if (password)
        r = send_login_step(admin, (const char *[]){"AUTH", password, NULL}, until);
    hf__password_free(password);
    snprintf(db, sizeof db, "%d", (int)url->db);
    if (!r && url->db) r = send_login_step(admin, (const char *[]){"SELECT", db, NULL}, until);
    return r;
}

static hf_result connect_and_log_in(server_admin *admin) {
    hf__time until = hf__after_ms(hf__now(), timeout_or_default(admin->url->connect_timeout_ms));
    hf_result r = admin->url->scheme == HF__SCHEME_REDIS_UNIX ? connect_unix(admin, until)
                                                              : connect_host(admin, until);
    if (!r && admin->url->scheme == HF__SCHEME_REDIS_TLS) r = start_tls(admin, until);
    return r ? r : log_in(admin, until);
}

hf_result server_admin_open(const hf__url *url, server_admin **out) {
    *out = NULL;
    server_admin *admin = calloc(1, sizeof *admin);
    if (!admin) return hf__fail(HF_NOMEM, "out of memory");
    admin->url = url;
    admin->fd = -1;
    hf__buffer_init(&admin->out, SERVER_ADMIN_MAX);
    hf__buffer_init(&admin->sealed, SERVER_ADMIN_MAX);
    hf__buffer_init(&admin->in, SERVER_ADMIN_MAX);
    if (url->scheme == HF__SCHEME_REDIS_UNIX)
        snprintf(admin->where, sizeof admin->where, "%s", url->path);
    else
        snprintf(admin->where, sizeof admin->where, "%s:%d", url->host, (int)url->port);
    hf_result r = connect_and_log_in(admin);
    if (r)
        server_admin_close(admin);
    else
        *out = admin;
    return r;
}

void server_admin_close(server_admin *admin) {
    if (!admin) return;
    if (admin->fd >= 0) close(admin->fd);
    hf__tls_free(admin->tls);
    hf__buffer_fini(&admin->out);
    hf__buffer_fini(&admin->sealed);
    hf__buffer_fini(&admin->in);
    free(admin);
}
