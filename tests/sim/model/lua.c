/* SPDX-License-Identifier: Apache-2.0 */
#include "model/lua.h"

#include <lauxlib.h>
#include <lua.h>
#include <lualib.h>
#include <stdlib.h>

#include "model/command.h"

#define CHUNK "@user_script"

/* Keys in Lua's registry: the compiled functions by SHA-1, and the error handler. */
static const char FUNCTIONS = 'f', HANDLER = 'h';

static lua_State *lua;
static rm_rewrite planted;

/* The script that is running, for redis.call. */
static struct {
    rm_server *server;
    rm_conn *conn;
} running;

/* ---- Redis to Lua ---- */

/* Pushes {err = text}. An error without a code of its own gets ERR. */
static int push_error(lua_State *L, const char *text, size_t length) {
    bool code = memchr(text, ' ', length) != NULL;
    lua_newtable(L);
    if (!code) lua_pushliteral(L, "ERR ");
    lua_pushlstring(L, text, length);
    if (!code) lua_concat(L, 2);
    lua_setfield(L, -2, "err");
    return 1;
}

static const char *push_value(lua_State *L, const char *at);

static const char *push_list(lua_State *L, const char *at, long count) {
    if (count < 0) {
        lua_pushboolean(L, 0);
        return at;
    }
    luaL_checkstack(L, 4, "a list in a list");
    lua_createtable(L, (int)count, 0);
    for (int i = 1; i <= count; i++) {
        at = push_value(L, at);
        lua_rawseti(L, -2, i);
    }
    return at;
}

static const char *push_bulk(lua_State *L, const char *at, long length) {
    if (length < 0) {
        lua_pushboolean(L, 0);
        return at;
    }
    lua_pushlstring(L, at, (size_t)length);
    return at + length + 2;
}

/* Pushes one value of an answer; returns the position after it. */
static const char *push_value(lua_State *L, const char *at) {
    const char *line = at + 1, *end = strchr(line, '\r');
    size_t length = (size_t)(end - line);
    switch (*at) {
    case ':': lua_pushnumber(L, (lua_Number)strtoll(line, NULL, 10)); break;
    case '-': push_error(L, line, length); break;
    case '+':
        lua_newtable(L);
        lua_pushlstring(L, line, length);
        lua_setfield(L, -2, "ok");
        break;
    case '$': return push_bulk(L, end + 2, strtol(line, NULL, 10));
    default: return push_list(L, end + 2, strtol(line, NULL, 10));
    }
    return end + 2;
}

/* ---- Lua to Redis ---- */

static void answer_value(lua_State *L, hf__buffer *out);

static void answer_list(lua_State *L, hf__buffer *out) {
    size_t count = 0;
    for (bool more = true; more; count += more) {
        lua_rawgeti(L, -1, (int)count + 1);
        more = !lua_isnil(L, -1);
        lua_pop(L, 1);
    }
    rm_array(out, count);
    for (size_t i = 1; i <= count; i++) {
        lua_rawgeti(L, -1, (int)i);
        answer_value(L, out);
    }
}

/* Returns the field of the table on top if it is a string. The value stays on the stack in any
   case. */
static const char *string_field(lua_State *L, const char *name) {
    lua_pushstring(L, name);
    lua_rawget(L, -2);
    return lua_type(L, -1) == LUA_TSTRING ? lua_tostring(L, -1) : NULL;
}

static void answer_table(lua_State *L, hf__buffer *out) {
    luaL_checkstack(L, 4, "a list in a list");
    const char *error = string_field(L, "err");
    if (error) rm_error(out, "%s", error);
    lua_pop(L, 1);
    if (error) return;
    const char *status = string_field(L, "ok");
    if (status) rm_status(out, status);
    lua_pop(L, 1);
    if (!status) answer_list(L, out);
}

/* Numbers lose their fraction, as in Redis. */
static int64_t truncate_number(lua_Number n) {
    return n >= -9223372036854775808.0 && n < 9223372036854775808.0 ? (int64_t)n : INT64_MIN;
}

