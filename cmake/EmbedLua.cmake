# Embeds Lua scripts: each NAME.lua becomes `const hf__script hf__script_NAME`, as declared in
# src/store/redis/script.h.
#
#     hf_embed_lua(<variable> <script.lua>...)     sets the variable to the generated C files
#
# At build time this same file runs as a script, once for each .lua that changed. The text goes
# through CMake as hex digits, and into C as character constants: nothing in a script (quotes,
# backslashes, semicolons, brackets, bytes above 127) can then mean anything to either.

set(HF_EMBED_LUA "${CMAKE_CURRENT_LIST_FILE}")

function(hf_embed_lua variable)
    set(generated)
    foreach(script IN LISTS ARGN)
        get_filename_component(name "${script}" NAME_WE)
        set(output "${CMAKE_CURRENT_BINARY_DIR}/lua/${name}.c")
        add_custom_command(
            OUTPUT "${output}"
            COMMAND "${CMAKE_COMMAND}" "-DINPUT=${script}" "-DOUTPUT=${output}" -P "${HF_EMBED_LUA}"
            DEPENDS "${script}" "${HF_EMBED_LUA}"
            COMMENT "Embedding ${name}.lua"
            VERBATIM)
        list(APPEND generated "${output}")
    endforeach()
    set(${variable} ${generated} PARENT_SCOPE)
endfunction()

if(NOT CMAKE_SCRIPT_MODE_FILE STREQUAL CMAKE_CURRENT_LIST_FILE)
    return()
endif()

get_filename_component(name "${INPUT}" NAME_WE)
if(NOT name MATCHES "^[a-z][a-z0-9_]*$")
    message(FATAL_ERROR "${INPUT}: the name of a script becomes part of a C identifier")
endif()
file(SHA1 "${INPUT}" sha1)
file(READ "${INPUT}" bytes HEX)
string(REGEX REPLACE "(..)" "'\\\\x\\1'," bytes "${bytes}")
string(REPLACE "'\\x0a'," "'\\x0a',\n    " bytes "${bytes}")
file(WRITE "${OUTPUT}" "/* Generated from ${name}.lua: a line here is a line there. */
#include \"store/redis/script.h\"

static const char text[] = {
    ${bytes}'\\0'};

const hf__script hf__script_${name} = {\"${name}\", text, sizeof text - 1, \"${sha1}\"};
")
