#include "worker_server/worker_metrics.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/base/status.h"
#include "runtime/cluster/daemon_metrics.h"

namespace coxswain::worker {

using metrics::Kind;

void AttemptsEnded::Count(const absl::Status& status, uint64_t steps_done) {
  const auto detail = GetDetail(status);
  const ErrorCause cause = detail ? detail->cause : ErrorCause::kApplication;
  std::atomic<uint64_t>& outcome = status.ok()                       ? completed
                                   : cause == ErrorCause::kCancelled ? cancelled
                                   : cause == ErrorCause::kTaskLost  ? task_lost
                                                                     : failed;
  outcome.fetch_add(1, std::memory_order_relaxed);
  steps.fetch_add(steps_done, std::memory_order_relaxed);
}

metrics::Families WorkerFamilies(absl::string_view prefix, const proto::TaskStatus& status,
                                 const WorkerReading& reading) {
  metrics::Families families;
  cluster::AddTaskFamilies(prefix, status, &families);
  const auto name = [&](absl::string_view of) { return absl::StrCat(prefix, of); };
  const AttemptsEnded& ended = *reading.ended;
  metrics::Family* const closures =
      metrics::Add(Kind::kCounter, name("_closures_total"),
                   "Attempts of closures that have ended, by how they did", &families);
  for (const auto& [outcome, count] :
       {std::pair("completed", &ended.completed), std::pair("failed", &ended.failed),
        std::pair("cancelled", &ended.cancelled), std::pair("task_lost", &ended.task_lost)}) {
    metrics::AddSample({{"outcome", outcome}}, static_cast<double>(count->load()), closures);
  }
  metrics::AddCounter(name("_steps_total"), "Steps of these closures",
                      static_cast<double>(ended.steps.load()), &families);
  metrics::AddGauge(name("_closures_running"), "Closures that run now",
                    static_cast<double>(reading.running), &families);
  metrics::Family sent{name("_ps_sent_bytes_total"),
                       "Bytes of tensors that went to a parameter server",
                       Kind::kCounter,
                       {}};
  metrics::Family received{name("_ps_received_bytes_total"),
                           "Bytes of tensors that came from a parameter server",
                           Kind::kCounter,
                           {}};
  for (const auto& [ps, traffic] : reading.traffic) {
    metrics::AddSample({{"ps", absl::StrCat(ps)}}, static_cast<double>(traffic.sent), &sent);
    metrics::AddSample({{"ps", absl::StrCat(ps)}}, static_cast<double>(traffic.received),
                       &received);
  }
  families.push_back(std::move(sent));
  families.push_back(std::move(received));
  metrics::Family gpus{
      name("_gpu_memory_bytes"), "Memory that a GPU of this worker has", Kind::kGauge, {}};
  for (size_t i = 0; i < reading.gpus.size(); ++i) {
    metrics::AddSample({{"gpu", absl::StrCat(i)}, {"name", reading.gpus[i].name}},
                       static_cast<double>(reading.gpus[i].memory_bytes), &gpus);
  }
  families.push_back(std::move(gpus));
  return families;
}

}  // namespace coxswain::worker
