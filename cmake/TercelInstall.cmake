# `make install`: header, libraries, pkg-config file and CMake package.
include(CMakePackageConfigHelpers)

install(FILES include/tercel/tercel.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/tercel)
install(TARGETS tercel_shared tercel_static EXPORT tercel)
install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})

set(package ${CMAKE_INSTALL_LIBDIR}/cmake/tercel)
install(EXPORT tercel NAMESPACE tercel:: DESTINATION ${package} FILE tercelTargets.cmake)
configure_package_config_file(cmake/tercelConfig.cmake.in tercelConfig.cmake INSTALL_DESTINATION ${package})
write_basic_package_version_file(tercelConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/tercelConfig.cmake ${CMAKE_CURRENT_BINARY_DIR}/tercelConfigVersion.cmake
        DESTINATION ${package})

# Paths relative to the .pc file: an installed tree may be moved.
file(RELATIVE_PATH prefix_from_pc /prefix/${CMAKE_INSTALL_LIBDIR}/pkgconfig /prefix)
list(TRANSFORM CMAKE_DL_LIBS PREPEND -l OUTPUT_VARIABLE TERCEL_PC_DL)
configure_file(cmake/tercel.pc.in tercel.pc @ONLY)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/tercel.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
