/* SPDX-License-Identifier: Apache-2.0 */
#include "wire.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "fake_time.h"
#include "model/answer.h"

enum { CONNECTIONS_MAX = 64, GIVEN_MAX = 1 << 20 };

typedef struct connection {
    int fd, peer; /* the library's end, and ours; 0: not in use */
    int client;
    rm_conn *conn;
    hf__buffer pending; /* not read yet */
    hf__buffer given;   /* already read by the library */
    size_t chunk;       /* bytes given at a time; 0: all */
    bool closing;       /* once everything is read */
    bool mute;          /* nothing passes any more, as on a cut network */
} connection;

wire_state wire;
static connection connections[CONNECTIONS_MAX];

int __wrap_connect(int fd, const struct sockaddr *address, socklen_t length);
ssize_t __real_send(int fd, const void *bytes, size_t length, int flags);
ssize_t __wrap_send(int fd, const void *bytes, size_t length, int flags);
int __real_close(int fd);
int __wrap_close(int fd);

static connection *find_connection(int fd) {
    for (size_t i = 0; i < CONNECTIONS_MAX; i++)
        if (connections[i].peer && connections[i].fd == fd) return &connections[i];
    return NULL;
}

static void drop_connection(connection *l) {
    rm_disconnect(l->conn);
    __real_close(l->peer);
    hf__buffer_fini(&l->pending);
    hf__buffer *past = &wire.past[l->client];
    if (l->given.length && past->length + l->given.length < GIVEN_MAX) {
        hf__buffer_add(past, l->given.data, l->given.length);
        hf__buffer_add(past, "\n", 1);
    }
    hf__buffer_fini(&l->given);
    *l = (connection){0};
}

/* ---- Passing answers to the library ---- */

/* True: there is something new to read, or the end of the stream. */
static bool give_bytes(connection *l) {
    size_t length = l->pending.length;
    if (l->chunk && length > l->chunk) length = l->chunk;
    if (length) {
        ssize_t n = __real_send(l->peer, l->pending.data, length, MSG_NOSIGNAL);
        if (n <= 0) return false; /* the library has stopped reading */
        if (l->given.length + (size_t)n < GIVEN_MAX)
            hf__buffer_add(&l->given, l->pending.data, (size_t)n);
        memmove(l->pending.data, l->pending.data + n, l->pending.length - (size_t)n);
        hf__buffer_cut(&l->pending, l->pending.length - (size_t)n);
        return true;
    }
    if (!l->closing) return false;
    l->closing = false;
    return shutdown(l->peer, SHUT_RDWR) == 0;
}

static bool give_more(void) {
    bool any = false;
    for (size_t i = 0; i < CONNECTIONS_MAX; i++)
        if (connections[i].peer && give_bytes(&connections[i])) any = true;
    return any;
}

/* ---- Changing answers on their way ---- */

/* Change one byte of the server's last answer. */
static void flip_byte(connection *l, size_t from) {
    size_t length = l->pending.length - from, at = input_byte(&wire.control);
    uint8_t by = input_byte(&wire.control);
    if (!length || !by) return;
    l->pending.data[from + at % length] ^= (char)by;
    wire.lied = true;
}

static void add_raw(connection *l) {
    size_t length = input_byte(&wire.control);
    const uint8_t *bytes = input_bytes(&wire.control, &length);
    if (!length) return;
    hf__buffer_add(&l->pending, (const char *)bytes, length);
    wire.lied = true;
}

/* Change a number in it: a lie that parses. */
static void change_number(connection *l, size_t from) {
    uint8_t which = input_byte(&wire.control), digit = input_byte(&wire.control);
    size_t seen = 0;
    for (size_t i = from; i + 1 < l->pending.length; i++) {
        if (!strchr(":*$", l->pending.data[i]) || seen++ != which) continue;
        l->pending.data[i + 1] = (char)digit;
        wire.lied = true;
        return;
    }
}

static void change_answer(connection *l, size_t from) {
    switch (input_byte(&wire.control) % 10) {
    case 1: l->chunk = 1 + input_byte(&wire.control) % 64u; break;
    case 2: flip_byte(l, from); break;
    case 3: /* in the middle of it */
        hf__buffer_cut(&l->pending, from + input_byte(&wire.control) % (l->pending.length - from));
        l->mute = true;
        break;
    case 4: /* replace it, or insert before what comes next */
        wire.lied = true;
        hf__buffer_cut(&l->pending, from);
        add_raw(l);
        break;
    case 5: add_raw(l); break;
    case 6:
        hf__buffer_cut(&l->pending, from);
        l->mute = true;
        break;
    case 7: l->closing = true; break;
    case 8: change_number(l, from); break;
    case 9:
        hf__buffer_cut(&l->pending, from);
        l->closing = l->mute = true;
        break;
    default: break;
    }
}

