# Debian packages, by `make package`: the library, what is needed to build against it, and the command.
# The command brings the library's objects with it, and depends on none of the others.

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME holdfast)
set(CPACK_PACKAGE_CONTACT "The Holdfast authors <maintainers@holdfast.invalid>")
set(CPACK_PACKAGE_VERSION "${PROJECT_VERSION}")
set(CPACK_PACKAGING_INSTALL_PREFIX "${CMAKE_INSTALL_PREFIX}")
set(CPACK_STRIP_FILES ON)

set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_COMPONENTS_ALL lib dev tool)
set(CPACK_COMPONENTS_GROUPING IGNORE)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_RELEASE 1)
# What the binaries need, in the versions they need; and for others, who needs ours.
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS ON)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)

function(hf_package component name section description)
    string(TOUPPER "${component}" key)
    set(CPACK_DEBIAN_${key}_PACKAGE_NAME "${name}" PARENT_SCOPE)
    set(CPACK_DEBIAN_${key}_PACKAGE_SECTION "${section}" PARENT_SCOPE)
    set(CPACK_COMPONENT_${key}_DESCRIPTION "${description}" PARENT_SCOPE)
    install(FILES "${PROJECT_SOURCE_DIR}/LICENSE" RENAME copyright COMPONENT ${component}
        DESTINATION "${CMAKE_INSTALL_DATAROOTDIR}/doc/${name}")
    install(FILES "${PROJECT_SOURCE_DIR}/CHANGELOG.md" COMPONENT ${component}
        DESTINATION "${CMAKE_INSTALL_DATAROOTDIR}/doc/${name}")
endfunction()

hf_package(lib libholdfast0 libs "locks that hold across machines: the library
 Locks with leases, renewal and fencing tokens, kept in a Redis or Valkey server or, for one machine,
 in a directory.")
hf_package(dev libholdfast-dev libdevel "locks that hold across machines: to build against
 The headers for C and C++, the static library, manual pages, and how pkg-config and CMake find them.")
hf_package(tool holdfast utils "run a command while holding a lock, across machines
 A flock(1) whose locks may be kept in a Redis or Valkey server that several machines share.")

# OpenSSL is loaded when a URL asks for it.
set(CPACK_DEBIAN_LIB_PACKAGE_RECOMMENDS libssl3)
set(CPACK_DEBIAN_TOOL_PACKAGE_RECOMMENDS libssl3)
# holdfast.pc names hiredis, for those who link the static library.
set(CPACK_DEBIAN_DEV_PACKAGE_DEPENDS
    "libholdfast0 (= ${PROJECT_VERSION}-${CPACK_DEBIAN_PACKAGE_RELEASE}), libhiredis-dev")
set(CPACK_DEBIAN_DEV_PACKAGE_SHLIBDEPS OFF)
set(CPACK_DEBIAN_DEV_PACKAGE_GENERATE_SHLIBS OFF)

include(CPack)
