// `coxswain train --metrics`, beside a cluster in this process.
#include "coordinator/cli/train_metrics.h"

#include <catch2/catch.hpp>
#include <optional>

#include "runtime/base/status.h"
#include "tests/testing/families.h"
#include "tests/testing/http_get.h"

namespace coxswain::cli {
namespace {

using Catch::Matchers::Contains;
using testing::FindFamily;
using testing::ValueOf;

TrainMetrics Follower() {
  auto metrics = TrainMetrics::Listen({}, "films");
  REQUIRE(metrics.ok());
  return *std::move(metrics);
}

runner::Progress At(runner::Progress::Phase phase) {
  runner::Progress progress;
  progress.phase = phase;
  return progress;
}

}  // namespace

TEST_CASE("an endpoint at an address where nobody can listen is a user's mistake", "[metrics]") {
  TrainFlags flags;
  flags.metrics = "nowhere";
  const absl::Status status = TrainMetrics::Listen(flags, "films").status();
  CHECK_THAT(std::string(status.message()),
             Contains("--metrics") && Contains("nowhere") && Contains("there is no port"));
  const auto detail = GetDetail(status);
  REQUIRE(detail.has_value());
  CHECK(detail->cause == ErrorCause::kConfiguration);
}

TEST_CASE("a job's metrics follow what the job tells", "[metrics]") {
  const TrainMetrics metrics = Follower();
  metrics::Families families = metrics.Collect();
  CHECK(FindFamily(families, "coxswain_train_info")->samples[0].labels[1].value == "films");
  CHECK(FindFamily(families, "coxswain_train_phase") == nullptr);
  CHECK(FindFamily(families, "coxswain_train_step") == nullptr);
  CHECK(FindFamily(families, "coxswain_train_workers_live") == nullptr);

  int told = 0;
  runner::RunEvents events;
  events.on_progress = [&told](const runner::Progress&) { ++told; };
  metrics.Follow(&events);
  events.on_progress(At(runner::Progress::Phase::kLoading));
  CHECK(ValueOf(metrics.Collect(), "coxswain_train_phase", "loading") == 1);
  runner::Progress training = At(runner::Progress::Phase::kTraining);
  training.epoch = 2;
  training.epochs = 3;
  training.total_steps = 300;
  events.on_progress(training);
  events.on_progress(At(runner::Progress::Phase::kLastCheckpoint));
  CHECK(told == 3);
  runner::Evaluation evaluation;
  evaluation.part = "validation";
  evaluation.steps = 120;
  evaluation.metrics = {{"auc", 0.75}, {"hit_rate@10", 0.5}};
  events.on_evaluation(evaluation);
  evaluation.metrics = {{"auc", 0.8}};
  events.on_evaluation(evaluation);
  families = metrics.Collect();
  CHECK(ValueOf(families, "coxswain_train_phase", "loading") == 0);
  CHECK(ValueOf(families, "coxswain_train_phase", "checkpointing") == 1);
  CHECK(ValueOf(families, "coxswain_train_evaluations_total") == 2);
  CHECK(ValueOf(families, "coxswain_train_evaluation", "validation") == 0.8);
  CHECK(ValueOf(families, "coxswain_train_evaluation_step", "validation") == 120);
}

TEST_CASE("a resumed job's counters begin at 0, and its position where it was", "[metrics]") {
  const TrainMetrics metrics = Follower();
  runner::RunState state;
  state.batch_size = 10;
  state.meter.steps = 100;
  state.meter.examples = 1000;
  const auto tracker = std::make_shared<runner::RunTracker>(
      state, runner::EpochSizes::Same(10, 1000), /*errors_end_job=*/false);
  metrics.Follow(tracker);
  REQUIRE(tracker->meter().Add({Part::kTraining, 0, 0, 30}, 3, 103, 0.5F, 30).ok());
  const metrics::Families families = metrics.Collect();
  CHECK(ValueOf(families, "coxswain_train_step") == 103);
  CHECK(ValueOf(families, "coxswain_train_steps_total") == 3);
  CHECK(ValueOf(families, "coxswain_train_examples_total") == 30);
  CHECK(ValueOf(families, "coxswain_train_loss") == 0.5);
}

TEST_CASE("scrapes ask the cluster while it is watched, and do not hold it", "[metrics]") {
  const TrainMetrics metrics = Follower();
  ClusterOptions options;
  int events = 0;
  options.on_event = [&events](const ClusterEvent&) { ++events; };
  metrics.Follow(&options);
  {
    auto cluster = Cluster::InProcess(2, 1, options);
    REQUIRE(cluster.ok());
    const TrainMetrics::Watch watch = metrics.WatchCluster(*cluster);
    const metrics::Families families = metrics.Collect();
    CHECK(ValueOf(families, "coxswain_train_workers_configured") == 1);
    CHECK(ValueOf(families, "coxswain_train_workers_live") == 1);
    CHECK(ValueOf(families, "coxswain_train_parameter_servers_configured") == 2);
    CHECK(ValueOf(families, "coxswain_train_parameter_servers_live") == 2);
    CHECK(ValueOf(families, "coxswain_train_closures_queued") == 0);
    CHECK(ValueOf(families, "coxswain_train_checkpoints_total", "written") == 0);
    CHECK(FindFamily(families, "coxswain_train_last_checkpoint_step") == nullptr);
  }
  CHECK(FindFamily(metrics.Collect(), "coxswain_train_workers_live") == nullptr);
  const int before = events;
  options.on_event({ClusterEvent::Kind::kRecovered, "", "all shards went back"});
  CHECK(events == before + 1);
}

}  // namespace coxswain::cli