/* Writes the value on top as an answer, and pops it. */
static void answer_value(lua_State *L, hf__buffer *out) {
    size_t length;
    switch (lua_type(L, -1)) {
    case LUA_TNUMBER: rm_number(out, truncate_number(lua_tonumber(L, -1))); break;
    case LUA_TTABLE: answer_table(L, out); break;
    case LUA_TSTRING: {
        const char *text = lua_tolstring(L, -1, &length);
        rm_bulk(out, (rm_bytes){text, length});
        break;
    }
    default:
        if (lua_toboolean(L, -1))
            rm_number(out, 1);
        else
            rm_null(out);
    }
    lua_pop(L, 1);
}

/* ---- What scripts may call ---- */

/* Writes numbers with all their digits. Returns false if an argument is neither text nor number. */
static bool take_arguments(lua_State *L, rm_bytes *argv, int argc) {
    for (int i = 0; i < argc; i++) {
        int type = lua_type(L, i + 1);
        if (type == LUA_TNUMBER) {
            char text[64];
            int length = snprintf(text, sizeof text, "%.17g", lua_tonumber(L, i + 1));
            lua_pushlstring(L, text, (size_t)length);
            lua_replace(L, i + 1);
        } else if (type != LUA_TSTRING) {
            return false;
        }
        argv[i].at = lua_tolstring(L, i + 1, &argv[i].length);
    }
    return true;
}

static void push_text_error(lua_State *L, const char *text) {
    push_error(L, text, strlen(text));
}

static void call_redis(lua_State *L) {
    rm_bytes argv[RM_ARGS_MAX];
    int argc = lua_gettop(L);
    if (argc == 0 || argc > RM_ARGS_MAX) {
        push_text_error(L, "ERR Please specify at least one argument for this redis lib call");
    } else if (!take_arguments(L, argv, argc)) {
        push_text_error(L, "ERR Lua redis lib command arguments must be strings or integers");
    } else {
        rm_execute_in_script(running.server, running.conn, argv, (size_t)argc);
        hf__buffer_add(&running.server->lua_out, "", 1);
        push_value(L, running.server->lua_out.data);
    }
}

/* Returns true if the value on top is an error. */
static bool is_error(lua_State *L) {
    if (!lua_istable(L, -1)) return false;
    bool error = string_field(L, "err") != NULL;
    lua_pop(L, 1);
    return error;
}

static int redis_call(lua_State *L) {
    call_redis(L);
    return is_error(L) ? lua_error(L) : 1;
}

static int redis_pcall(lua_State *L) {
    call_redis(L);
    return 1;
}

/* Lua's pcall, except that an error of redis.call is returned as its text alone. */
static int plain_pcall(lua_State *L) {
    lua_pushboolean(L, 1);
    lua_insert(L, 1);
    if (lua_pcall(L, lua_gettop(L) - 2, LUA_MULTRET, 0) == 0) return lua_gettop(L);
    if (is_error(L)) {
        string_field(L, "err");
        lua_replace(L, -2);
    }
    lua_pushboolean(L, 0);
    lua_replace(L, 1);
    return 2;
}

static int redis_sha1hex(lua_State *L) {
    char sha1[RM_SHA1_LENGTH + 1];
    if (lua_gettop(L) != 1) {
        push_text_error(L, "ERR wrong number of arguments");
        return lua_error(L);
    }
    rm_bytes text;
    text.at = lua_tolstring(L, 1, &text.length);
    if (!text.at) text = rm_text("");
    rm_sha1(sha1, text);
    lua_pushstring(L, sha1);
    return 1;
}

static int redis_error_reply(lua_State *L) {
    if (lua_gettop(L) != 1 || lua_type(L, 1) != LUA_TSTRING) {
        push_text_error(L, "ERR wrong number or type of arguments");
        return 1;
    }
    size_t length;
    const char *text = lua_tolstring(L, 1, &length);
    bool minus = *text == '-';
    return push_error(L, text + minus, length - minus);
}

