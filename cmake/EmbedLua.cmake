# SPDX-License-Identifier: Apache-2.0
# Embeds Lua scripts: each NAME.lua becomes `const hf__script hf__script_NAME`, as declared in
# src/store/redis/protocol/script.h.
#
#     hf_embed_lua(<variable> SCRIPTS <script.lua>... PARTS <part.lua>...)
#
# sets the variable to the generated C files. All paths are absolute.
#
# A line `--@ PART` in a script is replaced by the text of PART.lua. If PART_cluster.lua exists, the
# script has a second text for nodes of a cluster, which uses that part instead.
#
# At build time this same file runs as a script, once for each changed .lua. The text passes through
# CMake as hex digits and into C as character constants. So quotes, backslashes, semicolons,
# brackets and bytes above 127 have no special meaning to either.

set(HF_EMBED_LUA "${CMAKE_CURRENT_LIST_FILE}")

function(hf_embed_lua variable)
    cmake_parse_arguments(PARSE_ARGV 1 embed "" "" "SCRIPTS;PARTS")
    set(generated)
    foreach(script IN LISTS embed_SCRIPTS)
        get_filename_component(name "${script}" NAME_WE)
        set(output "${CMAKE_CURRENT_BINARY_DIR}/lua/${name}.c")
        add_custom_command(
            OUTPUT "${output}"
            COMMAND "${CMAKE_COMMAND}" "-DINPUT=${script}" "-DOUTPUT=${output}"
                "-DPARTS=${embed_PARTS}" -P "${HF_EMBED_LUA}"
            DEPENDS "${script}" ${embed_PARTS} "${HF_EMBED_LUA}"
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
    message(FATAL_ERROR
        "${INPUT}: the name of a script becomes part of a C identifier; use only a-z, 0-9 and _")
endif()

# Writes the complete script next to the output. The hash of this file is the hash of the text that
# is sent.
function(assemble_script suffix whole)
    file(READ "${INPUT}" text)
    foreach(part IN LISTS PARTS PARTS) # twice: a part may include others
        get_filename_component(part_name "${part}" NAME_WE)
        get_filename_component(folder "${part}" DIRECTORY)
        set(other "${folder}/${part_name}${suffix}.lua")
        if(EXISTS "${other}")
            set(part "${other}")
        endif()
        file(READ "${part}" part_text)
        string(REPLACE "--@ ${part_name}\n" "${part_text}" text "${text}")
    endforeach()
    if(text MATCHES "\n--@ ")
        message(FATAL_ERROR "${INPUT}: a line `--@ PART` names a part that does not exist")
    endif()
    file(WRITE "${whole}" "${text}")
endfunction()

function(read_bytes whole variable)
    file(READ "${whole}" bytes HEX)
    string(REGEX REPLACE "(..)" "'\\\\x\\1'," bytes "${bytes}")
    string(REPLACE "'\\x0a'," "'\\x0a',\n    " bytes "${bytes}")
    set(${variable} "${bytes}" PARENT_SCOPE)
endfunction()

set(whole "${OUTPUT}.lua")
set(cluster_whole "${OUTPUT}.cluster.lua")
assemble_script("" "${whole}")
assemble_script("_cluster" "${cluster_whole}")
file(SHA1 "${whole}" sha1)
file(SHA1 "${cluster_whole}" cluster_sha1)
read_bytes("${whole}" bytes)
set(second)
set(cluster "NULL")
if(NOT sha1 STREQUAL cluster_sha1)
    read_bytes("${cluster_whole}" cluster_bytes)
    set(cluster "&in_cluster")
    set(second "
static const char cluster_text[] = {
    ${cluster_bytes}'\\0'};

static const hf__script in_cluster = {\"${name}\", cluster_text, sizeof cluster_text - 1,
                                      \"${cluster_sha1}\", NULL};
")
endif()
file(WRITE "${OUTPUT}" "/* Generated from ${name}.lua. Each line there is one line here. */
#include \"store/redis/protocol/script.h\"

static const char text[] = {
    ${bytes}'\\0'};
${second}
const hf__script hf__script_${name} = {\"${name}\", text, sizeof text - 1, \"${sha1}\", ${cluster}};
")
