// A device of a plugin: DeviceRuntime over the C table of device_api.h.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "runtime/device/device_api.h"
#include "runtime/device/device_runtime.h"

namespace coxswain::device {

// The table of libcoxswain_cuda.so: that which $COXSWAIN_CUDA_PLUGIN names, or the one beside this
// program, or in ../lib/coxswain from there. It stays loaded.
// Errors: NotFound: there is none, or no driver; FailedPrecondition: it cannot be loaded, or its
// version is another one.
absl::StatusOr<const CoxDeviceApi*> LoadDevicePlugin();

// Errors: what the plugin says, say that there is no driver.
absl::StatusOr<int> CountPluginDevices(const CoxDeviceApi* api);

// The plugin's device `number`, which is GPU:`index` of this process. `api` is good for ever.
// Errors: what the plugin says.
absl::StatusOr<std::unique_ptr<DeviceRuntime>> NewPluginDevice(const CoxDeviceApi* api, int number,
                                                               int index);

}  // namespace coxswain::device
