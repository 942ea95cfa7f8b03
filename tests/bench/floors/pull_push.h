// What one worker and one PS, processes of this machine, need for the rows of a step: the real PS
// and the real frames, without the work of a step, beside the bare stream and the plain loop.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "tests/bench/floors/floors.h"

namespace coxswain {

struct PullPush {
  std::string transport;
  double pull_ms = 0, push_ms = 0;  // medians; ids out and rows back, gradients out and an answer
  StreamCost stream;                // the same bytes
  double local_ms = 0;              // the plain loop: gather and update, one thread
  double rows = 0;

  double ms() const { return pull_ms + push_ms; }
};

// The tables of `shape`, without its layers, over each transport.
// Errors: what the cluster or the PS says; DataLoss when a push was not applied once.
absl::StatusOr<std::vector<PullPush>> MeasurePullPush(const StepShape& shape, double seconds);

std::string PullPushTable(const std::string& shape, const std::vector<PullPush>& all);
std::string PullPushJson(const std::string& shape, const std::vector<PullPush>& all);

}  // namespace coxswain
