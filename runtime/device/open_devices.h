// The devices that a process is told to use.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "runtime/device/device_runtime.h"
#include "runtime/env/env.h"

namespace coxswain::device {

// What $COXSWAIN_GPUS says, for processes without an option for it; "auto" when it is not set, or
// set to nothing.
inline constexpr char kGpusVariable[] = "COXSWAIN_GPUS";
std::string WantedGpus();

// `wanted`:
//   "auto"    all GPUs of this machine; none, with a line in the log, without a plugin or a driver
//   "none"    the CPU alone
//   "0,2"     these, each once, which must be there
//   "fake"    a GPU that is none (fake_device.h), for tests; "fake:2" are two, "fake:2:1000" two
//             each of which fails for good after 1,000 operations
// InvalidArgument unless `wanted` is one of these, whether the devices are there or not.
absl::Status CheckGpuWords(const std::string& wanted);
// The same, and whether devices that are asked for by number are there, of which none is opened.
// Errors: also NotFound, FailedPrecondition.
absl::Status CheckGpusThere(const std::string& wanted);
// `env` must outlive the devices.
// Errors: InvalidArgument for other words; NotFound or FailedPrecondition when devices that are
// asked for by number are not there.
absl::StatusOr<std::shared_ptr<const DeviceSet>> OpenDevices(const std::string& wanted,
                                                             env::Env* env);

}  // namespace coxswain::device
