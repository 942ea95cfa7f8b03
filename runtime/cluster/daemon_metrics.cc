#include "runtime/cluster/daemon_metrics.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "runtime/base/version.h"

namespace coxswain::cluster {

metrics::Families TaskInfo(absl::string_view prefix, int task) {
  metrics::Families families;
  metrics::AddSample({{"version", std::string(kVersion)}, {"task", absl::StrCat(task)}}, 1,
                     metrics::Add(metrics::Kind::kGauge, absl::StrCat(prefix, "_info"),
                                  "Always 1; the program's version, and the task's number in the "
                                  "cluster",
                                  &families));
  return families;
}

void AddTaskFamilies(absl::string_view prefix, const proto::TaskStatus& status,
                     metrics::Families* families) {
  const auto name = [&](absl::string_view of) { return absl::StrCat(prefix, of); };
  metrics::AddGauge(name("_session_held"),
                    "1 while a coordinator holds this task and is heard of, else 0",
                    status.held_by().empty() ? 0 : 1, families);
  metrics::AddCounter(name("_received_frames_total"), "Messages that came",
                      static_cast<double>(status.frames_received()), families);
  metrics::AddCounter(name("_received_bytes_total"), "Bytes of the messages that came",
                      static_cast<double>(status.bytes_received()), families);
  metrics::AddCounter(name("_compute_seconds_total"),
                      "Time that compute threads worked, summed over threads",
                      status.compute_seconds(), families);
  metrics::AddGauge(name("_compute_threads"), "Compute threads", status.threads(), families);
}

}  // namespace coxswain::cluster
