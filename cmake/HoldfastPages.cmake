# SPDX-License-Identifier: Apache-2.0
# Manual pages and completions. scripts/pages makes them from the command's help and the header.
find_program(HOLDFAST_PYTHON python3)
if(NOT HOLDFAST_PYTHON OR CMAKE_CROSSCOMPILING)
    message(STATUS
        "manual pages and completions are left out: they need python3 and a command that runs here")
    return()
endif()

# For packages: compressed pages, and a changelog in the format of Debian.
option(HOLDFAST_DEBIAN "Make the files for Debian packages" OFF)
set(HOLDFAST_CONTACT "The Holdfast authors <maintainers@holdfast.invalid>")
set(HOLDFAST_PACKAGE_VERSION "${PROJECT_VERSION}-1")
if(HOLDFAST_DEBIAN)
    set(packed "${HOLDFAST_CONTACT}" "${HOLDFAST_PACKAGE_VERSION}")
endif()

set(HOLDFAST_PAGES "${PROJECT_BINARY_DIR}/pages")
file(GLOB page_sources CONFIGURE_DEPENDS
    "${PROJECT_SOURCE_DIR}/scripts/pages/*.py" "${PROJECT_SOURCE_DIR}/docs/man/*.md")
add_custom_command(OUTPUT "${HOLDFAST_PAGES}.made"
    COMMAND "${HOLDFAST_PYTHON}" -B "${PROJECT_SOURCE_DIR}/scripts/pages"
        "${HOLDFAST_PAGES}" $<TARGET_FILE:holdfast-cli> ${packed}
    COMMAND "${CMAKE_COMMAND}" -E touch "${HOLDFAST_PAGES}.made"
    DEPENDS holdfast-cli ${page_sources} "${PROJECT_SOURCE_DIR}/include/holdfast.h"
        "${PROJECT_SOURCE_DIR}/CHANGELOG.md"
    COMMENT "Making manual pages and completions"
    VERBATIM)
add_custom_target(pages ALL DEPENDS "${HOLDFAST_PAGES}.made")
