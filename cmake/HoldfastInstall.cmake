# SPDX-License-Identifier: Apache-2.0
# Installs the command, its pages, the headers, both libraries, and files for pkg-config and
# find_package. The components lib, dev and tool are the packages of cmake/HoldfastPackage.cmake.

include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(package_dir "${CMAKE_INSTALL_LIBDIR}/cmake/Holdfast")

install(FILES
    "${PROJECT_SOURCE_DIR}/include/holdfast.h" "${PROJECT_SOURCE_DIR}/include/holdfast.hpp"
    TYPE INCLUDE COMPONENT dev)
if(TARGET holdfast-cli)
    install(TARGETS holdfast-cli COMPONENT tool)
endif()

if(TARGET pages)
    foreach(pair 1:tool 3:dev)
        string(REPLACE ":" ";" pair "${pair}")
        list(GET pair 0 section)
        list(GET pair 1 component)
        install(DIRECTORY "${HOLDFAST_PAGES}/man/"
            DESTINATION "${CMAKE_INSTALL_MANDIR}/man${section}"
            COMPONENT ${component} FILES_MATCHING PATTERN "*.${section}" PATTERN "*.${section}.gz")
    endforeach()
    # Debian's zsh uses one folder for packages and another for files that a user installs.
    set(HOLDFAST_ZSH_DIR zsh/site-functions
        CACHE STRING "Folder of zsh completions, below the data directory")
    foreach(pair holdfast:bash-completion/completions _holdfast:${HOLDFAST_ZSH_DIR}
            holdfast.fish:fish/vendor_completions.d)
        string(REPLACE ":" ";" pair "${pair}")
        list(GET pair 0 file)
        list(GET pair 1 folder)
        install(FILES "${HOLDFAST_PAGES}/completions/${file}" DESTINATION
            "${CMAKE_INSTALL_DATAROOTDIR}/${folder}" COMPONENT tool)
    endforeach()
endif()

# The pages that the manual and the messages refer to, and the examples.
function(hf_install_docs component folder)
    set(doc "${CMAKE_INSTALL_DATAROOTDIR}/doc/${folder}")
    foreach(page
            ABI CHOOSING-A-LEASE CLUSTER COMING-FROM COMMAND EXIT-CODES FILE-STORE GUARANTEES
            INSTALL KINDS LATCH LEADER LIBRARY MANY-NAMES MONITORING OPTIONS PERMITS QUORUM READERS
            REDIS-PROTOCOL RESULTS TOPOLOGIES)
        install(FILES "${PROJECT_SOURCE_DIR}/docs/${page}.md"
            DESTINATION "${doc}/docs" COMPONENT ${component})
    endforeach()
    install(DIRECTORY "${PROJECT_SOURCE_DIR}/examples" DESTINATION "${doc}" COMPONENT ${component}
        USE_SOURCE_PERMISSIONS PATTERN CMakeLists.txt EXCLUDE PATTERN __pycache__ EXCLUDE)
endfunction()
if(HOLDFAST_DEBIAN)
    hf_install_docs(tool holdfast)
    hf_install_docs(dev libholdfast-dev)
else()
    hf_install_docs(dev holdfast)
endif()

# There are two sets, because only users of the static library need hiredis.
install(TARGETS holdfast EXPORT HoldfastTargets
    LIBRARY COMPONENT lib NAMELINK_COMPONENT dev
    INCLUDES DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}")
install(TARGETS holdfast_static EXPORT HoldfastStaticTargets
    ARCHIVE COMPONENT dev
    INCLUDES DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}")
foreach(set HoldfastTargets HoldfastStaticTargets)
    install(EXPORT ${set} NAMESPACE Holdfast:: DESTINATION "${package_dir}" COMPONENT dev)
endforeach()

configure_package_config_file(cmake/HoldfastConfig.cmake.in HoldfastConfig.cmake
    INSTALL_DESTINATION "${package_dir}"
    NO_SET_AND_CHECK_MACRO NO_CHECK_REQUIRED_COMPONENTS_MACRO)
# Before 1.0 a minor version may break compatibility; SOVERSION follows the same rule.
write_basic_package_version_file(HoldfastConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES
    "${PROJECT_BINARY_DIR}/HoldfastConfig.cmake"
    "${PROJECT_BINARY_DIR}/HoldfastConfigVersion.cmake"
    DESTINATION "${package_dir}" COMPONENT dev)

# The prefix is relative to the .pc file, so that the tree can be moved, or installed with --prefix.
file(RELATIVE_PATH HF_PC_TO_PREFIX
    "${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig" "${CMAKE_INSTALL_PREFIX}")
string(REGEX REPLACE "/$" "" HF_PC_TO_PREFIX "${HF_PC_TO_PREFIX}")
configure_file(cmake/holdfast.pc.in holdfast.pc @ONLY)
install(FILES "${PROJECT_BINARY_DIR}/holdfast.pc" DESTINATION "${CMAKE_INSTALL_LIBDIR}/pkgconfig"
    COMPONENT dev)

if(HOLDFAST_DEBIAN)
    include(cmake/HoldfastPackage.cmake)
endif()
