// Devices. A device string is "/job:worker/task:3/device:GPU:0"; every part may be left out.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "coxswain/tensor.h"

namespace coxswain {

// A constraint on where a node runs. Empty job or task -1: not constrained.
struct DeviceSpec {
  std::string job;
  int task = -1;
  Device device;
  bool has_device = false;

  bool operator==(const DeviceSpec& o) const {
    return job == o.job && task == o.task && has_device == o.has_device && device == o.device;
  }
  std::string ToString() const;
};

// Errors: InvalidArgument naming the part that is not understood.
absl::StatusOr<DeviceSpec> ParseDevice(absl::string_view text);

}  // namespace coxswain
