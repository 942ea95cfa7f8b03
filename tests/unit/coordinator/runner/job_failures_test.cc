// What a job says about failures, and what a checkpoint remembers of its run.
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_replace.h"
#include "coordinator/job/job_parser.h"
#include "coordinator/runner/run_state.h"

namespace coxswain::runner {
namespace {

constexpr char kJob[] = R"(
dataset: {path: a.csv, columns: [user, film, stars]}
features:
  - {name: user, kind: categorical}
  - {name: film, kind: categorical}
label: {column: stars}
model: {kind: wide_deep}
)";

job::JobSpec MustParse(const std::vector<std::string>& overrides) {
  auto job = job::ParseJob(kJob, "job.yaml", overrides);
  INFO(job.status().message());
  REQUIRE(job.ok());
  return *std::move(job);
}

TEST_CASE("what a job says about failures is read, with defaults", "[job]") {
  const job::JobSpec none = MustParse({});
  CHECK(none.checkpoint.directory.empty());
  CHECK(none.checkpoint.every_seconds == 60);
  CHECK(none.checkpoint.every_steps == 0);
  CHECK(none.checkpoint.keep == 3);
  CHECK(none.checkpoint.on_ps_loss == PsLossPolicy::kRollback);
  CHECK(none.checkpoint.ps_return_seconds == 10);
  CHECK(none.checkpoint.rebalance);
  CHECK(none.cluster.lease_seconds == 2);
  CHECK(none.cluster.timeout_seconds == 600);
  CHECK(none.cluster.quarantine_after == 4);
  CHECK(none.cluster.closure_timeout_seconds == 0);
  CHECK(none.train.on_error == ErrorPolicy::kFailFast);
  const job::JobSpec all = MustParse(
      {"checkpoint.directory=/shared/c", "checkpoint.every_seconds=0.5",
       "checkpoint.every_steps=100", "checkpoint.keep=1", "checkpoint.on_ps_loss=accept_loss",
       "checkpoint.ps_return_seconds=0", "cluster.lease_seconds=0.5", "cluster.timeout_seconds=9",
       "cluster.quarantine_after=2", "cluster.closure_timeout_seconds=1.5",
       "train.on_error=collect"});
  CHECK(all.checkpoint.directory == "/shared/c");
  CHECK(all.checkpoint.every_seconds == 0.5);
  CHECK(all.checkpoint.every_steps == 100);
  CHECK(all.checkpoint.keep == 1);
  CHECK(all.checkpoint.on_ps_loss == PsLossPolicy::kAcceptLoss);
  CHECK(all.checkpoint.ps_return_seconds == 0);
  CHECK(all.cluster.lease_seconds == 0.5);
  CHECK(all.cluster.timeout_seconds == 9);
  CHECK(all.cluster.quarantine_after == 2);
  CHECK(all.cluster.closure_timeout_seconds == 1.5);
  CHECK(all.train.on_error == ErrorPolicy::kCollect);
  CHECK(MustParse({"train.on_error=ignore"}).train.on_error == ErrorPolicy::kIgnore);
  CHECK(MustParse({"checkpoint.on_ps_loss=replay"}).checkpoint.on_ps_loss == PsLossPolicy::kReplay);
}

TEST_CASE("what a job says wrongly about failures is told", "[job]") {
  const auto error = [](const std::string& change) {
    return std::string(job::ParseJob(kJob, "job.yaml", {change}).status().message());
  };
  CHECK(absl::StrContains(error("checkpoint.on_ps_loss=roll_back"), "rollback"));
  CHECK(
      absl::StrContains(error("checkpoint.keep=0"), "checkpoint.keep: wanted integer 1..1000000"));
  CHECK(absl::StrContains(error("checkpoint.folder=x"), "unknown key 'folder' in checkpoint"));
  CHECK(absl::StrContains(error("cluster.lease_seconds=0"), "0.2..3600"));
  CHECK(absl::StrContains(error("train.on_error=fail"), "fail_fast"));
}

constexpr int64_t kBatch = 10;
// Epochs of 48 examples, 5 steps each.
const EpochSizes kSizes = EpochSizes::Same(kBatch, 48);

RunState Fresh() {
  RunState state;
  state.batch_size = kBatch;
  state.data_fingerprint = std::numeric_limits<uint64_t>::max() - 3;
  return state;
}

std::vector<Tensor> Loss(float loss) { return {Tensor::Scalar(loss)}; }
Ticket At(int64_t epoch, int64_t begin, int64_t end) {
  return {Part::kTraining, epoch, begin, end};
}

TEST_CASE("a run's state comes back from JSON as it was", "[job]") {
  RunState s = Fresh();
  s.seed = 1234567890123456789u;
  s.steps_per_function = 4;
  s.replicas = 3;
  s.position = {3, 40};
  s.epochs_finished = 3;
  s.stopped_early = true;
  s.finished = true;
  s.failed = "why \"not\"";
  s.steps_left_out = 2;
  s.examples_left_out = 20;
  s.closures_left_out = 1;
  s.meter = {0, 0, 12.5, 0.25, 40, 7.75, 30};
  s.evaluate_seconds = 0.1;
  s.evaluations = {{1, 5, 2.5, 0.5, "validation", 20, {{"auc", 0.1}, {"logloss", NAN}}}};
  s.best = -0.125;
  s.evaluations_without_gain = 1;
  s.best_file = "best-000000005.safetensors";
  s.plateau = {.factor = 0.01, .best = -0.25, .evaluations_without_gain = 1};
  s.evaluations[0].rate_factor = 0.1;
  s.resumes = 2;
  s.counters.failures = {3, 2, 5, {0.1, 0.2}, 7, 9, 1};
  s.counters.checkpoints = {6, 1, int64_t{1} << 40, 2.5, 0.125};
  s.counters.retried = 11;
  const auto parsed = ParseRunState(ToJson(s));
  INFO(parsed.status().message());
  REQUIRE(parsed.ok());
  CHECK(ToJson(*parsed) == ToJson(s));
  CHECK(parsed->data_fingerprint == s.data_fingerprint);
  CHECK(parsed->seed == s.seed);
  CHECK(parsed->replicas == 3);
  CHECK(parsed->finished);
  CHECK(parsed->best == s.best);
  CHECK(parsed->plateau.factor == 0.01);
  CHECK(parsed->plateau.best == s.plateau.best);
  CHECK(parsed->plateau.evaluations_without_gain == 1);
  CHECK(parsed->evaluations[0].rate_factor == 0.1);
  CHECK(parsed->evaluations[0].metrics.at("auc") == 0.1);
  CHECK(std::isnan(parsed->evaluations[0].metrics.at("logloss")));
  CHECK(parsed->counters.failures.recovery_seconds == std::vector<double>{0.1, 0.2});
  s.best.reset();
  CHECK_FALSE(ParseRunState(ToJson(s))->best.has_value());
}

TEST_CASE("what goes on from a checkpoint counts it among those that were written", "[job]") {
  RunState s = Fresh();
  s.counters.checkpoints.written = 6;
  s.counters.checkpoints.bytes = 1000;
  checkpoint::Manifest manifest;
  manifest.job_state = ToJson(s);
  manifest.shards.emplace_back().set_bytes_written(300);
  manifest.shards.emplace_back().set_bytes_written(40);
  const auto behind = StateBehind(manifest);
  INFO(behind.status().message());
  REQUIRE(behind.ok());
  CHECK(behind->counters.checkpoints.written == 7);
  CHECK(behind->counters.checkpoints.bytes == 1340);
  manifest.job_state = "{}";
  CHECK_FALSE(StateBehind(manifest).ok());
}

TEST_CASE("what is no run's state is told by its key", "[job]") {
  const std::string good = ToJson(Fresh());
  REQUIRE(ParseRunState(good).ok());
  const auto error = [&](const std::string& from, const std::string& to) {
    INFO(from);
    REQUIRE(absl::StrContains(good, from));
    const auto parsed = ParseRunState(absl::StrReplaceAll(good, {{from, to}}));
    CHECK(parsed.status().code() == absl::StatusCode::kInvalidArgument);
    return std::string(parsed.status().message());
  };
  CHECK(absl::StrContains(error("coxswain-run-1", "other"), "coxswain-run-1"));
  CHECK(absl::StrContains(error("\"batch_size\":10", "\"batch_size\":0"), "'batch_size'"));
  CHECK(absl::StrContains(error("\"batch_size\":10", "\"batch_size\":-10"), "'batch_size'"));
  CHECK(absl::StrContains(error("\"resumes\":0", "\"resumes\":\"0\""), "'resumes'"));
  CHECK(absl::StrContains(error("\"epochs_finished\":0,", ""), "'epochs_finished' is missing"));
  CHECK(absl::StrContains(error("\"evaluations\":[]", "\"evaluations\":{}"), "'evaluations'"));
  CHECK(absl::StrContains(error("\"best_file\":\"\"", "\"best_file\":\"../x\""), "'best_file'"));
  CHECK(absl::StrContains(error("{\"factor\":1.0", "{\"factor\":0.0"), "'plateau.factor'"));
  // Older ones have no plateau.
  CHECK(ParseRunState(absl::StrReplaceAll(good, {{"\"plateau\"", "\"other\""}}))->plateau.factor ==
        1);
  CHECK_FALSE(ParseRunState("").ok());
  CHECK_FALSE(ParseRunState("[]").ok());
  CHECK_FALSE(ParseRunState("{}").ok());
}

TEST_CASE("the position is behind the last closure that is over, in whatever order", "[job]") {
  RunTracker tracker(Fresh(), kSizes, /*errors_end_job=*/false);
  tracker.OnClosure(At(0, 20, 40), Loss(1));
  tracker.OnClosure(At(0, 0, 20), Loss(1));
  CHECK(tracker.state().position.examples == 40);
  tracker.OnClosure(At(0, 40, 48), absl::InvalidArgumentError("bad row"));
  CHECK(tracker.state().steps_left_out == 1);
  CHECK(tracker.state().examples_left_out == 8);
  tracker.OnClosure(At(1, 0, 20), absl::CancelledError("not run"));
  CHECK(tracker.state().position.epoch == 0);
  CHECK(tracker.state().position.examples == 48);
  CHECK(tracker.completed() == 2);
  CHECK(tracker.meter().Read().steps == 4);
  CHECK(tracker.state().failed.empty());
  CHECK(tracker.failure().ok());
}

TEST_CASE("what the checkpoint's closures will count is not counted before", "[job]") {
  // Of epochs of 5 steps: the first one, and 2 steps; one closure failed; two are still to run, one
  // of them had its end before and is in the meter's sums already.
  RunTracker tracker(Fresh(), kSizes, /*errors_end_job=*/false);
  for (int64_t b = 0; b < 40; b += 10) tracker.OnClosure(At(0, b, b + 10), Loss(1));
  tracker.OnClosure(At(0, 40, 48), absl::InvalidArgumentError("bad row"));
  tracker.OnClosure(At(1, 0, 10), Loss(1));
  const auto parsed = ParseRunState(tracker.ToJson());
  REQUIRE(parsed.ok());
  const RunState resumed = StateToResume(*parsed, {At(1, 0, 10), At(1, 10, 20)}, kSizes);
  CHECK(resumed.position.epoch == 1);
  CHECK(resumed.position.examples == 20);
  CHECK(resumed.meter.steps == 4);
  CHECK(resumed.meter.examples == 40);
  CHECK(resumed.resumes == 1);
  RunTracker next(resumed, kSizes, false);
  next.OnClosure(At(1, 10, 20), Loss(1));
  next.OnClosure(At(1, 0, 10), Loss(1));
  CHECK(next.meter().Read().steps == 6);
  CHECK(next.meter().Read().examples == 60);
  CHECK(next.state().position.examples == 20);
}

TEST_CASE("a loss that is no number names the exact step, and nothing resumes from it", "[job]") {
  RunTracker tracker(Fresh(), kSizes, /*errors_end_job=*/true);
  tracker.OnClosure(At(2, 20, 40), Loss(1));
  tracker.OnClosure(At(2, 40, 48), Loss(std::numeric_limits<float>::infinity()));
  CHECK(tracker.failure().code() == absl::StatusCode::kAborted);
  CHECK(absl::StartsWith(tracker.failure().message(),
                         "the loss is inf at step 15 (epoch 3, examples 40 to 48)"));
  CHECK_FALSE(ParseRunState(tracker.ToJson())->failed.empty());
  RunTracker other(Fresh(), kSizes, /*errors_end_job=*/true);
  other.OnClosure(At(0, 0, 10), absl::InvalidArgumentError("bad row"));
  CHECK(ParseRunState(other.ToJson())->failed == "bad row");
}

TEST_CASE("epochs of their own sizes: steps, examples and closures before a place", "[job]") {
  EpochSizes sizes = EpochSizes::Listed(/*batch=*/10);
  CHECK(sizes.examples(0) == 0);
  CHECK(sizes.StepsBefore({0, 0}) == 0);
  for (const int64_t examples : {25, 0, 10}) sizes.Add(examples);
  CHECK(sizes.count() == 3);
  CHECK(sizes.examples(0) == 25);
  CHECK(sizes.examples(3) == 0);
  CHECK(sizes.StepsBefore({0, 11}) == 2);
  CHECK(sizes.StepsBefore({1, 0}) == 3);
  CHECK(sizes.StepsBefore({2, 10}) == 4);
  CHECK(sizes.StepsBefore({3, 0}) == 4);
  CHECK(sizes.ExamplesBefore({2, 5}) == 30);
  CHECK(sizes.ExamplesBefore({3, 0}) == 35);
  CHECK(sizes.ClosuresBefore({2, 10}, /*steps=*/2) == 3);
  CHECK(kSizes.StepsBefore({2, 11}) == 12);
  CHECK(kSizes.ExamplesBefore({2, 11}) == 107);
  CHECK(kSizes.ClosuresBefore({2, 11}, /*steps=*/3) == 5);
}

TEST_CASE("a run's state has the files that came while it ran, and where it is in them", "[job]") {
  RunTracker tracker(Fresh(), EpochSizes::Listed(kBatch), /*errors_end_job=*/true);
  FollowedEpoch first, second;
  first.examples = 20;
  first.files.resize(1);
  first.files[0].path = "/clicks/\"1\".csv";
  first.files[0].identity.set_bytes(7);
  first.files[0].identity.set_modified_ns(1'700'000'000'000'000'001);
  first.files[0].identity.set_samples(~uint64_t{0});
  second.examples = 15;
  tracker.AddEpoch(first);
  tracker.AddEpoch(second);
  tracker.OnClosure(At(0, 0, 20), Loss(1));
  tracker.OnClosure(At(1, 0, 10), Loss(1));
  const auto read = ParseRunState(tracker.ToJson());
  INFO(read.status().ToString());
  REQUIRE(read.ok());
  REQUIRE(read->followed.size() == 2);
  CHECK(read->followed[1].examples == 15);
  CHECK(read->followed[1].files.empty());
  REQUIRE(read->followed[0].files.size() == 1);
  CHECK(read->followed[0].files[0].path == first.files[0].path);
  CHECK(read->followed[0].files[0].identity.SerializeAsString() ==
        first.files[0].identity.SerializeAsString());
  EpochSizes sizes = EpochSizes::Listed(kBatch);
  for (const FollowedEpoch& epoch : read->followed) sizes.Add(epoch.examples);
  const RunState resumed = StateToResume(*read, {At(1, 10, 15)}, sizes);
  CHECK(resumed.position.epoch == 1);
  CHECK(resumed.position.examples == 15);
  CHECK(resumed.meter.steps == 3);
  CHECK(resumed.meter.examples == 30);
}

TEST_CASE("a run's state can be read where a file that came is of a time before 1970", "[job]") {
  RunTracker tracker(Fresh(), EpochSizes::Listed(kBatch), /*errors_end_job=*/true);
  FollowedEpoch epoch;
  epoch.examples = 20;
  epoch.files.resize(1);
  epoch.files[0].path = "/clicks/old.csv";
  epoch.files[0].identity.set_modified_ns(-86'400'000'000'001);
  tracker.AddEpoch(epoch);
  const auto read = ParseRunState(tracker.ToJson());
  INFO(read.status().ToString());
  REQUIRE(read.ok());
  REQUIRE(read->followed.size() == 1);
  CHECK(read->followed[0].files[0].identity.modified_ns() == -86'400'000'000'001);
}

}  // namespace
}  // namespace coxswain::runner
