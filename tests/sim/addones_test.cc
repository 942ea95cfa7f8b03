// Counters on all PS: after any faults, the sum on the PS is the number of steps.
#include <catch2/catch.hpp>

#include "tests/sim/scenarios.h"

namespace coxswain::sim {
namespace {

TEST_CASE("workers die, hang and are cut off, and every step is applied exactly once",
          "[sim][workers]") {
  CHECK(RunSeeds("[workers]", WorkerFaults, 1, 250).violation == "");
}

TEST_CASE("packed closures resume after the last step that was applied everywhere",
          "[sim][packed]") {
  CHECK(RunSeeds("[packed]", PackedClosures, 1, 250).violation == "");
}

}  // namespace
}  // namespace coxswain::sim
