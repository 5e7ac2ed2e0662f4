/* SPDX-License-Identifier: Apache-2.0 */
/* See t_net.h. */
#include "t_net.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "t_fail.h"
#include "t_time.h"

#define PORT_FIRST 10240
#define PORT_LAST  32767
#define DRAWS_MAX  1000
#define RESERVED   64

static struct sockaddr_in loopback_address(uint16_t port) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return address;
}

static int tcp_socket(int flags) {
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | flags, 0);
    if (fd < 0) t_fail("socket: %s", strerror(errno));
    return fd;
}

static void set_flag(int fd, int level, int option) {
    int on = 1;
    if (setsockopt(fd, level, option, &on, sizeof on) != 0) {
        t_fail("setsockopt: %s", strerror(errno));
    }
}

static uint16_t draw_port(void) {
    uint32_t random;
    if (getrandom(&random, sizeof random, 0) != sizeof random) t_fail("cannot read random bytes");
    return (uint16_t)(PORT_FIRST + random % (PORT_LAST - PORT_FIRST + 1));
}

static int listen_on(uint16_t port) {
    struct sockaddr_in address = loopback_address(port);
    int fd = tcp_socket(SOCK_NONBLOCK);
    set_flag(fd, SOL_SOCKET, SO_REUSEADDR);
    if (bind(fd, (struct sockaddr *)&address, sizeof address) == 0 && listen(fd, SOMAXCONN) == 0) {
        return fd;
    }
    close(fd);
    return -1;
}

int t_net_listen(uint16_t port) {
    t_net_unreserve(port);
    return listen_on(port);
}

int t_net_listen_any(uint16_t *port) {
    for (int i = 0; i < DRAWS_MAX; i++) {
        *port = draw_port();
        int fd = listen_on(*port);
        if (fd >= 0) return fd;
    }
    t_fail("cannot listen on any of %d random ports", DRAWS_MAX);
}

void t_net_unlisten(int fd) {
    if (fd < 0) return;
    (void)shutdown(fd, SHUT_RDWR);
    close(fd);
}

uint16_t t_net_free_port(void) {
    uint16_t port;
    t_net_unlisten(t_net_listen_any(&port));
    return port;
}

/* ---- Ports of servers that are down ---- */

static struct {
    uint16_t port; /* 0: none */
    int fd;
} reserved[RESERVED];
static pthread_mutex_t reserved_mutex = PTHREAD_MUTEX_INITIALIZER;

static void set_reuse(int fd, int on) {
    if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) != 0)
        t_fail("setsockopt: %s", strerror(errno));
}

/* Bound with SO_REUSEADDR, because connections of the server may still be closing. Without it
   afterwards, so that no other socket can listen on the port. */
static int bind_only(uint16_t port) {
    struct sockaddr_in address = loopback_address(port);
    int fd = tcp_socket(0);
    set_reuse(fd, 1);
    if (bind(fd, (struct sockaddr *)&address, sizeof address) == 0) {
        set_reuse(fd, 0);
        return fd;
    }
    close(fd);
    return -1;
}

void t_net_reserve(uint16_t port) {
    t_net_unreserve(port);
    pthread_mutex_lock(&reserved_mutex);
    int i = 0;
    while (i < RESERVED && reserved[i].port) i++;
    int fd = i < RESERVED ? bind_only(port) : -1;
    if (fd >= 0) {
        reserved[i].port = port;
        reserved[i].fd = fd;
    }
    pthread_mutex_unlock(&reserved_mutex);
}

/* A forked child may share the socket: it must not keep the port. */
void t_net_unreserve(uint16_t port) {
    pthread_mutex_lock(&reserved_mutex);
    for (int i = 0; i < RESERVED; i++) {
        if (!port || reserved[i].port != port) continue;
        set_reuse(reserved[i].fd, 1);
        close(reserved[i].fd);
        reserved[i].port = 0;
    }
    pthread_mutex_unlock(&reserved_mutex);
}

static int start_connect(int fd, const struct sockaddr *address, socklen_t length) {
    if (connect(fd, address, length) == 0 || errno == EINPROGRESS) return fd;
    close(fd);
    return -1;
}

int t_net_connect_start(uint16_t port) {
    struct sockaddr_in address = loopback_address(port);
    int fd = tcp_socket(SOCK_NONBLOCK);
    set_flag(fd, IPPROTO_TCP, TCP_NODELAY);
    return start_connect(fd, (struct sockaddr *)&address, sizeof address);
}

int t_net_connect_unix_start(const char *path) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (strlen(path) >= sizeof address.sun_path) t_fail("path of a socket too long: %s", path);
    memcpy(address.sun_path, path, strlen(path));
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) t_fail("socket: %s", strerror(errno));
    return start_connect(fd, (struct sockaddr *)&address, sizeof address);
}

int t_net_connect(uint16_t port) {
    struct sockaddr_in address = loopback_address(port);
    struct timeval limit = {.tv_sec = (time_t)t_patience(10000) / 1000};
    int fd = tcp_socket(0);
    set_flag(fd, IPPROTO_TCP, TCP_NODELAY);
    (void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    (void)setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
    if (connect(fd, (struct sockaddr *)&address, sizeof address) == 0) return fd;
    close(fd);
    t_fail("cannot connect to port %u: %s", port, strerror(errno));
}

bool t_net_accepts(uint16_t port) {
    struct sockaddr_in address = loopback_address(port);
    int fd = tcp_socket(0);
    bool accepted = connect(fd, (struct sockaddr *)&address, sizeof address) == 0;
    close(fd);
    return accepted;
}

void t_net_reset(int fd) {
    if (fd < 0) return;
    /* Connecting to AF_UNSPEC aborts a TCP connection even while a forked child also has it
       open. */
    struct linger abort_it = {.l_onoff = 1, .l_linger = 0};
    struct sockaddr nowhere = {.sa_family = AF_UNSPEC};
    (void)setsockopt(fd, SOL_SOCKET, SO_LINGER, &abort_it, sizeof abort_it);
    if (connect(fd, &nowhere, sizeof nowhere) != 0) (void)shutdown(fd, SHUT_RDWR);
    close(fd);
}

char *t_net_printable(const void *bytes, size_t length, char *text, size_t size) {
    const unsigned char *in = bytes;
    size_t out = 0;
    for (size_t i = 0; i < length && out + 5 < size; i++) {
        if (in[i] == '\r' || in[i] == '\n') {
            text[out++] = '\\';
            text[out++] = in[i] == '\r' ? 'r' : 'n';
        } else if (in[i] >= ' ' && in[i] < 127) {
            text[out++] = (char)in[i];
        } else {
            out += (size_t)snprintf(text + out, size - out, "\\x%02x", in[i]);
        }
    }
    text[out] = '\0';
    return text;
}
