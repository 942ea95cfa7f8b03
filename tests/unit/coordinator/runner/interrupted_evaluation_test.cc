// A job that is interrupted while it evaluates does not evaluate to the end.
#include <atomic>
#include <catch2/catch.hpp>
#include <optional>
#include <string>
#include <thread>

#include "absl/strings/str_cat.h"
#include "coordinator/job/job_parser.h"
#include "coordinator/runner/runner.h"
#include "tests/testing/cluster.h"
#include "tests/testing/data_files.h"
#include "tests/testing/gate.h"

namespace coxswain::runner {
namespace {

using testing::Gate;
using testing::Must;

TEST_CASE("an interrupt ends an evaluation whose closures are all scheduled", "[job]") {
  constexpr uint64_t kEvaluated = 300;
  const DataFiles files;
  std::string test = "x,y\n";
  for (uint64_t i = 0; i < kEvaluated; ++i) absl::StrAppend(&test, i % 7, ",", i % 2, "\n");
  const job::JobSpec job = Must(job::ParseJob(
      absl::StrCat("dataset: {path: ", files.Write("train.csv", "x,y\n1,0\n2,1\n3,1\n4,0\n"), "}\n",
                   "features: [{name: x, kind: numeric}]\nlabel: {column: y}\n",
                   "split: {test_path: ", files.Write("test.csv", test), "}\n",
                   "model: {kind: mlp, hidden: [4]}\ntrain: {batch_size: 4}\n",
                   "evaluate: {metrics: [logloss], batch_size: 1}\n"),
      "job.yaml"));
  const Cluster cluster = testing::MustStart(1, 1, /*in_flight=*/2, /*threads=*/1);
  // Nothing of the evaluation is computed before it is interrupted.
  std::optional<Gate> gate;
  RunEvents events;
  events.on_progress = [&](const Progress& progress) {
    if (progress.phase == Progress::Phase::kEvaluating && !gate) gate.emplace(cluster);
  };
  JobRunner runner(cluster, job, events);
  Must(runner.Prepare());
  std::atomic<bool> over = false;
  std::thread interrupts([&] {
    const auto closures = [&] { return cluster.Stats().closures; };
    while (!over && closures().scheduled < 1 + kEvaluated) std::this_thread::yield();
    runner.Interrupt();
    // What is queued is given up; what the worker has begun is waited for.
    while (!over && closures().failed == 0) std::this_thread::yield();
    if (gate) gate->Open();
  });
  const absl::Status status = runner.Train().status();
  over = true;
  interrupts.join();
  INFO(status.ToString());
  CHECK(status.code() == absl::StatusCode::kCancelled);
  const DispatcherStats closures = cluster.Stats().closures;
  CHECK(closures.scheduled == 1 + kEvaluated);
  CHECK(closures.completed < 1 + kEvaluated);
}

}  // namespace
}  // namespace coxswain::runner
