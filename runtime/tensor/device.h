// Devices. A device string is "/job:worker/task:3/device:GPU:0"; every part may be left out.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace coxswain {

enum class DeviceType : uint8_t { kCpu = 0, kGpu = 1 };

// A device within one task: what a buffer lives on and a kernel runs on.
struct Device {
  DeviceType type = DeviceType::kCpu;
  int16_t index = 0;

  bool operator==(const Device& o) const { return type == o.type && index == o.index; }
  bool operator!=(const Device& o) const { return !(*this == o); }
};

absl::string_view DeviceTypeName(DeviceType type);  // "CPU", "GPU"

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
