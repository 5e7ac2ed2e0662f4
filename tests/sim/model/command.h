/* SPDX-License-Identifier: Apache-2.0 */
/* Internal to the model: the command that is being executed, and the table of all commands. */
#ifndef SIM_MODEL_COMMAND_H
#define SIM_MODEL_COMMAND_H

#include "model/answer.h"
#include "model/model.h"

typedef struct rm_call {
    rm_server *server;
    rm_conn *conn; /* in a script, the connection of its caller */
    const rm_bytes *argv;
    size_t argc;
    hf__buffer *out;
    const char *name; /* as in the table */
} rm_call;

typedef void rm_command_fn(rm_call *call);

enum { RM_WRITES = 1, RM_DENY_OOM = 2, RM_NO_SCRIPT = 4, RM_WHEN_SUBSCRIBED = 8, RM_NO_AUTH = 16 };

typedef struct rm_command {
    const char *name; /* in lower case; "script|load" for a subcommand */
    int arity;        /* with the name; negative: the least number */
    unsigned flags;
    rm_command_fn *fn; /* NULL: its subcommands follow in the table */
} rm_command;

/* One list for each type; ends with a NULL name. */
extern const rm_command rm_commands_keys[], rm_commands_hash[], rm_commands_list[],
    rm_commands_pubsub[], rm_commands_server[], rm_commands_script[];

/* ---- Helpers of commands ---- */

#define RM_WRONG_TYPE   "WRONGTYPE Operation against a key holding the wrong kind of value"
#define RM_SYNTAX       "ERR syntax error"
#define RM_NOT_INTEGER  "ERR value is not an integer or out of range"
#define RM_NOT_FLOAT    "ERR value is not a valid float"
#define RM_OUT_OF_RANGE "ERR value is out of range, must be positive"
#define RM_OOM          "OOM command not allowed when used memory > 'maxmemory'."

static inline int64_t rm_now_ms(const rm_server *server) {
    return server->now_us / 1000;
}

rm_keys *rm_db(const rm_call *call);
rm_key *rm_lookup(const rm_call *call, size_t argument);

/* Returns the key that an argument names. Sets *wrong if it has another type, and answers the
   error. */
rm_key *rm_lookup_as(rm_call *call, size_t argument, rm_type type, bool *wrong);
rm_key *rm_lookup_or_make(rm_call *call, size_t argument, rm_type type, bool *wrong);

/* Removes a collection that has become empty. */
void rm_settle_empty(rm_call *call, rm_key *key);

/* Reads an argument as a number. Returns false if it has answered an error. */
bool rm_arg_integer(rm_call *call, size_t argument, int64_t *value);

/* Clips a range; negative positions count from the end. Returns false if the range is empty. */
bool rm_clip(int64_t *start, int64_t *stop, size_t count);

/* ---- Scripts (c_script.c) ---- */

bool rm_script_known(const rm_server *server, const char *sha1);
void rm_scripts_forget(rm_server *server);

/* Executes one command of a script; the answer goes to server->lua_out. */
void rm_execute_in_script(rm_server *server, rm_conn *conn, const rm_bytes *argv, size_t argc);

#endif