static int redis_status_reply(lua_State *L) {
    if (lua_gettop(L) != 1 || lua_type(L, 1) != LUA_TSTRING) {
        push_text_error(L, "ERR wrong number or type of arguments");
        return 1;
    }
    lua_newtable(L);
    lua_pushvalue(L, 1);
    lua_setfield(L, -2, "ok");
    return 1;
}

static int unknown_global(lua_State *L) {
    return luaL_error(L, "Script attempted to access nonexistent global variable '%s'",
                      lua_tostring(L, 2));
}

static int no_new_global(lua_State *L) {
    return luaL_error(L, "Attempt to modify a readonly table");
}

/* ---- The interpreter ---- */

/* Makes an error {err, source, line}. For errors raised in C, the position is that of the
   script. */
static int error_handler(lua_State *L) {
    lua_Debug place;
    bool known = lua_getstack(L, 1, &place) && lua_getinfo(L, "Sl", &place);
    if (known && *place.what == 'C')
        known = lua_getstack(L, 2, &place) && lua_getinfo(L, "Sl", &place);
    if (!lua_istable(L, 1)) {
        const char *text = lua_tostring(L, 1);
        lua_newtable(L);
        lua_pushfstring(L, "ERR %s", text ? text : luaL_typename(L, 1));
        lua_setfield(L, -2, "err");
        lua_replace(L, 1);
    }
    lua_settop(L, 1);
    if (!known) return 1;
    lua_pushstring(L, place.source);
    lua_setfield(L, 1, "source");
    lua_pushinteger(L, place.currentline);
    lua_setfield(L, 1, "line");
    return 1;
}

static void open_libraries(lua_State *L) {
    static const luaL_Reg libraries[] = {{"", luaopen_base},
                                         {LUA_TABLIBNAME, luaopen_table},
                                         {LUA_STRLIBNAME, luaopen_string},
                                         {LUA_MATHLIBNAME, luaopen_math},
                                         {NULL, NULL}};
    for (const luaL_Reg *l = libraries; l->func; l++) {
        lua_pushcfunction(L, l->func);
        lua_pushstring(L, l->name);
        lua_call(L, 1, 0);
    }
    /* Functions that read from outside or differ from run to run. */
    static const char *const removed[] = {"print", "dofile", "loadfile", NULL};
    for (size_t i = 0; removed[i]; i++) {
        lua_pushnil(L);
        lua_setglobal(L, removed[i]);
    }
    lua_getglobal(L, "math");
    lua_pushnil(L);
    lua_setfield(L, -2, "random");
    lua_pop(L, 1);
}

static void protect_globals(lua_State *L) {
    lua_newtable(L);
    lua_pushcfunction(L, unknown_global);
    lua_setfield(L, -2, "__index");
    lua_pushcfunction(L, no_new_global);
    lua_setfield(L, -2, "__newindex");
    lua_setmetatable(L, LUA_GLOBALSINDEX);
}

static void keep_in_registry(lua_State *L, const char *key) {
    lua_pushlightuserdata(L, (void *)key);
    lua_insert(L, -2);
    lua_rawset(L, LUA_REGISTRYINDEX);
}

static void push_from_registry(lua_State *L, const char *key) {
    lua_pushlightuserdata(L, (void *)key);
    lua_rawget(L, LUA_REGISTRYINDEX);
}

static void lua_init(void) {
    static const luaL_Reg functions[] = {{"call", redis_call},
                                         {"pcall", redis_pcall},
                                         {"sha1hex", redis_sha1hex},
                                         {"error_reply", redis_error_reply},
                                         {"status_reply", redis_status_reply},
                                         {NULL, NULL}};
    lua = luaL_newstate();
    if (!lua) abort();
    open_libraries(lua);
    luaL_register(lua, "redis", functions);
    lua_pop(lua, 1);
    lua_pushcfunction(lua, plain_pcall);
    lua_setglobal(lua, "pcall");
    lua_newtable(lua);
    keep_in_registry(lua, &FUNCTIONS);
    lua_pushcfunction(lua, error_handler);
    keep_in_registry(lua, &HANDLER);
    protect_globals(lua);
}

