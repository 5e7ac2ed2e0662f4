# What is installed: the command, the headers, both libraries, and how pkg-config and find_package find them.

include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(package_dir "${CMAKE_INSTALL_LIBDIR}/cmake/Holdfast")

install(FILES "${PROJECT_SOURCE_DIR}/include/holdfast.h" "${PROJECT_SOURCE_DIR}/include/holdfast.hpp"
    TYPE INCLUDE)
if(TARGET holdfast-cli)
    install(TARGETS holdfast-cli)
endif()

# Two sets, for only the static library asks its users for hiredis.
install(TARGETS holdfast EXPORT HoldfastTargets
    INCLUDES DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}")
install(TARGETS holdfast_static EXPORT HoldfastStaticTargets
    INCLUDES DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}")
foreach(set HoldfastTargets HoldfastStaticTargets)
    install(EXPORT ${set} NAMESPACE Holdfast:: DESTINATION "${package_dir}")
endforeach()

configure_package_config_file(cmake/HoldfastConfig.cmake.in HoldfastConfig.cmake
    INSTALL_DESTINATION "${package_dir}"
    NO_SET_AND_CHECK_MACRO NO_CHECK_REQUIRED_COMPONENTS_MACRO)
# Before 1.0 a minor version may break; SOVERSION says the same to the loader.
write_basic_package_version_file(HoldfastConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES
    "${PROJECT_BINARY_DIR}/HoldfastConfig.cmake"
    "${PROJECT_BINARY_DIR}/HoldfastConfigVersion.cmake"
    DESTINATION "${package_dir}")

# The prefix is said relative to the .pc file, so that the tree can be moved (or `--prefix` given late).
file(RELATIVE_PATH HF_PC_TO_PREFIX
    "${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig" "${CMAKE_INSTALL_PREFIX}")
string(REGEX REPLACE "/$" "" HF_PC_TO_PREFIX "${HF_PC_TO_PREFIX}")
configure_file(cmake/holdfast.pc.in holdfast.pc @ONLY)
install(FILES "${PROJECT_BINARY_DIR}/holdfast.pc" DESTINATION "${CMAKE_INSTALL_LIBDIR}/pkgconfig")
