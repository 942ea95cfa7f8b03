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

TEST_CASE("parameter servers are lost, and the job goes on with all updates", "[sim][ps]") {
  CHECK(RunSeeds("[ps]", PsFaults, 1, 250).violation == "");
}

TEST_CASE("accepted losses are counted, and nothing is applied twice", "[sim][accept]") {
  CHECK(RunSeeds("[accept]", AcceptedLoss, 1, 250).violation == "");
}

TEST_CASE("a coordinator that dies or is replaced is continued from its checkpoint",
          "[sim][coordinator]") {
  CHECK(RunSeeds("[coordinator]", CoordinatorFaults, 1, 250).violation == "");
}

TEST_CASE("full disks, torn files and flipped bits never cost the last good checkpoint",
          "[sim][disk]") {
  CHECK(RunSeeds("[disk]", DiskFaults, 1, 250).violation == "");
}

TEST_CASE("synchronous training gives the weights of a single process, bit for bit", "[sim][fit]") {
  CHECK(RunSeeds("[fit]", SynchronousFit, 1, 250).violation == "");
}

TEST_CASE("each example is visited exactly once an epoch", "[sim][visits]") {
  CHECK(RunSeeds("[visits]", VisitedExamples, 1, 250).violation == "");
}

TEST_CASE("workers join and leave while the job runs", "[sim][elastic]") {
  CHECK(RunSeeds("[elastic]", ElasticWorkers, 1, 250).violation == "");
}

}  // namespace
}  // namespace coxswain::sim
