// The example program that has gradients, rates and single closures in its own hands.
#include <catch2/catch.hpp>

#include "absl/strings/match.h"
#include "tests/testing/paths.h"
#include "tests/testing/process.h"

namespace coxswain {
namespace {

TEST_CASE("the example with steps of its own counts each step once and learns", "[program]") {
  const Process::Result result =
      Run({COXSWAIN_BINARY_DIR "/bin/example-own-steps"}, {}, absl::Minutes(3));
  INFO(result.out << result.err);
  CHECK(result.code == 0);
  for (const char* steps : {"100 steps", "200 steps", "300 steps"}) {
    CHECK(absl::StrContains(result.out, steps));
  }
  CHECK(absl::StrContains(result.out, "the one that was not wanted: "));
}

}  // namespace
}  // namespace coxswain
