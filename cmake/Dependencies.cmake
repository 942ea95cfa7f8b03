# Every library comes from Debian's packages (see `dev`).
find_package(Threads REQUIRED)
find_package(Protobuf REQUIRED)  # MODULE mode: Debian's protobuf has no CMake config
find_package(gRPC CONFIG REQUIRED)
find_package(absl CONFIG REQUIRED)
find_package(spdlog CONFIG REQUIRED)
find_package(CLI11 CONFIG REQUIRED)
find_package(yaml-cpp CONFIG REQUIRED)
find_package(nlohmann_json CONFIG REQUIRED)
find_package(simdjson CONFIG REQUIRED)
find_package(ZLIB REQUIRED)
find_package(OpenSSL REQUIRED COMPONENTS Crypto SSL)

# cpp-httplib: Debian's package has a library and no CMake config. The macros are those that it was
# built with, which its classes' layouts depend on.
find_path(HTTPLIB_INCLUDE_DIR httplib.h REQUIRED)
find_library(HTTPLIB_LIBRARY cpp-httplib REQUIRED)
add_library(coxswain_httplib INTERFACE)
target_include_directories(coxswain_httplib SYSTEM INTERFACE ${HTTPLIB_INCLUDE_DIR})
target_compile_definitions(coxswain_httplib INTERFACE CPPHTTPLIB_OPENSSL_SUPPORT
  CPPHTTPLIB_ZLIB_SUPPORT CPPHTTPLIB_BROTLI_SUPPORT
  # Connections that wait to be accepted. Its own 5 makes a burst's clients try again a second later.
  CPPHTTPLIB_LISTEN_BACKLOG=1024)
target_link_libraries(coxswain_httplib INTERFACE ${HTTPLIB_LIBRARY})

# prometheus-cpp: its core, and its endpoint with civetweb below. Its CMake config asks for all that
# the rest of it needs, too.
find_path(PROMETHEUS_INCLUDE_DIR prometheus/registry.h REQUIRED)
find_library(PROMETHEUS_LIBRARY prometheus-cpp-core REQUIRED)
add_library(coxswain_prometheus INTERFACE)
target_include_directories(coxswain_prometheus SYSTEM INTERFACE ${PROMETHEUS_INCLUDE_DIR})
target_link_libraries(coxswain_prometheus INTERFACE ${PROMETHEUS_LIBRARY})
# civetweb's headers come with Debian's prometheus-cpp-dev.
find_path(CIVETWEB_INCLUDE_DIR CivetServer.h REQUIRED)
find_library(PROMETHEUS_PULL_LIBRARY prometheus-cpp-pull REQUIRED)
find_library(CIVETWEB_LIBRARY civetweb REQUIRED)
find_library(CIVETWEB_CPP_LIBRARY civetweb-cpp REQUIRED)
add_library(coxswain_prometheus_pull INTERFACE)
target_include_directories(coxswain_prometheus_pull SYSTEM INTERFACE ${CIVETWEB_INCLUDE_DIR})
target_link_libraries(coxswain_prometheus_pull INTERFACE coxswain_prometheus
  ${PROMETHEUS_PULL_LIBRARY} ${CIVETWEB_CPP_LIBRARY} ${CIVETWEB_LIBRARY})

# hnswlib: headers only.
find_path(HNSWLIB_INCLUDE_DIR hnswlib/hnswlib.h REQUIRED)

# zstd: Debian's package has no CMake config either.
find_path(ZSTD_INCLUDE_DIR zstd.h REQUIRED)
find_library(ZSTD_LIBRARY zstd REQUIRED)
add_library(coxswain_zstd INTERFACE)
target_include_directories(coxswain_zstd SYSTEM INTERFACE ${ZSTD_INCLUDE_DIR})
target_link_libraries(coxswain_zstd INTERFACE ${ZSTD_LIBRARY})

# oneDNN: Debian's own CMake config asks for OpenCL, so the target is made by hand.
find_path(DNNL_INCLUDE_DIR dnnl.hpp REQUIRED)
find_library(DNNL_LIBRARY dnnl REQUIRED)
add_library(coxswain_dnnl INTERFACE)
target_include_directories(coxswain_dnnl SYSTEM INTERFACE ${DNNL_INCLUDE_DIR})
# gomp: its OpenMP runtime, of which kernels/cpu/onednn_matmul.cc sets the number of threads.
target_link_libraries(coxswain_dnnl INTERFACE ${DNNL_LIBRARY} gomp)
