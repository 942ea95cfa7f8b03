# What `cmake --install` lays out: the programs in bin/, the libraries in lib/, the public headers in
# include/coxswain/, and a CMake package, so that a program of one's own says
#   find_package(coxswain REQUIRED)
#   target_link_libraries(program PRIVATE coxswain::coxswain)
# and includes <coxswain/coxswain.h>.
include(CMakePackageConfigHelpers)

# The target that programs link. (`coxswain` alone is the command-line program.)
add_library(coxswain_api INTERFACE)
add_library(coxswain::coxswain ALIAS coxswain_api)
set_target_properties(coxswain_api PROPERTIES EXPORT_NAME coxswain)
target_compile_features(coxswain_api INTERFACE cxx_std_20)
target_link_libraries(coxswain_api INTERFACE coxswain_jobs coxswain_coordinator)

install(TARGETS coxswain_api coxswain_jobs coxswain_coordinator coxswain_worker coxswain_ps coxswain_kernels
        coxswain_net coxswain_runtime coxswain_protos coxswain_dnnl coxswain_zstd
        EXPORT coxswainTargets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
foreach(program coxswain coxswain-ps coxswain-worker)
  if(TARGET ${program})
    install(TARGETS ${program} RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
  endif()
endforeach()

install(DIRECTORY runtime/public/coxswain coordinator/public/coxswain
        DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h")

set(coxswain_package ${CMAKE_INSTALL_LIBDIR}/cmake/coxswain)
install(EXPORT coxswainTargets NAMESPACE coxswain:: DESTINATION ${coxswain_package})
configure_package_config_file(cmake/coxswainConfig.cmake.in ${CMAKE_BINARY_DIR}/coxswainConfig.cmake
  INSTALL_DESTINATION ${coxswain_package})
write_basic_package_version_file(${CMAKE_BINARY_DIR}/coxswainConfigVersion.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/coxswainConfig.cmake
              ${CMAKE_BINARY_DIR}/coxswainConfigVersion.cmake DESTINATION ${coxswain_package})

# CMake ends with a list of what it installed, in the build directory. One that belongs to another user
# or is read-only is no reason to fail. (Must be the last rule: the list comes right after it.)
install(CODE [[
  set(coxswain_manifest install_manifest)
  if(CMAKE_INSTALL_COMPONENT)
    string(APPEND coxswain_manifest "_${CMAKE_INSTALL_COMPONENT}")
  endif()
  execute_process(
    COMMAND "${CMAKE_COMMAND}" -E touch "${CMAKE_CURRENT_LIST_DIR}/${coxswain_manifest}.txt"
    RESULT_VARIABLE coxswain_touched OUTPUT_QUIET ERROR_QUIET)
  if(NOT coxswain_touched EQUAL 0)
    message(STATUS "No list of what was installed: ${CMAKE_CURRENT_LIST_DIR} cannot be written")
    return()
  endif()
]] ALL_COMPONENTS)
