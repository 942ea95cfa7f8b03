#define CATCH_CONFIG_MAIN
#include <catch2/catch.hpp>

// What the leak sanitizer is not to report: gRPC's resolver, c-ares, keeps some bytes to the end.
extern "C" const char* __lsan_default_suppressions();
extern "C" const char* __lsan_default_suppressions() { return "leak:libcares.so\n"; }
extern "C" const char* __lsan_default_options();
extern "C" const char* __lsan_default_options() { return "print_suppressions=0"; }
