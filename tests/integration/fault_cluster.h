// A cluster of processes that are lost on purpose, and what the coordinator says of it.
#pragma once

#include <signal.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "coordinator/api/task_statuses.h"
#include "protos/control.pb.h"
#include "tests/integration/counting_job.h"

namespace coxswain {

inline void MustBeOk(const absl::Status& status) {
  INFO(status);
  REQUIRE(status.ok());
}

// Remembers a cluster's events. Thread-safe.
class EventLog {
 public:
  using Kind = ClusterEvent::Kind;

  // For ClusterOptions::on_event; may be called after the log is gone.
  std::function<void(const ClusterEvent&)> Recorder() const {
    return [state = state_](const ClusterEvent& event) {
      absl::MutexLock lock(&state->mu);
      state->events.push_back(event);
    };
  }
  // How often it happened to the task ("" for what is about the cluster).
  int Count(Kind kind, const std::string& task) const {
    absl::MutexLock lock(&state_->mu);
    return state_->Count(kind, task);
  }
  // Waits until it has happened so often. False: not in time.
  bool Await(Kind kind, const std::string& task, int times,
             absl::Duration timeout = absl::Seconds(60)) const {
    absl::MutexLock lock(&state_->mu);
    const auto happened = [&]() ABSL_NO_THREAD_SAFETY_ANALYSIS {
      return state_->Count(kind, task) >= times;
    };
    return state_->mu.AwaitWithTimeout(absl::Condition(&happened), timeout);
  }
  // For a test that failed.
  std::string ToString() const {
    absl::MutexLock lock(&state_->mu);
    std::string text;
    for (const ClusterEvent& e : state_->events) {
      absl::StrAppend(&text, e.task, " ", e.message, "\n");
    }
    return text;
  }

 private:
  struct State {
    absl::Mutex mu;
    std::vector<ClusterEvent> events ABSL_GUARDED_BY(mu);

    int Count(Kind kind, const std::string& task) const ABSL_NO_THREAD_SAFETY_ANALYSIS {
      int count = 0;
      for (const ClusterEvent& e : events) count += e.kind == kind && e.task == task;
      return count;
    }
  };
  std::shared_ptr<State> state_ = std::make_shared<State>();
};

class FaultCluster {
 public:
  using Kind = ClusterEvent::Kind;

  FaultCluster(int ps, int workers, const ClusterOptions& options = {},
               Daemons::LaunchOf launch = nullptr)
      : daemons(files, ps, workers, std::move(launch)),
        cluster(Connect(daemons, WithLog(options))) {}

  static std::string Worker(int task) { return absl::StrCat("/job:worker/task:", task); }
  static std::string Ps(int task) { return absl::StrCat("/job:ps/task:", task); }

  // Kill with SIGKILL and wait until the coordinator knows; or only kill, for more at once.
  void KillWorker(int task) { daemons.worker(task).Kill(SIGKILL); }
  void LoseWorker(int task) {
    const int before = events.Count(Kind::kWorkerLost, Worker(task));
    KillWorker(task);
    Expect(Kind::kWorkerLost, Worker(task), before + 1);
  }
  // Start it at its old address and wait until it has joined in.
  void ReturnWorker(int task) {
    const int before = events.Count(Kind::kWorkerJoined, Worker(task));
    daemons.RestartWorker(task);
    Expect(Kind::kWorkerJoined, Worker(task), before + 1);
  }
  void LosePs(int task) {
    const int before = events.Count(Kind::kPsLost, Ps(task));
    daemons.ps(task).Kill(SIGKILL);
    Expect(Kind::kPsLost, Ps(task), before + 1);
  }
  void Expect(Kind kind, const std::string& task, int times) const {
    const bool happened = events.Await(kind, task, times);
    CAPTURE(static_cast<int>(kind), task, times, events.ToString());
    REQUIRE(happened);
  }
  // Closures that this incarnation of the worker has run; -1: it does not answer.
  int64_t ClosuresRun(int worker) const {
    for (const proto::TaskStatus& task : TaskStatuses(cluster)) {
      if (task.job() == "worker" && task.task() == worker) {
        return static_cast<int64_t>(task.closures_run());
      }
    }
    return -1;
  }
  // Gives the job steps until this worker has run one of them.
  void ExpectToWork(int worker, CountingJob* job) const {
    const int64_t before = ClosuresRun(worker);
    const absl::Time deadline = absl::Now() + absl::Seconds(60);
    while (ClosuresRun(worker) <= before && absl::Now() < deadline) {
      job->Schedule(50);
      MustBeOk(job->Join());
    }
    CHECK(ClosuresRun(worker) > before);
  }

  DataFiles files;
  EventLog events;
  Daemons daemons;
  Cluster cluster;

 private:
  ClusterOptions WithLog(ClusterOptions options) const {
    options.on_event = events.Recorder();
    return options;
  }
};

// Schedules steps on a thread of its own until it is stopped; nobody else may use the job's
// Schedule meanwhile.
class Feeder {
 public:
  template <typename Job>
  explicit Feeder(Job* job, int64_t most = INT64_MAX)
      : done_(std::async(std::launch::async, [this, job, most] {
          for (int64_t i = 0; i < most && !stop_; ++i) job->Schedule(1);
        })) {}
  ~Feeder() { Stop(); }
  Feeder(const Feeder&) = delete;
  Feeder& operator=(const Feeder&) = delete;

  void Stop() {
    stop_ = true;
    if (done_.valid()) done_.get();
  }
  // Waits for the end of all, or until then.
  bool WaitUntil(absl::Time time) const {
    return done_.wait_until(absl::ToChronoTime(time)) == std::future_status::ready;
  }

 private:
  std::atomic<bool> stop_{false};
  std::future<void> done_;
};

}  // namespace coxswain
