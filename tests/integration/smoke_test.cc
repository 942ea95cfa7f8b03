#include <catch2/catch.hpp>

#include "coordinator/api/task_statuses.h"
#include "coxswain/cluster.h"
#include "protos/control.pb.h"
#include "tests/testing/paths.h"

namespace coxswain {
namespace {

TEST_CASE("a cluster of child processes starts, answers and ends") {
  ClusterOptions options;
  options.daemon_directory = COXSWAIN_BINARY_DIR "/bin";
  auto cluster = Cluster::Local(2, 2, options);
  REQUIRE(cluster.ok());
  CHECK(TaskStatuses(*cluster).size() == 4);
}

}  // namespace
}  // namespace coxswain
