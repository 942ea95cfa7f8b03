// What several tasks are missing for, in few words.
#pragma once

#include <string>
#include <vector>

namespace coxswain::core {

struct TaskReason {
  std::string task, reason;
};

// A line for each reason, with the tasks that it holds for, in the order of the first of each:
// "ps:0, worker:0: held by coordinator b".
std::vector<std::string> GroupByReason(const std::vector<TaskReason>& tasks);

}  // namespace coxswain::core
