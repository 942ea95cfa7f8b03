// What both daemons tell Prometheus of themselves.
#pragma once

#include "absl/strings/string_view.h"
#include "protos/control.pb.h"
#include "runtime/metrics/family.h"

namespace coxswain::cluster {

// What is known of a task without asking its loop. `prefix`: "coxswain_ps" or "coxswain_worker".
metrics::Families TaskInfo(absl::string_view prefix, int task);

// The rest that both kinds of task have.
void AddTaskFamilies(absl::string_view prefix, const proto::TaskStatus& status,
                     metrics::Families* families);

}  // namespace coxswain::cluster
