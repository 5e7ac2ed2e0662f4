# SPDX-License-Identifier: Apache-2.0
# Warnings and hardening for all targets of this project.
#
# They are set per target, not per directory, so that they do not affect a project that includes
# Holdfast with add_subdirectory.

include(CheckCCompilerFlag)
include(CheckLinkerFlag)

set(HF_WARNINGS
    -Wall -Wextra -Wconversion -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wvla -Wformat=2)
if(HOLDFAST_WERROR)
    list(APPEND HF_WARNINGS -Werror)
endif()

# Some processors and linkers do not support all of these.
set(HF_HARDENING)
foreach(flag -fstack-protector-strong -fstack-clash-protection -fcf-protection)
    string(MAKE_C_IDENTIFIER "HF_HAS${flag}" known)
    check_c_compiler_flag(${flag} ${known})
    if(${known})
        list(APPEND HF_HARDENING ${flag})
    endif()
endforeach()
check_linker_flag(C "-Wl,-z,relro,-z,now" HF_HAS_RELRO)

function(hf_set_flags target)
    set_target_properties(${target} PROPERTIES
        C_STANDARD 11 C_STANDARD_REQUIRED ON C_EXTENSIONS OFF C_VISIBILITY_PRESET hidden)
    target_compile_definitions(${target} PRIVATE _GNU_SOURCE)
    target_compile_options(${target} PRIVATE ${HF_WARNINGS} ${HF_HARDENING}
        # Works only in optimised code, and disturbs the sanitizers, which build as Debug.
        "$<$<CONFIG:Release,RelWithDebInfo,MinSizeRel>:-U_FORTIFY_SOURCE;-D_FORTIFY_SOURCE=2>")
    get_target_property(type ${target} TYPE)
    if(HF_HAS_RELRO AND type MATCHES "SHARED|EXECUTABLE")
        target_link_options(${target} PRIVATE "LINKER:-z,relro,-z,now")
    endif()
endfunction()
