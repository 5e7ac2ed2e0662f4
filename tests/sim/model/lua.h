/*
 * Lua for the model. There is one interpreter for all servers of the process, and what it has
 * compiled once stays compiled; which scripts a server knows is the server's own.
 */
#ifndef SIM_MODEL_LUA_H
#define SIM_MODEL_LUA_H

#include "model/command.h"

/*
 * Have scripts run other than they are: where their text has `find`, it has `replace` instead. Their
 * names, the SHA1 of the true text, stay. For planting bugs; NULL plants none.
 */
typedef struct rm_rewrite {
    const char *const *sha1; /* of each that is concerned; ends with NULL */
    const char *find, *replace;
} rm_rewrite;

void rm_lua_rewrite(const rm_rewrite *rewrite);

/* Compile if need be; false: it is no Lua, and that is answered. */
bool rm_lua_compile(const char *sha1, rm_bytes text, hf__buffer *out);

/* Run what was compiled, with the keys and arguments of EVAL or EVALSHA, and answer. */
void rm_lua_run(rm_call *call, const char *sha1, size_t key_count);

/* Give the interpreter back; it is made again when needed. */
void rm_lua_fini(void);

#endif