void rm_lua_fini(void) {
    if (lua) lua_close(lua);
    lua = NULL;
}

void rm_lua_rewrite(const rm_rewrite *rewrite) {
    rm_lua_fini(); /* drops functions compiled from another text */
    planted = rewrite ? *rewrite : (rm_rewrite){0};
}

/* ---- Compiling ---- */

static bool is_planted(const char *sha1) {
    for (const char *const *s = planted.sha1; s && *s; s++)
        if (!strcmp(*s, sha1)) return true;
    return false;
}

static int load_script(const char *sha1, rm_bytes text) {
    const char *found =
        is_planted(sha1) ? memmem(text.at, text.length, planted.find, strlen(planted.find)) : NULL;
    if (!found) return luaL_loadbuffer(lua, text.at, text.length, CHUNK);
    luaL_Buffer b;
    const char *after = found + strlen(planted.find);
    luaL_buffinit(lua, &b);
    luaL_addlstring(&b, text.at, (size_t)(found - text.at));
    luaL_addstring(&b, planted.replace);
    luaL_addlstring(&b, after, (size_t)(text.at + text.length - after));
    luaL_pushresult(&b);
    size_t length;
    const char *changed = lua_tolstring(lua, -1, &length);
    int status = luaL_loadbuffer(lua, changed, length, CHUNK);
    lua_remove(lua, -2);
    return status;
}

bool rm_lua_compile(const char *sha1, rm_bytes text, hf__buffer *out) {
    if (!lua) lua_init();
    push_from_registry(lua, &FUNCTIONS);
    lua_getfield(lua, -1, sha1);
    bool compiled = !lua_isnil(lua, -1);
    lua_pop(lua, 1);
    if (!compiled) {
        compiled = load_script(sha1, text) == 0;
        if (compiled)
            lua_setfield(lua, -2, sha1);
        else
            rm_error(out, "ERR Error compiling script (new function): %s", lua_tostring(lua, -1));
    }
    lua_settop(lua, 0);
    return compiled;
}

/* ---- Running ---- */

static void set_list(const char *name, const rm_bytes *list, size_t count) {
    lua_pushstring(lua, name);
    lua_createtable(lua, (int)count, 0);
    for (size_t i = 0; i < count; i++) {
        lua_pushlstring(lua, list[i].at, list[i].length);
        lua_rawseti(lua, -2, (int)i + 1);
    }
    lua_rawset(lua, LUA_GLOBALSINDEX);
}

static void answer_failure(hf__buffer *out, const char *sha1) {
    const char *text = string_field(lua, "err");
    lua_getfield(lua, -2, "source");
    lua_getfield(lua, -3, "line");
    const char *source = lua_tostring(lua, -2), *line = lua_tostring(lua, -1);
    if (source && line)
        rm_error(out, "%s script: %s, on %s:%s.", text ? text : "ERR unknown error", sha1, source,
                 line);
    else
        rm_error(out, "%s", text ? text : "ERR unknown error");
}

void rm_lua_run(rm_call *c, const char *sha1, size_t key_count) {
    rm_server *server = c->server;
    int db = c->conn->db;
    set_list("KEYS", c->argv + 3, key_count);
    set_list("ARGV", c->argv + 3 + key_count, c->argc - 3 - key_count);
    push_from_registry(lua, &HANDLER);
    push_from_registry(lua, &FUNCTIONS);
    lua_getfield(lua, -1, sha1);
    lua_remove(lua, -2);
    running.server = server;
    running.conn = c->conn;
    server->in_script = true;
    server->script_wrote = false;
    server->script_full = server->memory_full;
    int failed = lua_pcall(lua, 0, 1, 1);
    server->in_script = false;
    c->conn->db = db;
    if (failed)
        answer_failure(c->out, sha1);
    else
        answer_value(lua, c->out);
    lua_settop(lua, 0);
}
