// A mean that closures update while workers and parameter servers are killed.
#include <catch2/catch.hpp>
#include <utility>
#include <vector>

#include "coxswain/checkpoint.h"
#include "tests/integration/fault_cluster.h"

namespace coxswain {
namespace {

using Kind = ClusterEvent::Kind;

template <typename T>
T Must(absl::StatusOr<T> value) {
  MustBeOk(value.status());
  return *std::move(value);
}

// Closure i adds the numbers i and 1, with the weights 1 and 3: sums of integers are exact, so one
// closure that counts twice or not at all is seen.
struct MeanJob {
  explicit MeanJob(const Cluster& cluster) : counting(cluster) {
    mean = Must(counting.strategy().CreateMean("mean"));
    weighed = Must(counting.strategy().CreateMean("weighed"));
    update = Must(counting.strategy().Define("update", [&](FunctionBuilder& f) {
      const Output values = f.Argument("values", DType::kF32, Shape{kUnknownDim});
      f.Update(mean, values);
      f.Update(weighed, values, f.Argument("weights", DType::kF32, Shape{kUnknownDim}));
    }));
  }
  void Schedule(int64_t closures) {
    for (const int64_t end = scheduled + closures; scheduled < end; ++scheduled) {
      counting.coordinator().Schedule(
          update, {Tensor::FromVector<float>({static_cast<float>(scheduled), 1}),
                   Tensor::FromVector<float>({1, 3})});
    }
  }
  void AwaitMore(int64_t closures) const {
    REQUIRE(counting.AwaitCompleted(counting.completed() + closures));
  }
  void Check(const MeanMetric& metric, double sum, double weight) {
    CHECK(Must(counting.strategy().Read(metric)) == sum / weight);
    const Tensor sums = Must(counting.strategy().Read(metric.sums()));
    CHECK(sums.data<double>()[0] == sum);
    CHECK(sums.data<double>()[1] == weight);
  }

  CountingJob counting;  // for its strategy, its coordinator and what it knows of their progress
  MeanMetric mean, weighed;
  RemoteFunction update;
  int64_t scheduled = 0;
};

TEST_CASE("a mean has each closure's numbers once, whichever tasks are killed meanwhile",
          "[fault]") {
  ClusterOptions options;
  options.recovery.on_ps_loss = GENERATE(PsLossPolicy::kRollback, PsLossPolicy::kReplay);
  CAPTURE(static_cast<int>(options.recovery.on_ps_loss));
  FaultCluster f(2, 2, options);
  MeanJob job(f.cluster);
  CheckpointManager checkpoints(
      {.directory = f.files.Path("checkpoints"), .every = absl::Milliseconds(200)});
  MustBeOk(checkpoints.Start(f.cluster));

  Feeder feeder(&job);
  // Whichever of the parameter servers has a mean, it is lost.
  for (int task = 0; task < 2; ++task) {
    job.AwaitMore(500);
    f.LoseWorker(task);
    f.ReturnWorker(task);
    job.AwaitMore(500);
    f.LosePs(task);
    f.daemons.RestartPs(task);
    f.Expect(Kind::kRecovered, "", task + 1);
  }
  job.AwaitMore(500);
  feeder.Stop();
  MustBeOk(job.counting.Join());

  const double n = static_cast<double>(job.scheduled);
  job.Check(job.mean, n * (n - 1) / 2 + n, 2 * n);
  job.Check(job.weighed, n * (n - 1) / 2 + 3 * n, 4 * n);
  const DispatcherStats stats = job.counting.coordinator().stats();
  CHECK(stats.completed == static_cast<uint64_t>(job.scheduled));
  CHECK(stats.retried + stats.rerun > 0);  // else nothing could have counted twice
}

}  // namespace
}  // namespace coxswain
