/* Between the files of the model: a command under way, and the table of all. */
#ifndef SIM_MODEL_COMMAND_H
#define SIM_MODEL_COMMAND_H

#include "model/answer.h"
#include "model/model.h"

typedef struct rm_call {
    rm_server *server;
    rm_conn *conn; /* in a script that of its caller */
    const rm_bytes *argv;
    size_t argc;
    hf__buffer *out;
    const char *name; /* as in the table */
} rm_call;

typedef void rm_command_fn(rm_call *call);

enum { RM_WRITES = 1, RM_DENY_OOM = 2, RM_NO_SCRIPT = 4, RM_WHEN_SUBSCRIBED = 8, RM_NO_AUTH = 16 };

typedef struct rm_command {
    const char *name; /* in lower case; of a subcommand "script|load" */
    int arity;        /* with the name; negative: at least */
    unsigned flags;
    rm_command_fn *fn; /* NULL: its subcommands follow it */
} rm_command;

/* One list for each kind; ends with a NULL name. */
extern const rm_command rm_commands_keys[], rm_commands_hash[], rm_commands_list[],
    rm_commands_pubsub[], rm_commands_server[], rm_commands_script[];

/* ---- What commands do most ---- */

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

/* The key named by an argument, of that type. *wrong: it is of another, which has been answered. */
rm_key *rm_lookup_as(rm_call *call, size_t argument, rm_type type, bool *wrong);
rm_key *rm_lookup_or_make(rm_call *call, size_t argument, rm_type type, bool *wrong);

/* A collection that has become empty goes. */
void rm_settle_empty(rm_call *call, rm_key *key);

/* An argument as a number; false: the error has been answered. */
bool rm_arg_integer(rm_call *call, size_t argument, int64_t *value);

/* Negative places count from the end; false: nothing lies between them. */
bool rm_clip(int64_t *start, int64_t *stop, size_t count);

/* ---- Scripts (c_script.c) ---- */

bool rm_script_known(const rm_server *server, const char *sha1);
void rm_scripts_forget(rm_server *server);

/* Execute one command of a script; the answer is put into server->lua_out. */
void rm_execute_in_script(rm_server *server, rm_conn *conn, const rm_bytes *argv, size_t argc);

#endif
