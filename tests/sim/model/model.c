/* SPDX-License-Identifier: Apache-2.0 */
#include "model/model.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>

#include "model/command.h"

/* ---- Making ---- */

void rm_init(rm_server *server) {
    *server = (rm_server){0};
    for (int i = 0; i < RM_DATABASES; i++) rm_keys_init(&server->db[i]);
    hf__buffer_init(&server->lua_out, RM_BYTES_MAX);
}

void rm_fini(rm_server *server) {
    while (server->conns) rm_disconnect(server->conns);
    for (int i = 0; i < RM_DATABASES; i++) rm_keys_fini(&server->db[i]);
    rm_scripts_forget(server);
    hf__buffer_fini(&server->lua_out);
}

void rm_restart(rm_server *server, bool keep_keys) {
    while (server->conns) rm_disconnect(server->conns);
    rm_scripts_forget(server);
    for (int i = 0; !keep_keys && i < RM_DATABASES; i++) rm_keys_clear(&server->db[i]);
}

rm_conn *rm_connect(rm_server *server, void *owner) {
    rm_conn *conn = rm_alloc(sizeof *conn);
    *conn = (rm_conn){.server = server, .next = server->conns, .owner = owner};
    hf__buffer_init(&conn->in, RM_BYTES_MAX);
    hf__buffer_init(&conn->out, RM_BYTES_MAX);
    if (conn->next) conn->next->prev = conn;
    server->conns = conn;
    return conn;
}

void rm_disconnect(rm_conn *conn) {
    if (conn->prev)
        conn->prev->next = conn->next;
    else
        conn->server->conns = conn->next;
    if (conn->next) conn->next->prev = conn->prev;
    for (size_t i = 0; i < conn->subscribed; i++) free((char *)conn->channels[i].name.at);
    free(conn->channels);
    hf__buffer_fini(&conn->in);
    hf__buffer_fini(&conn->out);
    free(conn);
}

rm_key *rm_look(rm_server *server, const char *name) {
    return rm_keys_find(&server->db[0], rm_text(name), rm_now_ms(server));
}

/* ---- The table ---- */

static const rm_command *in_list(const rm_command *list, rm_bytes name) {
    for (; list->name; list++)
        if (rm_is(name, list->name)) return list;
    return NULL;
}

static const rm_command *find_command(rm_bytes name) {
    static const rm_command *const lists[] = {rm_commands_hash,   rm_commands_keys,
                                              rm_commands_script, rm_commands_server,
                                              rm_commands_list,   rm_commands_pubsub};
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
        const rm_command *found = in_list(lists[i], name);
        if (found) return found;
    }
    return NULL;
}

/* Returns the subcommand that is named, if the command has any. */
static const rm_command *sub_command(const rm_command *command, const rm_bytes *argv, size_t argc) {
    if (!command || command->fn || argc < 2) return command;
    size_t prefix = strlen(command->name);
    while ((++command)->name && !strncmp(command->name, (command - 1)->name, prefix))
        if (rm_is(argv[1], command->name + prefix + 1)) return command;
    return NULL;
}

static bool arity_fits(const rm_command *command, size_t argc) {
    return command->arity < 0 ? argc >= (size_t)-command->arity : argc == (size_t)command->arity;
}

/* ---- Executing ---- */

static void unknown_sub(const rm_call *call) {
    char upper[32];
    size_t length = strlen(call->name);
    for (size_t i = 0; i <= length; i++) upper[i] = (char)toupper((unsigned char)call->name[i]);
    rm_error(call->out, "ERR unknown subcommand '%.128s'. Try %s HELP.", call->argv[1].at, upper);
}

static void answer_unknown(const rm_call *call) {
    char args[128] = "";
    size_t used = 0;
    for (size_t i = 1; i < call->argc && used < sizeof args; i++)
        used += (size_t)snprintf(args + used, sizeof args - used, "'%.*s' ",
                                 (int)(sizeof args - used), call->argv[i].at);
    rm_error(call->out, "ERR unknown command '%.128s', with args beginning with: %s",
             call->argv[0].at, args);
}

/* Checks whether a command may run. Returns false after answering a refusal. */
static bool may_run(const rm_call *call, const rm_command *command) {
    const rm_server *server = call->server;
    if (!arity_fits(command, call->argc)) {
        rm_error(call->out, "ERR wrong number of arguments for '%s' command", command->name);
    } else if (server->password && !call->conn->authenticated && !(command->flags & RM_NO_AUTH)) {
        rm_error(call->out, "NOAUTH Authentication required.");
    } else if (server->refused && !strcmp(server->refused, command->name)) {
        rm_error(call->out, "NOPERM this user has no permissions to run the '%s' command",
                 command->name);
    } else if (server->memory_full && (command->flags & RM_DENY_OOM)) {
        rm_error(call->out, RM_OOM);
    } else if (call->conn->subscribed && !(command->flags & RM_WHEN_SUBSCRIBED)) {
        rm_error(call->out,
                 "ERR Can't execute '%s': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / "
                 "RESET are allowed in this context",
                 command->name);
    } else {
        return true;
    }
    return false;
}

