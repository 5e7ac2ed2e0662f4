/* SPDX-License-Identifier: Apache-2.0 */
/* Commands on channels. Messages are appended to the answers of their receivers. */
#include <fnmatch.h>
#include <stdlib.h>

#include "model/command.h"

static int64_t channel_at(const rm_conn *conn, rm_bytes name, bool pattern) {
    for (size_t i = 0; i < conn->subscribed; i++)
        if (conn->channels[i].pattern == pattern && rm_same(conn->channels[i].name, name))
            return (int64_t)i;
    return -1;
}

/* ---- Subscribing ---- */

static void answer_subscription(rm_call *c, const char *what, rm_bytes channel) {
    rm_array(c->out, 3);
    rm_bulk(c->out, rm_text(what));
    if (channel.at)
        rm_bulk(c->out, channel);
    else
        rm_null(c->out);
    rm_number(c->out, (int64_t)c->conn->subscribed);
}

static void add_channel(rm_call *c, bool pattern) {
    rm_conn *conn = c->conn;
    for (size_t i = 1; i < c->argc; i++) {
        if (channel_at(conn, c->argv[i], pattern) < 0) {
            conn->channels =
                rm_realloc(conn->channels, (conn->subscribed + 1) * sizeof *conn->channels);
            conn->channels[conn->subscribed++] =
                (rm_channel){{rm_copy(c->argv[i]), c->argv[i].length}, pattern};
        }
        answer_subscription(c, c->name, c->argv[i]);
    }
}

static void unsubscribe_one(rm_call *c, rm_bytes channel, bool pattern) {
    rm_conn *conn = c->conn;
    int64_t at = channel_at(conn, channel, pattern);
    rm_bytes gone = {0};
    if (at >= 0) {
        gone = conn->channels[at].name;
        size_t after = --conn->subscribed - (size_t)at;
        memmove(conn->channels + at, conn->channels + at + 1, after * sizeof *conn->channels);
    }
    answer_subscription(c, c->name, channel);
    free((char *)gone.at);
}

static void remove_channel(rm_call *c, bool pattern) {
    rm_conn *conn = c->conn;
    bool any = c->argc > 1;
    for (size_t i = 1; i < c->argc; i++) unsubscribe_one(c, c->argv[i], pattern);
    for (size_t i = 0; c->argc == 1 && i < conn->subscribed;) {
        if (conn->channels[i].pattern == pattern) {
            unsubscribe_one(c, conn->channels[i].name, pattern);
            any = true;
        } else {
            i++;
        }
    }
    if (!any) answer_subscription(c, c->name, (rm_bytes){0});
}

static void c_subscribe(rm_call *c) {
    add_channel(c, false);
}

static void c_psubscribe(rm_call *c) {
    add_channel(c, true);
}

static void c_unsubscribe(rm_call *c) {
    remove_channel(c, false);
}

static void c_punsubscribe(rm_call *c) {
    remove_channel(c, true);
}

/* ---- Publishing ---- */

/* Returns true if the message was sent, because the channel or a pattern matches. */
static bool send_message(rm_conn *conn, const rm_channel *to, rm_bytes channel, rm_bytes message) {
    if (to->pattern ? fnmatch(to->name.at, channel.at, 0) != 0 : !rm_same(to->name, channel))
        return false;
    rm_array(&conn->out, to->pattern ? 4 : 3);
    rm_bulk(&conn->out, rm_text(to->pattern ? "pmessage" : "message"));
    if (to->pattern) rm_bulk(&conn->out, to->name);
    rm_bulk(&conn->out, channel);
    rm_bulk(&conn->out, message);
    return true;
}

static int64_t send_all(rm_conn *conn, bool patterns, rm_bytes channel, rm_bytes message) {
    int64_t count = 0;
    for (size_t i = 0; i < conn->subscribed; i++)
        if (conn->channels[i].pattern == patterns)
            count += send_message(conn, &conn->channels[i], channel, message);
    return count;
}

int64_t rm_publish(rm_server *server, rm_bytes channel, rm_bytes message) {
    int64_t receivers = 0;
    for (rm_conn *conn = server->conns; conn; conn = conn->next)
        receivers +=
            send_all(conn, false, channel, message) + send_all(conn, true, channel, message);
    return receivers;
}

static void c_publish(rm_call *c) {
    rm_number(c->out, rm_publish(c->server, c->argv[1], c->argv[2]));
    if (c->server->on_publish) c->server->on_publish(c->server->watch_arg, c->argv[1], c->argv[2]);
}

/* Patterns are not counted. */
static void c_numsub(rm_call *c) {
    rm_array(c->out, 2 * (c->argc - 2));
    for (size_t i = 2; i < c->argc; i++) {
        int64_t count = 0;
        for (const rm_conn *conn = c->server->conns; conn; conn = conn->next)
            count += channel_at(conn, c->argv[i], false) >= 0;
        rm_bulk(c->out, c->argv[i]);
        rm_number(c->out, count);
    }
}

const rm_command rm_commands_pubsub[] = {
    {"publish", 3, 0, c_publish},
    {"pubsub", -2, 0, NULL},
    {"pubsub|numsub", -2, 0, c_numsub},
    {"subscribe", -2, RM_NO_SCRIPT | RM_WHEN_SUBSCRIBED, c_subscribe},
    {"unsubscribe", -1, RM_NO_SCRIPT | RM_WHEN_SUBSCRIBED, c_unsubscribe},
    {"psubscribe", -2, RM_NO_SCRIPT | RM_WHEN_SUBSCRIBED, c_psubscribe},
    {"punsubscribe", -1, RM_NO_SCRIPT | RM_WHEN_SUBSCRIBED, c_punsubscribe},
    {0},
};
