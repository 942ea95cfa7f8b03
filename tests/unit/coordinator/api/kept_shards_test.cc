// A program that goes on with tables that its checkpoint has in another number of shards.
#include <catch2/catch.hpp>
#include <string>

#include "absl/strings/match.h"
#include "coordinator/api/variable_info.h"
#include "coxswain/checkpoint.h"
#include "tests/testing/cluster.h"
#include "tests/testing/data_files.h"
#include "tests/testing/logged.h"

namespace coxswain {
namespace {

using testing::Logged;
using testing::Must;
using testing::MustStart;

TEST_CASE("a table that keeps another number of shards than its partitioner wants is told of",
          "[checkpoint]") {
  const DataFiles dir;
  CheckpointOptions options;
  options.directory = dir.Path("checkpoints");
  {
    CheckpointManager checkpoints(options);
    const Cluster cluster = MustStart(2, 1);
    ParameterServerStrategy strategy(cluster);
    const std::string logged = Logged(dir, [&] {
      Must(strategy.CreateTable("users", {.rows = 8, .dim = 1, .partitioner = FixedShards(2)}));
      Must(strategy.CreateTable("items", {.rows = 8, .dim = 1}));
      Must(strategy.CreateVariable("w", {.shape = Shape{8}, .partitioner = FixedShards(4)}));
    });
    CHECK(logged.empty());
    Must(checkpoints.Start(cluster));
    Must(checkpoints.Save());
  }
  CheckpointManager checkpoints(options);
  Must(checkpoints.Find());
  ClusterOptions later;
  later.min_epoch = checkpoints.min_epoch();
  const Cluster cluster = Must(Cluster::InProcess(4, 1, later));
  const bool tell = GENERATE(true, false);
  ParameterServerStrategy strategy(cluster, {.tell_kept_shards = tell});
  Must(checkpoints.Restore(&strategy));
  const std::string logged = Logged(dir, [&] {
    const EmbeddingTable users =
        Must(strategy.CreateTable("users", {.rows = 8, .dim = 1, .partitioner = FixedShards(4)}));
    CHECK(users.info().shards.size() == 2);
    Must(strategy.CreateTable("items", {.rows = 8, .dim = 1}));  // nobody has said a number
    Must(strategy.CreateVariable("w", {.shape = Shape{8}, .partitioner = FixedShards(1)}));
    Must(strategy.CreateTable("new", {.rows = 8, .dim = 1, .partitioner = FixedShards(3)}));
  });
  CAPTURE(logged);
  CHECK(absl::StrContains(logged,
                          "table 'users' keeps the 2 shards that it has in the checkpoint, its "
                          "partitioner wants 4: ") == tell);
  CHECK(absl::StrContains(logged, "variable 'w' keeps the 4 shards") == tell);
  CHECK_FALSE(absl::StrContains(logged, "'items'"));
  CHECK_FALSE(absl::StrContains(logged, "'new'"));
}

}  // namespace
}  // namespace coxswain