/* Pass on the server's output to all clients, since one client's release may notify another. */
static void carry_answers(void) {
    for (size_t i = 0; i < CONNECTIONS_MAX; i++) {
        connection *l = &connections[i];
        if (!l->peer || !l->conn->out.length) continue;
        size_t from = l->pending.length;
        if (l->mute) {
            hf__buffer_cut(&l->conn->out, 0);
            continue;
        }
        hf__buffer_add(&l->pending, l->conn->out.data, l->conn->out.length);
        hf__buffer_cut(&l->conn->out, 0);
        change_answer(l, from);
        (void)give_bytes(l);
    }
}

/* ---- The library's calls ---- */

int __wrap_connect(int fd, const struct sockaddr *address, socklen_t length) {
    int ends[2];
    size_t i = 0;
    (void)length;
    if (address->sa_family == AF_UNSPEC) { /* the connection is given up, and closed next */
        errno = EINVAL;
        return -1;
    }
    while (i < CONNECTIONS_MAX && connections[i].peer) i++;
    if (i == CONNECTIONS_MAX || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
        errno = ECONNREFUSED;
        return -1;
    }
    FUZZ_CHECK(dup3(ends[0], fd, O_CLOEXEC) == fd);
    __real_close(ends[0]);
    FUZZ_CHECK(fcntl(ends[1], F_SETFL, O_NONBLOCK) == 0);
    connections[i] = (connection){.fd = fd, .peer = ends[1], .client = wire.client};
    connections[i].conn = rm_connect(&wire.server, NULL);
    hf__buffer_init(&connections[i].pending, RM_BYTES_MAX);
    hf__buffer_init(&connections[i].given, RM_BYTES_MAX);
    return 0;
}

ssize_t __wrap_send(int fd, const void *bytes, size_t length, int flags) {
    connection *l = find_connection(fd);
    if (!l) return __real_send(fd, bytes, length, flags);
    wire.server.now_us = fake_time_unix_us() + wire.skew_us;
    rm_feed(l->conn, bytes, length);
    carry_answers();
    return (ssize_t)length;
}

int __wrap_close(int fd) {
    connection *l = find_connection(fd);
    if (l) drop_connection(l);
    return __real_close(fd);
}

/* ---- Interface ---- */

void wire_begin(input control) {
    wire = (wire_state){.control = control};
    rm_init(&wire.server);
    for (int i = 0; i < WIRE_CLIENTS; i++) hf__buffer_init(&wire.past[i], GIVEN_MAX);
    fake_time_on_idle(give_more);
}

void wire_end(void) {
    for (size_t i = 0; i < CONNECTIONS_MAX; i++)
        FUZZ_CHECK(!connections[i].peer); /* all are closed */
    for (int i = 0; i < WIRE_CLIENTS; i++) hf__buffer_fini(&wire.past[i]);
    rm_fini(&wire.server);
}

static bool has_text(const hf__buffer *b, const char *text) {
    return b->length && memmem(b->data, b->length, text, strlen(text));
}

bool wire_gave(int client, const char *text) {
    bool found = has_text(&wire.past[client], text);
    for (size_t i = 0; i < CONNECTIONS_MAX; i++)
        if (connections[i].peer && connections[i].client == client &&
            has_text(&connections[i].given, text))
            found = true;
    return found;
}

static void run_command(const char *resp) {
    rm_conn *conn = rm_connect(&wire.server, NULL);
    rm_feed(conn, resp, strlen(resp));
    rm_disconnect(conn);
}

void wire_mishap(uint8_t which) {
    wire.server.now_us = fake_time_unix_us() + wire.skew_us;
    switch (which % 6) {
    case 0: wire.server.memory_full = !wire.server.memory_full; break;
    case 1: run_command("*2\r\n$6\r\nSCRIPT\r\n$5\r\nFLUSH\r\n"); break;
    case 2: wire.server.refused = wire.server.refused ? NULL : "publish"; break;
    case 3:
        for (size_t i = 0; i < CONNECTIONS_MAX; i++)
            if (connections[i].peer) connections[i].closing = true;
        break;
    case 4:
        wire.forgetful = true;
        run_command("*1\r\n$8\r\nFLUSHALL\r\n");
        break;
    default:
        wire.forgetful = true;
        wire.skew_us += which & 0x80 ? -5000000 : 5000000;
        break;
    }
}