static void execute_command(rm_conn *conn, const rm_bytes *argv, size_t argc) {
    const rm_command *first = find_command(argv[0]), *command = sub_command(first, argv, argc);
    rm_call call = {conn->server, conn, argv, argc, &conn->out, first ? first->name : NULL};
    if (command) call.name = command->name;
    if (!first)
        answer_unknown(&call);
    else if (!command)
        unknown_sub(&call);
    else if (may_run(&call, command)) {
        uint64_t before = conn->server->offset;
        command->fn(&call);
        if (conn->server->offset != before) conn->offset = conn->server->offset;
    }
}

static const char *refused_in_script(const rm_server *server, const rm_command *command,
                                     size_t argc) {
    if (!command) return "ERR Unknown Redis command called from script";
    if (!arity_fits(command, argc))
        return "ERR Wrong number of args calling Redis command from script";
    if (command->flags & RM_NO_SCRIPT) return "ERR This Redis command is not allowed from script";
    if (server->refused && !strcmp(server->refused, command->name))
        return "ERR The user executing the script can't run this command or subcommand";
    if (server->script_full && !server->script_wrote && (command->flags & RM_DENY_OOM))
        return RM_OOM;
    return NULL;
}

void rm_execute_in_script(rm_server *server, rm_conn *conn, const rm_bytes *argv, size_t argc) {
    const rm_command *command = sub_command(find_command(argv[0]), argv, argc);
    hf__buffer_cut(&server->lua_out, 0);
    const char *refused = refused_in_script(server, command, argc);
    if (refused) {
        rm_error(&server->lua_out, "%s", refused);
        return;
    }
    if (command->flags & RM_WRITES) server->script_wrote = true;
    rm_call call = {server, conn, argv, argc, &server->lua_out, command->name};
    command->fn(&call);
}

/* ---- Requests ---- */

/* Reads a line of digits after `mark`. Returns false if it is incomplete, or `*bad`. */
static bool read_length(const hf__buffer *in, size_t *at, char mark, int64_t *n, bool *bad) {
    const char *begin = in->data + *at, *end = in->data + in->length;
    const char *line = begin < end ? memchr(begin, '\n', (size_t)(end - begin)) : NULL;
    if (begin < end && *begin != mark) *bad = true;
    if (*bad || !line) return false;
    *bad = line[-1] != '\r' || !rm_integer((rm_bytes){begin + 1, (size_t)(line - begin) - 2}, n) ||
           *n < 0 || *n > RM_BYTES_MAX;
    *at += (size_t)(line - begin) + 1;
    return !*bad;
}

/* Reads one request from `*at` on. Returns false if it is incomplete, or `*bad`. */
static bool read_request(const hf__buffer *in, size_t *at, rm_bytes *argv, size_t *argc,
                         bool *bad) {
    int64_t count, length;
    if (!read_length(in, at, '*', &count, bad)) return false;
    *bad = count > RM_ARGS_MAX;
    for (*argc = 0; !*bad && *argc < (size_t)count; ++*argc) {
        if (!read_length(in, at, '$', &length, bad)) return false;
        if (in->length - *at < (size_t)length + 2) return false;
        argv[*argc] = (rm_bytes){in->data + *at, (size_t)length};
        /* Replaces the CR, so that arguments are C strings too. */
        in->data[*at + (size_t)length] = '\0';
        *at += (size_t)length + 2;
    }
    return !*bad;
}

void rm_feed(rm_conn *conn, const char *bytes, size_t length) {
    hf__buffer *in = &conn->in;
    hf__buffer_add(in, bytes, length);
    size_t done = 0, at = 0, argc;
    rm_bytes argv[RM_ARGS_MAX];
    while (!conn->failed && read_request(in, &at, argv, &argc, &conn->failed)) {
        if (argc) execute_command(conn, argv, argc);
        done = at;
    }
    if (!done) return;
    memmove(in->data, in->data + done, in->length - done);
    hf__buffer_cut(in, in->length - done);
}

/* ---- Helpers of commands ---- */

rm_keys *rm_db(const rm_call *call) {
    return &call->server->db[call->conn->db];
}

rm_key *rm_lookup(const rm_call *call, size_t argument) {
    return rm_keys_find(rm_db(call), call->argv[argument], rm_now_ms(call->server));
}

rm_key *rm_lookup_as(rm_call *call, size_t argument, rm_type type, bool *wrong) {
    rm_key *key = rm_lookup(call, argument);
    *wrong = key && key->type != type;
    if (*wrong) rm_error(call->out, RM_WRONG_TYPE);
    return key;
}

rm_key *rm_lookup_or_make(rm_call *call, size_t argument, rm_type type, bool *wrong) {
    rm_key *key = rm_lookup_as(call, argument, type, wrong);
    return key ? key : rm_keys_make(rm_db(call), call->argv[argument], type);
}

void rm_settle_empty(rm_call *call, rm_key *key) {
    if (!key->count) rm_keys_remove(rm_db(call), key);
}

bool rm_arg_integer(rm_call *call, size_t argument, int64_t *value) {
    if (rm_integer(call->argv[argument], value)) return true;
    rm_error(call->out, RM_NOT_INTEGER);
    return false;
}

bool rm_clip(int64_t *start, int64_t *stop, size_t count) {
    int64_t n = (int64_t)count;
    if (*start < 0) *start += n;
    if (*stop < 0) *stop += n;
    if (*start < 0) *start = 0;
    if (*stop >= n) *stop = n - 1;
    return *start <= *stop && *start < n;
}
