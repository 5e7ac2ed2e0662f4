# SPDX-License-Identifier: Apache-2.0
# hf_add_test(NAME name SOURCES file.c... [LABELS label...] [TIMEOUT seconds] [ARGS arg...]
#             [LIBS library...] [MANUAL | UNREGISTERED])
#
# Builds the cmocka program `name` and registers it with CTest under that name. The program can
# include from src/ and tests/lib. It links the static library, so that it can call internal
# functions. With MANUAL the program is only built, for a target of the Makefile. With UNREGISTERED
# it is only built, and the caller registers its tests.
#
# Labels:
#     sanitize-skip   not run with asan and tsan
#     tsan-skip       not run with tsan
#     threads         exists for tsan
#     server          starts a server, so it also runs on other servers (scripts/test-servers)

find_package(PkgConfig REQUIRED)
pkg_check_modules(CMOCKA REQUIRED IMPORTED_TARGET cmocka)

# If a test run excludes labels, their programs need not be built. HOLDFAST_SKIP_LABELS lists these
# labels; `manual` means MANUAL. An excluded program can still be built by name.
set(HOLDFAST_SKIP_LABELS "" CACHE STRING "Labels of tests whose programs are not built by default")
mark_as_advanced(HOLDFAST_SKIP_LABELS)

# hf_label_target(target label...)
function(hf_label_target target)
    foreach(label IN LISTS ARGN)
        if(label IN_LIST HOLDFAST_SKIP_LABELS)
            set_target_properties(${target} PROPERTIES EXCLUDE_FROM_ALL ON)
        endif()
    endforeach()
endfunction()

# hf_forbid_skipping(test...): in CI a skipped test counts as failed.
function(hf_forbid_skipping)
    if(DEFINED ENV{CI})
        set_tests_properties(${ARGN} PROPERTIES FAIL_REGULAR_EXPRESSION "\\[ +SKIPPED +\\]")
    endif()
endfunction()

function(hf_add_test)
    cmake_parse_arguments(PARSE_ARGV 0 test
        "MANUAL;UNREGISTERED" "NAME;TIMEOUT" "SOURCES;LABELS;ARGS;LIBS")
    if(test_UNPARSED_ARGUMENTS OR NOT test_NAME OR NOT test_SOURCES)
        message(FATAL_ERROR
            "hf_add_test needs NAME and SOURCES; unknown arguments: '${test_UNPARSED_ARGUMENTS}'")
    endif()
    if(NOT test_TIMEOUT)
        set(test_TIMEOUT 180) # far more than any test takes, because a machine may be slow
    endif()

    add_executable(${test_NAME} ${test_SOURCES})
    hf_set_flags(${test_NAME})
    target_include_directories(${test_NAME} PRIVATE
        "${PROJECT_SOURCE_DIR}/src" "${PROJECT_SOURCE_DIR}/tests/lib")
    target_link_libraries(${test_NAME} PRIVATE
        ${test_LIBS} $<TARGET_NAME_IF_EXISTS:hf_testlib> holdfast_static
        PkgConfig::CMOCKA PkgConfig::HIREDIS Threads::Threads)

    if(test_MANUAL)
        list(APPEND test_LABELS manual)
    endif()
    hf_label_target(${test_NAME} ${test_LABELS})
    if(test_MANUAL OR test_UNREGISTERED)
        return()
    endif()
    add_test(NAME ${test_NAME} COMMAND ${test_NAME} ${test_ARGS})
    set_tests_properties(${test_NAME} PROPERTIES LABELS "${test_LABELS}" TIMEOUT ${test_TIMEOUT})
    hf_forbid_skipping(${test_NAME})
endfunction()
