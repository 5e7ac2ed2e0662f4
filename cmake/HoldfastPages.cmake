# Manual pages and completions, made of the command's help and of the header (scripts/pages).
find_program(HOLDFAST_PYTHON python3)
if(NOT HOLDFAST_PYTHON OR CMAKE_CROSSCOMPILING)
    message(STATUS "manual pages and completions are left out: they need python3, and to run the command")
    return()
endif()

# For packages: pages are compressed then, and there is a changelog as Debian wants it.
option(HOLDFAST_DEBIAN "Make what goes into Debian packages" OFF)
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
