// Summarises why several tasks are missing.
#pragma once

#include <string>
#include <vector>

namespace coxswain::core {

struct TaskReason {
  std::string task, reason;
};

// One line for each reason, with its tasks, in the order of the first task of each: "ps:0,
// worker:0: held by coordinator b".
std::vector<std::string> GroupByReason(const std::vector<TaskReason>& tasks);

}  // namespace coxswain::core
