#include <catch2/catch.hpp>

#include "coordinator/api/task_statuses.h"
#include "coxswain/cluster.h"
#include "coxswain/optimizers.h"
#include "coxswain/strategy.h"
#include "protos/control.pb.h"

namespace coxswain {
namespace {

// In one process all tasks and the coordinator hand messages on in each other's threads: a PS that
// filled its shards on the spot would keep the coordinator from pinging anybody.
TEST_CASE("a table that takes longer to fill than the lease loses no task", "[cluster]") {
  ClusterOptions options;
  options.lease = absl::Milliseconds(400);
  options.threads = 1;
  auto cluster = Cluster::InProcess(1, 1, options);
  REQUIRE(cluster.ok());
  ParameterServerStrategy strategy(*cluster);
  TableOptions table;
  table.rows = 2'000'000;
  table.dim = 24;
  table.initializer = NormalInit(0.1, 1);  // the slowest one
  auto created = strategy.CreateTable("large", table);
  INFO(created.status());
  REQUIRE(created.ok());

  const std::vector<proto::TaskStatus> tasks = TaskStatuses(*cluster);
  REQUIRE(tasks.size() == 2);
  for (const proto::TaskStatus& task : tasks) CHECK(task.held_by() != "");
  auto rows = strategy.ReadShard(created->info(), 0, 0, 1);
  REQUIRE(rows.ok());
  CHECK(rows->num_elements() == 24);
}

}  // namespace
}  // namespace coxswain
