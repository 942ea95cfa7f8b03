// What a running coordinator says of tasks that are there and that it cannot use; the test plays
// the tasks.
#include <catch2/catch.hpp>
#include <string>

#include "absl/strings/match.h"
#include "runtime/base/version.h"
#include "tests/testing/played_cluster.h"

namespace coxswain::core {
namespace {

using testing::PlayedCluster;

TEST_CASE(
    "a worker that comes back with another version is told, and used again with the right one",
    "[session]") {
  PlayedCluster f(1, 10);
  f.Schedule();
  const auto first = f.workers[0]->runs.Take("the closure");
  f.workers[0]->other_version = true;
  first.connection->Close(absl::UnavailableError("the process ends"));
  std::string said;
  while (!absl::StrContains(said, "is not used")) said = f.waits.Take("what is wrong").message;
  CHECK(absl::StrContains(said, "it runs version 9.9.9, this is version " + std::string(kVersion)));
  f.workers[0]->other_version = false;
  f.workers[0]->runs.Take("the closure again").Done();
  CHECK(f.answers.Take("the result").ok());
}

}  // namespace
}  // namespace coxswain::core
