// The C table of this build: of a GPU in the plugin, of the host's memory in the library for tests.
#pragma once

#include "runtime/device/device_api.h"

namespace coxswain::cuda {

const CoxDeviceApi* Api();

}  // namespace coxswain::cuda
