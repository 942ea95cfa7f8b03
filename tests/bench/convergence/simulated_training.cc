// First the daemons, then the program that trains (Trainer), then the world that has them all.
#include "tests/bench/convergence/simulated_training.h"

#include <algorithm>
#include <deque>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "coordinator/core/controller.h"
#include "ps_server/ps_service.h"
#include "runtime/base/not_finite.h"
#include "runtime/base/status.h"
#include "tests/bench/convergence/click_model.h"
#include "tests/bench/convergence/planted_clicks.h"
#include "tests/sim/site.h"
#include "tests/sim/workload.h"
#include "worker_server/worker_service.h"

namespace coxswain {
namespace {

constexpr int kPs = 2;
constexpr int64_t kTestExamples = 2000;
constexpr uint64_t kDataSeed = 20260101;  // all runs train on the same clicks
constexpr int64_t kTestBatch = -1;        // is trained on by none

class DaemonProcess final : public sim::Process {
 public:
  explicit DaemonProcess(std::unique_ptr<cluster::Daemon> daemon) : daemon_(std::move(daemon)) {}
  void Start() override { COX_CHECK(daemon_->Start().ok()); }

 private:
  const std::unique_ptr<cluster::Daemon> daemon_;
};

cluster::DaemonOptions OptionsOf(const std::string& job, int task, const std::string& address) {
  cluster::DaemonOptions options;
  options.job = job;
  options.task = task;
  options.address = address;
  return options;
}

// The coordinator's process, and the program that it runs.
class Trainer final : public sim::Process {
 public:
  Trainer(const sim::Place& place, const SimulatedTraining& training,
          std::vector<std::string> workers, TrainingResult* result, absl::Status* status)
      : place_(place),
        training_(training),
        model_(training.learning_rate, training.seed),
        clicks_(kDataSeed),
        examples_(clicks_.Batch(kTestBatch, kTestExamples)),
        result_(result),
        status_(status) {
    for (int p = 0; p < kPs; ++p) options_.ps.push_back(absl::StrCat("ps:", p));
    options_.workers = std::move(workers);
    options_.in_flight = training.in_flight;
    options_.lease = absl::Hours(1);  // nothing fails here
  }

  void Start() override {
    controller_ = std::make_unique<core::Controller>(place_.env, place_.transport, options_);
    controller_->Start(
        Then([this] { controller_->CreateShards(model_.shards(), Then([this] { Register(); })); }));
  }

 private:
  // Goes on where the step before was good; ends the run where it was not.
  core::Controller::DoneFn Then(std::function<void()> next) {
    return [this, life = place_.life, next = std::move(next)](const absl::Status& status) {
      if (!life->alive) return;
      status.ok() ? next() : End(status);
    };
  }
  void End(const absl::Status& status) {
    over_ = true;
    *status_ = status;
  }

  void Register() {
    std::vector<proto::ArgumentSource> sources(model_.step()->arguments.size());
    for (size_t i = 0; i < sources.size(); ++i) sources[i].set_argument(static_cast<int>(i));
    controller_->RegisterPlan(1, model_.step(), std::move(sources), 0, Then([this] {
                                began_ = place_.world->now();
                                ScheduleMore();
                                EvaluateLater();
                              }));
  }

  // As deep as workers are kept, and as much again that is ready.
  void ScheduleMore() {
    const Consistency& c = training_.consistency;
    const auto window = static_cast<size_t>(2 * training_.workers * training_.in_flight);
    const size_t closures = c.in_steps() ? c.batches() + c.backup : 1;
    while (!over_ && (open_ == 0 || open_ + closures <= std::max(window, 2 * closures))) {
      std::vector<core::ClosureSpec> step;
      std::vector<core::Controller::ResultFn> done;
      while (step.size() < closures) {
        if (waiting_.empty()) waiting_.push_back(next_++);
        const int64_t number = waiting_.front();
        waiting_.pop_front();
        step.push_back(Closure(number));
        done.push_back(
            [this, life = place_.life, number](const absl::StatusOr<std::vector<Tensor>>& results) {
              if (life->alive) OnDone(number, results.status());
            });
      }
      open_ += closures;
      if (!c.in_steps()) {
        controller_->Schedule(std::move(step[0]), std::move(done[0]));
        continue;
      }
      SyncStep kind;
      kind.count = static_cast<uint32_t>(c.batches());
      kind.backup = static_cast<uint32_t>(c.backup);
      kind.mean = true;
      kind.free = c.mode == ConsistencyMode::kHybrid;
      controller_->ScheduleStep(std::move(step), kind, std::move(done));
    }
  }

  core::ClosureSpec Closure(int64_t number) const {
    core::ClosureSpec spec;
    spec.plan = 1;
    spec.arguments = ClickModel::Arguments(clicks_.Batch(number, training_.batch));
    if (training_.consistency.mode == ConsistencyMode::kBounded) {
      spec.max_staleness = training_.consistency.max_staleness;
    }
    return spec;
  }

