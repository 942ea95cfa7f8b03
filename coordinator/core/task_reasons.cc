#include "coordinator/core/task_reasons.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace coxswain::core {

std::vector<std::string> GroupByReason(const std::vector<TaskReason>& tasks) {
  std::vector<TaskReason> groups;
  for (const TaskReason& task : tasks) {
    const auto same = std::find_if(groups.begin(), groups.end(), [&](const TaskReason& group) {
      return group.reason == task.reason;
    });
    if (same == groups.end()) {
      groups.push_back(task);
    } else {
      absl::StrAppend(&same->task, ", ", task.task);
    }
  }
  std::vector<std::string> lines;
  for (const TaskReason& group : groups) {
    lines.push_back(absl::StrCat(group.task, ": ", group.reason));
  }
  return lines;
}

}  // namespace coxswain::core
