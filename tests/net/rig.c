/* SPDX-License-Identifier: Apache-2.0 */
#include "rig.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

rig *rig_new(hf__transport transport, const char *host, uint16_t port, const char *options) {
    char text[512];
    rig *r = calloc(1, sizeof *r);
    assert_non_null(r);
    if (transport == HF__UNIX_SOCKET)
        snprintf(text, sizeof text, "redis+unix://%s?%s", host, options);
    else
        snprintf(text, sizeof text, "%s://:" SECRET "@%s:%u?%s",
                 transport == HF__TCP_TLS ? "rediss" : "redis", host, port, options);
    T_HF(HF_OK, hf__url_parse(&r->url, text));
    if (!r->url.connect_timeout_ms) r->url.connect_timeout_ms = t_patience(30000);
    r->url.command_timeout_ms = t_patience(30000);
    pthread_mutex_init(&r->mutex, NULL);
    hf__connection_init(&r->c, &r->url, transport, OUT_MAX, &r->log);
    hf__buffer_init(&r->out, OUT_MAX);
    hf__buffer_init(&r->got, (size_t)4 << 20);
    r->peer = -1;
    pthread_mutex_lock(&r->mutex);
    return r;
}

void rig_free(rig *r) {
    pthread_mutex_unlock(&r->mutex);
    hf__connection_fini(&r->c, false);
    hf__buffer_fini(&r->out);
    hf__buffer_fini(&r->got);
    hf__url_fini(&r->url);
    pthread_mutex_destroy(&r->mutex);
    if (r->peer >= 0) close(r->peer);
    free(r);
}

static void read_once(rig *r) {
    const char *bytes;
    size_t length = hf__connection_read(&r->c, HF__READ_AT_ONCE, &r->mutex, &bytes);
    if (length) hf__buffer_add(&r->got, bytes, length);
    assert_false(r->got.failed);
    if (length > r->longest) r->longest = length;
}

void rig_turn(rig *r) {
    hf__connection_tick(&r->c, hf__now());
    if (r->c.state == HF__NET_LOGIN && !r->stays_out) hf__connection_up(&r->c, false);
    do (void)hf__connection_take(&r->c, &r->out);
    while (hf__connection_send(&r->c, &r->mutex));
    struct pollfd p = hf__connection_poll(&r->c, !r->ignores);
    pthread_mutex_unlock(&r->mutex);
    (void)poll(&p, 1, 1);
    pthread_mutex_lock(&r->mutex);
    if (hf__connection_ready(&r->c, p.revents)) read_once(r);
}

void rig_up(rig *r, int listener) {
    RIG_UNTIL(r, r->c.state == HF__NET_UP);
    assert_int_equal(r->c.down_result, HF_OK);
    assert_null(r->c.down_detail);
    if (listener < 0) return;
    if (r->peer >= 0) close(r->peer);
    RIG_UNTIL(r, (r->peer = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0);
}

void rig_fails(rig *r, hf_result result, const char *says) {
    RIG_UNTIL(r, r->c.failures > 0);
    const char *line = r->c.down_detail;
    assert_non_null(line);
    if (r->c.down_result != result || !strstr(line, says))
        t_fail("it failed with %s (%s), not %s (%s)", hf_result_name(r->c.down_result), line,
               hf_result_name(result), says);
    assert_non_null(strstr(line, r->url.path ? r->url.path : r->url.host));
    assert_null(strstr(line, SECRET));
    assert_null(strchr(line, '\n'));
    assert_int_equal(r->c.state, HF__NET_IDLE);
    assert_int_equal(r->c.fd, -1);
}

ssize_t rig_peer_recv(rig *r, void *bytes, size_t size) {
    ssize_t n = -1;
    RIG_UNTIL(r, (n = recv(r->peer, bytes, size, MSG_DONTWAIT)) >= 0 || errno != EAGAIN);
    return n;
}

void rig_check_stream(const char *bytes, size_t length, size_t from) {
    for (size_t i = 0; i < length; i++)
        if (bytes[i] != rig_byte(from + i)) t_fail("byte %zu of the stream is wrong", from + i);
}

size_t rig_fill(rig *r, size_t from) {
    assert_true(r->out.length <= OUT_MAX);
    while (r->out.length < OUT_MAX) {
        char byte = rig_byte(from++);
        hf__buffer_add(&r->out, &byte, 1);
    }
    assert_false(r->out.failed);
    hf__buffer_add(&r->out, "x", 1);
    assert_true(r->out.failed);
    hf__buffer_cut(&r->out, OUT_MAX);
    return from;
}
