# What is installed: the command, its pages, the headers, both libraries, and how pkg-config and find_package find them.

include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(package_dir "${CMAKE_INSTALL_LIBDIR}/cmake/Holdfast")

install(FILES "${PROJECT_SOURCE_DIR}/include/holdfast.h" "${PROJECT_SOURCE_DIR}/include/holdfast.hpp"
    TYPE INCLUDE)
if(TARGET holdfast-cli)
    install(TARGETS holdfast-cli)
endif()

if(TARGET pages)
    foreach(section 1 3)
        install(DIRECTORY "${HOLDFAST_PAGES}/man/" DESTINATION "${CMAKE_INSTALL_MANDIR}/man${section}"
            FILES_MATCHING PATTERN "*.${section}")
    endforeach()
    foreach(pair holdfast:bash-completion/completions _holdfast:zsh/site-functions
            holdfast.fish:fish/vendor_completions.d)
        string(REPLACE ":" ";" pair "${pair}")
        list(GET pair 0 file)
        list(GET pair 1 folder)
        install(FILES "${HOLDFAST_PAGES}/completions/${file}" DESTINATION
            "${CMAKE_INSTALL_DATAROOTDIR}/${folder}")
    endforeach()
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
