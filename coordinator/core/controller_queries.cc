// What the controller tells of the cluster, and what it asks the tasks for that.

#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "coordinator/core/controller.h"
#include "coordinator/core/gather.h"

namespace coxswain::core {

void Controller::QueryStatus(std::function<void(std::vector<proto::TaskStatus>)> done,
                             bool staleness) {
  loop_.Post([this, staleness, done = std::move(done)]() mutable {
    auto all = std::make_shared<std::vector<proto::TaskStatus>>();
    auto gather = NewStatusGather([all, done = std::move(done)](absl::Status) { done(*all); });
    for (const auto* tasks : {&tasks_.ps(), &tasks_.workers()}) {
      for (const auto& session : *tasks) {
        proto::ControlRequest request;
        proto::StatusQuery* const query = request.mutable_status();
        if (staleness) query->set_staleness(true);
        session->Request(std::move(request), {},
                         [all, count = gather->AddUnlessLost<TaskSession::Response>()](
                             absl::StatusOr<TaskSession::Response> response) {
                           if (response.ok()) all->push_back(response->reply.task_status());
                           count(std::move(response));
                         });
      }
    }
    gather->Finish();
  });
}

void Controller::QueryTrace(bool enable, std::function<void(std::vector<TaskTrace>)> done) {
  loop_.Post([this, enable, done = std::move(done)]() mutable {
    auto all = std::make_shared<std::vector<TaskTrace>>();
    const auto now_us = [this] { return absl::ToInt64Microseconds(trace_.Now()); };
    auto gather =
        NewStatusGather([this, enable, all, now_us, done = std::move(done)](absl::Status) {
          trace_.Enable(enable);
          TaskTrace& own = all->emplace_back();
          own.task = "/job:coordinator";
          // Before and after, as of the others: a clock that goes on in between is not off.
          own.asked_us = now_us();
          trace_.Drain(trace::TraceRecorder::kMostAtOnce, &own.events);
          own.answered_us = now_us();
          done(std::move(*all));
        });
    for (const auto* tasks : {&tasks_.ps(), &tasks_.workers()}) {
      for (const auto& session : *tasks) {
        proto::ControlRequest request;
        request.mutable_trace()->set_enable(enable);
        session->Request(std::move(request), {},
                         [all, session, now_us, asked = now_us(),
                          count = gather->AddUnlessLost<TaskSession::Response>()](
                             absl::StatusOr<TaskSession::Response> response) {
                           if (response.ok()) {
                             TaskTrace& trace = all->emplace_back();
                             trace.task = session->name();
                             trace.incarnation = session->incarnation();
                             trace.asked_us = asked;
                             trace.answered_us = now_us();
                             trace.events = std::move(*response->reply.mutable_trace());
                           }
                           count(std::move(response));
                         });
      }
    }
    gather->Finish();
  });
}

void Controller::AskWorker(int worker, proto::ControlRequest request,
                           std::function<void(absl::StatusOr<proto::ControlReply>)> done) {
  loop_.Post([this, worker, request = std::move(request), done = std::move(done)]() mutable {
    const ClusterTasks::Sessions& workers = tasks_.workers();
    if (worker < 0 || static_cast<size_t>(worker) >= workers.size()) {
      done(WithDetail(absl::UnavailableError(absl::StrCat("there is no worker ", worker)),
                      {ErrorCause::kTaskLost, true, "", 0}));
      return;
    }
    workers[static_cast<size_t>(worker)]->Request(
        std::move(request), {},
        [done = std::move(done)](absl::StatusOr<TaskSession::Response> response) {
          if (!response.ok()) return done(response.status());
          done(std::move(response->reply));
        });
  });
}

void Controller::GetStats(std::function<void(Stats)> done) {
  loop_.Post([this, done = std::move(done)] {
    Stats stats;
    stats.closures = closures_.stats();
    stats.failures = failures_.stats();
    stats.failures.closures_rerun = static_cast<int64_t>(stats.closures.rerun);
    if (const Checkpointer* const writer = checkpoints_.writer(); writer != nullptr) {
      stats.checkpoints = writer->stats();
      if (writer->stats().written > 0 && !checkpoints_.points().empty()) {
        stats.last_checkpoint = {checkpoints_.points().newest().steps, writer->last().at,
                                 writer->last().seconds};
      }
    }
    stats.checkpoints.shards_moved = moves_.shards();
    stats.checkpoints.move_seconds = moves_.seconds();
    stats.open = closures_.open();
    stats.running = closures_.running();
    stats.queued = stats.open - stats.running;
    for (const int ps : tasks_.PsThere()) stats.ps_ready += recovery_.IsLost(ps) ? 0 : 1;
    stats.workers_ready = closures_.workers();
    stats.workers = static_cast<int>(tasks_.workers().size());
    stats.waiting_for = WaitingFor();
    if (stats.waiting_for.empty()) stats.waiting_for = HeldBackBy();
    stats.working = tasks_.LongestRequest(env_->Monotonic(), LongWaits::kSayAfter);
    done(std::move(stats));
  });
}

}  // namespace coxswain::core
