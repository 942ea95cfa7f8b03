# Compiler settings shared by all targets: link coxswain_options PRIVATE.
add_library(coxswain_options INTERFACE)
# g++ 12 is wrong about values of Abseil's inlined vectors that are moved.
target_compile_options(coxswain_options INTERFACE -Wall -Wextra -Wno-unused-parameter
  $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized>
  $<$<CXX_COMPILER_ID:Clang>:-Wthread-safety>)  # only clang checks ABSL_GUARDED_BY
if(COXSWAIN_WERROR)
  target_compile_options(coxswain_options INTERFACE -Werror)
endif()
# Loops that are written for the vectoriser; tests, whose cases run once and compile a quarter
# faster so. With sanitizers both would take twice as long to compile.
set(COXSWAIN_LOOP_OPTIMISATION -O3)
set(COXSWAIN_TEST_OPTIMISATION $<$<CONFIG:Release>:-O1>)
if(COXSWAIN_SANITIZE)
  set(COXSWAIN_LOOP_OPTIMISATION "")
  set(COXSWAIN_TEST_OPTIMISATION -O0)
  add_compile_options(-fsanitize=${COXSWAIN_SANITIZE} -fno-omit-frame-pointer -g1)
  add_link_options(-fsanitize=${COXSWAIN_SANITIZE})
endif()
if(COXSWAIN_SANITIZE STREQUAL "thread")
  # Before Abseil's own library in all programs.
  add_library(coxswain_tsan SHARED ${CMAKE_SOURCE_DIR}/cmake/tsan_abseil.cc)
  target_link_libraries(coxswain_tsan PRIVATE dl)
  link_libraries($<BUILD_INTERFACE:coxswain_tsan>)  # none of those that are installed
endif()
if(COXSWAIN_ODR)
  # Objects keep what the linker compares: of two types of one name it would take either.
  set(COXSWAIN_LOOP_OPTIMISATION "")  # what is linked here is never run
  add_compile_options(-flto)
  add_link_options(-flto=auto -Wodr -Werror=odr)
endif()
if(COXSWAIN_FUZZ)
  # Many runs a second, and what is undefined ends a run. Backtraces need no more than lines.
  add_compile_options(-O1 -gline-tables-only -fno-sanitize-recover=undefined)
endif()

find_program(CCACHE_PROGRAM ccache)
if(CCACHE_PROGRAM AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  # A fresh checkout hits the cache only when paths are relative to it.
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env CCACHE_BASEDIR=${CMAKE_SOURCE_DIR}
      CCACHE_NOHASHDIR=1 ${CCACHE_PROGRAM})
endif()
find_program(MOLD_PROGRAM mold)
if(MOLD_PROGRAM AND NOT COXSWAIN_SANITIZE AND NOT COXSWAIN_ODR)
  add_link_options(-fuse-ld=mold)
endif()

# coxswain_library(NAME SOURCES... ) adds a static library with the house's settings.
function(coxswain_library name)
  add_library(${name} STATIC ${ARGN})
  add_library(coxswain::${name} ALIAS ${name})
  target_include_directories(${name} PUBLIC
    $<BUILD_INTERFACE:${CMAKE_SOURCE_DIR}>
    # The public headers, "coxswain/NAME.h": those of values lie below those of the coordinator.
    $<BUILD_INTERFACE:${CMAKE_SOURCE_DIR}/runtime/public>
    $<BUILD_INTERFACE:${CMAKE_SOURCE_DIR}/coordinator/public>
    $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  target_link_libraries(${name} PRIVATE $<BUILD_INTERFACE:coxswain_options>)
endfunction()
