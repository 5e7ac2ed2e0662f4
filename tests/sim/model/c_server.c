/* SPDX-License-Identifier: Apache-2.0 */
/* Commands on the connection and the server itself. */
#include <stdio.h>

#include "model/command.h"

static void c_ping(rm_call *c) {
    bool subscribed = c->conn->subscribed && !c->server->in_script;
    if (c->argc > 2) {
        rm_error(c->out, "ERR wrong number of arguments for 'ping' command");
    } else if (subscribed) {
        rm_array(c->out, 2);
        rm_bulk(c->out, rm_text("pong"));
        rm_bulk(c->out, c->argc == 2 ? c->argv[1] : rm_text(""));
    } else if (c->argc == 2) {
        rm_bulk(c->out, c->argv[1]);
    } else {
        rm_status(c->out, "PONG");
    }
}

static void c_time(rm_call *c) {
    char text[32];
    rm_array(c->out, 2);
    snprintf(text, sizeof text, "%lld", (long long)(c->server->now_us / 1000000));
    rm_bulk(c->out, rm_text(text));
    snprintf(text, sizeof text, "%lld", (long long)(c->server->now_us % 1000000));
    rm_bulk(c->out, rm_text(text));
}

/* Answers the fields of the section `server` that Holdfast reads. Uptime is in whole seconds, as
   in Redis. */
static void c_info(rm_call *c) {
    char text[64];
    snprintf(text, sizeof text, "# Server\r\nuptime_in_seconds:%lld\r\n",
             (long long)(c->server->now_us / 1000000 - c->server->started_us / 1000000));
    rm_bulk(c->out, rm_text(text));
}

/* A primary answers without replicas. A replica only says that it is one: no client asks for its
   primary. */
static void c_role(rm_call *c) {
    rm_array(c->out, 3);
    rm_bulk(c->out, rm_text(c->server->replica ? "slave" : "master"));
    rm_number(c->out, (int64_t)c->server->offset);
    rm_array(c->out, 0);
}

static void c_wait(rm_call *c) {
    int64_t replicas, timeout_ms;
    if (!rm_arg_integer(c, 1, &replicas) || !rm_arg_integer(c, 2, &timeout_ms)) return;
    if (c->server->wait)
        c->server->wait(c->server->watch_arg, c->conn, replicas, timeout_ms);
    else
        rm_number(c->out, 0);
}

static void c_auth(rm_call *c) {
    const char *password = c->server->password;
    bool right_user = c->argc < 3 || rm_same(c->argv[1], rm_text("default"));
    if (c->argc > 3)
        rm_error(c->out, RM_SYNTAX);
    else if (c->argc == 2 && !password)
        rm_error(c->out, "ERR AUTH <password> called without any password configured for the "
                         "default user. Are you sure your configuration is correct?");
    else if (!right_user || (password && !rm_same(c->argv[c->argc - 1], rm_text(password))))
        rm_error(c->out, "WRONGPASS invalid username-password pair or user is disabled.");
    else {
        c->conn->authenticated = true;
        rm_status(c->out, "OK");
    }
}

static void c_select(rm_call *c) {
    int64_t db;
    if (!rm_arg_integer(c, 1, &db)) return;
    if (db < INT32_MIN || db > INT32_MAX) {
        rm_error(c->out, "ERR value is out of range, value must between %d and %d", INT32_MIN,
                 INT32_MAX);
        return;
    }
    if (db < 0 || db >= RM_DATABASES) {
        rm_error(c->out, "ERR DB index is out of range");
        return;
    }
    c->conn->db = (int)db;
    rm_status(c->out, "OK");
}

static void c_flushall(rm_call *c) {
    bool how = c->argc == 2 && (rm_is(c->argv[1], "sync") || rm_is(c->argv[1], "async"));
    if (c->argc > 1 && !how) {
        rm_error(c->out, RM_SYNTAX);
        return;
    }
    for (int i = 0; i < RM_DATABASES; i++) rm_keys_clear(&c->server->db[i]);
    rm_status(c->out, "OK");
}

const rm_command rm_commands_server[] = {
    {"time", 1, 0, c_time},
    {"info", -1, 0, c_info},
    {"role", 1, RM_NO_SCRIPT, c_role},
    {"wait", 3, RM_NO_SCRIPT, c_wait},
    {"ping", -1, RM_WHEN_SUBSCRIBED, c_ping},
    {"auth", -2, RM_NO_SCRIPT | RM_NO_AUTH, c_auth},
    {"select", 2, 0, c_select},
    {"flushall", -1, RM_WRITES, c_flushall},
    {0},
};
