// Addresses as people write them.
#include <catch2/catch.hpp>

#include "runtime/net/address.h"

namespace coxswain::net {
namespace {

TEST_CASE("only addresses of this machine are loopback, and no names that look like them",
          "[net]") {
  for (const char* host : {"localhost", "127.0.0.1", "127.1.2.3", "::1", "[::1]"}) {
    CHECK(IsLoopback(host));
  }
  for (const char* host : {"127.example.com", "127.0.0.1.example.com", "127.", "127", "127.1", "",
                           "128.0.0.1", "0.0.0.0", "::", "::2", "[::1", "localhost.example.com"}) {
    INFO(host);
    CHECK_FALSE(IsLoopback(host));
  }
}

}  // namespace
}  // namespace coxswain::net
