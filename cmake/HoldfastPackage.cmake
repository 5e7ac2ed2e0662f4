# SPDX-License-Identifier: Apache-2.0
# The Debian packages of `make package`: the library, its development files, and the command. The
# command contains the library, and depends on none of the others.

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME holdfast)
set(CPACK_PACKAGE_CONTACT "${HOLDFAST_CONTACT}")
set(CPACK_PACKAGE_VERSION "${PROJECT_VERSION}")
set(CPACK_PACKAGING_INSTALL_PREFIX "${CMAKE_INSTALL_PREFIX}")
set(CPACK_STRIP_FILES ON)
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "") # each package has its own

set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_COMPONENTS_ALL lib dev tool)
set(CPACK_COMPONENTS_GROUPING IGNORE)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
string(REGEX REPLACE "^.*-" "" CPACK_DEBIAN_PACKAGE_RELEASE "${HOLDFAST_PACKAGE_VERSION}")
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON) # the libraries that the binaries need, with their versions
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)

function(hf_package component name section description)
    string(TOUPPER "${component}" key)
    set(CPACK_DEBIAN_${key}_PACKAGE_NAME "${name}" PARENT_SCOPE)
    set(CPACK_DEBIAN_${key}_PACKAGE_SECTION "${section}" PARENT_SCOPE)
    set(CPACK_COMPONENT_${key}_DESCRIPTION "${description}" PARENT_SCOPE)
    install(DIRECTORY "${HOLDFAST_PAGES}/doc/" COMPONENT ${component}
        DESTINATION "${CMAKE_INSTALL_DATAROOTDIR}/doc/${name}")
endfunction()

hf_package(lib libholdfast0 libs "distributed locks: the library
Locks with leases, renewal and fencing tokens, kept in a Redis or Valkey
server or, for one machine, in a directory.")
hf_package(dev libholdfast-dev libdevel "distributed locks: development files
The headers for C and C++, the static library, manual pages, and files
for pkg-config and CMake.")
hf_package(tool holdfast utils "run a command while holding a lock, across machines
Like flock(1), but machines can share the locks: they are kept in a Redis or
Valkey server, or in a directory of this machine.")

# OpenSSL is loaded when a URL with TLS is opened.
set(CPACK_DEBIAN_LIB_PACKAGE_RECOMMENDS libssl3)
set(CPACK_DEBIAN_TOOL_PACKAGE_RECOMMENDS libssl3)
# holdfast.pc requires hiredis, for programs that link the static library.
set(CPACK_DEBIAN_DEV_PACKAGE_DEPENDS
    "libholdfast0 (= ${HOLDFAST_PACKAGE_VERSION}), libhiredis-dev")
set(CPACK_DEBIAN_DEV_PACKAGE_SHLIBDEPS OFF)

# Packages that link the library need this version or a later one. The trigger updates the cache of
# the loader.
file(WRITE "${PROJECT_BINARY_DIR}/deb/shlibs"
    "libholdfast 0 libholdfast0 (>= ${PROJECT_VERSION})\n")
file(WRITE "${PROJECT_BINARY_DIR}/deb/triggers" "activate-noawait ldconfig\n")
set(CPACK_DEBIAN_LIB_PACKAGE_CONTROL_EXTRA
    "${PROJECT_BINARY_DIR}/deb/shlibs;${PROJECT_BINARY_DIR}/deb/triggers")

include(CPack)
