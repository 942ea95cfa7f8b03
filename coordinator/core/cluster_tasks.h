// The coordinator's sessions with all tasks of the cluster: which process is expected at an
// address, which tasks are connected, and why a task was last refused. Owned by the coordinator's
// loop.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "coordinator/core/task_session.h"
#include "runtime/base/ids.h"
#include "runtime/base/session_id.h"

namespace coxswain::core {

class ClusterTasks {
 public:
  using Sessions = std::vector<std::shared_ptr<TaskSession>>;
  struct Options {
    std::string coordinator_name;
    absl::Duration lease;
    // By address: the only process that is admitted; any process for other addresses.
    std::map<std::string, Incarnation> incarnations;
  };
  // Returns the callbacks for a task of "ps" or "worker".
  using EventsOf = std::function<TaskSession::Events(const std::string& job, int task)>;

  ClusterTasks(env::Env* env, std::shared_ptr<env::EventLoop> loop, net::Transport* transport,
               Options options, EventsOf events_of);

  // Starts all sessions. Called once.
  void Connect(const std::vector<std::string>& ps, const std::vector<std::string>& workers);
  void ResizeWorkers(size_t workers) { workers_.resize(workers); }
  // The worker with this number is at this address from now on. It is not connected yet.
  TaskSession* NewWorker(int worker, const std::string& address);
  const Sessions& ps() const { return ps_; }
  const Sessions& workers() const { return workers_; }
  // No further events are called.
  void Stop();
  // Only this process is admitted at the address from now on.
  void Expect(const std::string& address, Incarnation incarnation);

  // The PS that is claimed first, by all coordinators that want the cluster.
  TaskSession* first_ps() const;
  // The highest epoch that a task knows; nullopt until all PS have answered.
  std::optional<Epoch> HighestEpoch() const;
  // Claims the tasks that have answered.
  void Claim(const Session& session);
  // The numbers of connected PS.
  std::set<int> PsThere() const;

  // "/job:ps/task:0 at 10.0.0.2:7000 has worked on create_shards for 40s": of all tasks the request
  // that has waited longest for its answer, if that is at least `least`; else empty.
  std::string LongestRequest(absl::Duration now, absl::Duration least) const;

  // Whether that is news: it was not refused before, or for another reason.
  bool Refused(const std::string& task, absl::Status why);
  void NotRefused(const std::string& task) { refusals_.erase(task); }
  // A line for each reason why tasks are missing, without the tasks for which `there` is true.
  std::vector<std::string> Missing(const std::function<bool(const TaskSession&)>& there) const;

 private:
  std::shared_ptr<TaskSession> NewSession(const std::string& job, int task,
                                          const std::string& address) const;

  env::Env* const env_;
  const std::shared_ptr<env::EventLoop> loop_;
  net::Transport* const transport_;
  Options options_;
  const EventsOf events_of_;
  Sessions ps_, workers_;
  std::map<std::string, absl::Status> refusals_;  // by task, the last one
};

}  // namespace coxswain::core