  void OnDone(int64_t number, const absl::Status& status) {
    if (over_) return;
    --open_;
    const auto detail = GetDetail(status);
    if (detail && detail->cause == ErrorCause::kSurplus) {
      ++result_->surplus;
      waiting_.push_back(number);  // visited in a later step
    } else if (!status.ok()) {
      // A learning rate that is too high does not reach the target.
      if (GetNotFinite(status)) result_->quality = 0;
      End(GetNotFinite(status) ? absl::OkStatus() : status);
      return;
    } else {
      ++result_->batches;
    }
    ScheduleMore();
  }

  // Beside training, which is not held up by it, and after about 20 batches.
  void EvaluateLater() {
    const absl::Duration every = 20 * training_.piece / training_.workers;
    place_.world->Schedule(every, place_.life, [this] {
      if (over_) return;
      read_.assign(model_.shards().size(), Tensor());
      left_ = read_.size();
      const absl::Duration asked = place_.world->now() - began_;
      const int64_t batches = result_->batches;
      for (size_t s = 0; s < read_.size(); ++s) {
        const proto::ShardSpec& shard = model_.shards()[s];
        controller_->ReadRows(
            shard.id(), 0, shard.rows(), 0,
            [this, life = place_.life, s, asked, batches](const absl::StatusOr<Tensor>& rows) {
              if (life->alive) OnRead(s, rows, asked, batches);
            });
      }
    });
  }

  void OnRead(size_t shard, const absl::StatusOr<Tensor>& rows, absl::Duration asked,
              int64_t batches) {
    if (over_) return;
    if (!rows.ok()) {
      End(rows.status());
      return;
    }
    read_[shard] = *rows;
    if (--left_ > 0) return;
    result_->quality = AucOf(ClickModel::Scores(read_, examples_), examples_.labels);
    result_->time = asked;
    result_->reached = result_->quality >= training_.target;
    if (result_->reached || batches >= training_.most_batches || asked >= training_.most_time) {
      const Consistency& c = training_.consistency;
      result_->batches = batches;
      result_->updates = batches / (c.in_steps() ? c.batches() : 1);
      over_ = true;
      return;
    }
    EvaluateLater();
  }

 public:
  bool over() const { return over_; }

 private:
  const sim::Place place_;
  const SimulatedTraining training_;
  const ClickModel model_;
  const PlantedClicks clicks_;
  const Clicks examples_;  // to measure by
  TrainingResult* const result_;
  absl::Status* const status_;
  core::ControllerOptions options_;
  std::unique_ptr<core::Controller> controller_;
  absl::Duration began_;
  bool over_ = false;
  int64_t next_ = 0;             // batch
  std::deque<int64_t> waiting_;  // batches that come before it
  size_t open_ = 0;              // closures
  std::vector<Tensor> read_;     // by shard
  size_t left_ = 0;              // that are not read yet
};

}  // namespace

absl::StatusOr<TrainingResult> Train(const SimulatedTraining& training) {
  TrainingResult result;
  absl::Status status;
  sim::World world(training.seed);
  sim::Site::Options options;
  options.network.spikes = 0;
  sim::Site site(&world, options);
  for (int p = 0; p < kPs; ++p) {
    site.Start(site.AddNode(absl::StrCat("ps:", p), [p](const sim::Place& place) {
      return std::make_unique<DaemonProcess>(
          std::make_unique<ps::PsService>(place.env, place.transport, sim::SimRegistry(),
                                          OptionsOf("ps", p, place.address), /*lanes=*/1));
    }));
  }
  std::vector<std::string> workers;
  for (int w = 0; w < training.workers; ++w) {
    sim::SimEnv::Options env = options.env;
    env.task_time = training.piece * (w == 0 ? training.straggler : 1.0);
    env.task_chance = 0.5;
    workers.push_back(absl::StrCat("worker:", w));
    const auto make = [w](const sim::Place& place) {
      return std::make_unique<DaemonProcess>(std::make_unique<worker::WorkerService>(
          place.env, place.transport, sim::SimRegistry(), OptionsOf("worker", w, place.address)));
    };
    site.Start(site.AddNode(workers.back(), make, env));
  }
  const int coordinator = site.AddNode("coordinator", [&](const sim::Place& place) {
    return std::make_unique<Trainer>(place, training, workers, &result, &status);
  });
  site.Start(coordinator);
  const auto over = [&] {
    const auto* trainer = static_cast<const Trainer*>(site.process(coordinator));
    return trainer != nullptr && trainer->over();
  };
  const bool ended = world.RunUntil(over, absl::Hours(24 * 365));
  result.trace = world.trace_hash();
  if (!world.ok()) return absl::InternalError(world.violation());
  if (!status.ok()) return status;
  if (!ended) return absl::DeadlineExceededError("the simulated job stands still");
  return result;
}

}  // namespace coxswain
