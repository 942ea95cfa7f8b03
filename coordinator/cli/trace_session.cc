#include "coordinator/cli/trace_session.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "coordinator/api/wait.h"
#include "coordinator/core/controller.h"
#include "runtime/base/status.h"

namespace coxswain::cli {
namespace {

// Between two fetches: a recorder has room for what a task does in many of them. A large cluster is
// asked less often, so that the questions do not become the coordinator's work.
constexpr absl::Duration kInterval = absl::Milliseconds(50);
constexpr absl::Duration kIntervalPerTask = absl::Milliseconds(1);
// Before anything is recorded, so that the clocks are known to the shortest of them.
constexpr int kClockReadings = 5;
// A queue holds no more than this many fetches when recording is off.
constexpr int kLastFetches =
    2 + trace::TraceRecorder::kDefaultCapacity / trace::TraceRecorder::kMostAtOnce;

}  // namespace

absl::StatusOr<std::unique_ptr<TraceSession>> TraceSession::Start(const Cluster& cluster,
                                                                  const std::string& file) {
  ASSIGN_OR_RETURN(auto writer, TraceWriter::Create(file));
  std::unique_ptr<TraceSession> session(new TraceSession(cluster, std::move(writer)));
  for (int i = 0; i < kClockReadings; ++i) session->Fetch(true);
  const absl::Duration interval =
      std::max(kInterval, kIntervalPerTask * (cluster.num_ps() + cluster.num_workers()));
  session->thread_ = std::thread([self = session.get(), interval] {
    while (!self->stop_.WaitForNotificationWithTimeout(interval)) {
      while (!self->Fetch(true) && !self->stop_.HasBeenNotified()) {
      }
    }
  });
  return session;
}

TraceSession::TraceSession(const Cluster& cluster, std::unique_ptr<TraceWriter> writer)
    : cluster_(cluster), writer_(std::move(writer)) {}

TraceSession::~TraceSession() { Finish().IgnoreError(); }

bool TraceSession::Fetch(bool enable) {
  auto traces = WaitForValue<std::vector<core::Controller::TaskTrace>>(
      [&](auto done) { cluster_.controller()->QueryTrace(enable, std::move(done)); });
  if (!traces.ok()) {
    status_.Update(traces.status());
    return true;
  }
  bool all = true;
  for (const core::Controller::TaskTrace& trace : *traces) {
    status_.Update(writer_->Add(trace));
    if (trace.events.name_size() >= static_cast<int>(trace::TraceRecorder::kMostAtOnce))
      all = false;
  }
  return all;
}

absl::Status TraceSession::Finish() {
  if (finished_) return status_;
  finished_ = true;
  stop_.Notify();
  if (thread_.joinable()) thread_.join();
  for (int i = 0; i < kLastFetches && !Fetch(false); ++i) {
  }
  status_.Update(writer_->Close());
  return status_;
}

}  // namespace coxswain::cli
