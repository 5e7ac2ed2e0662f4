/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lua for the model. All servers of the process share one interpreter, and compiled scripts stay
 * compiled. Each server has its own list of known scripts.
 */
#ifndef SIM_MODEL_LUA_H
#define SIM_MODEL_LUA_H

#include "model/command.h"

/*
 * Plants a bug: `find` in the text of these scripts is replaced by `replace`. The scripts keep
 * their names, the SHA-1 of the original text. NULL plants nothing.
 */
typedef struct rm_rewrite {
    const char *const *sha1; /* of every affected script; ends with NULL */
    const char *find, *replace;
} rm_rewrite;

void rm_lua_rewrite(const rm_rewrite *rewrite);

/* Compiles the script unless it is compiled. Returns false after answering a syntax error. */
bool rm_lua_compile(const char *sha1, rm_bytes text, hf__buffer *out);

/* Runs a compiled script with the keys and arguments of EVAL or EVALSHA, and answers. */
void rm_lua_run(rm_call *call, const char *sha1, size_t key_count);

/* Frees the interpreter; it is created again when needed. */
void rm_lua_fini(void);

#endif
