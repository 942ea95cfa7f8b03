#include <dlfcn.h>

#include <cstdlib>
#include <string>

#include "absl/strings/str_cat.h"
#include "runtime/base/plugin.h"
#include "runtime/base/status.h"
#include "runtime/device/plugin_device.h"

namespace coxswain::device {
namespace {

constexpr char kPlugin[] = "libcoxswain_cuda.so";
constexpr char kPluginVariable[] = "COXSWAIN_CUDA_PLUGIN";

// Whether this machine has a driver at all. The plugin brings libraries of hundreds of megabytes:
// a worker without a GPU is not to wait for them.
bool HasDriver() {
  void* const driver = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL);
  if (driver != nullptr) dlclose(driver);
  return driver != nullptr;
}

absl::StatusOr<const CoxDeviceApi*> Load(const std::string& path) {
  ASSIGN_OR_RETURN(void* const function, LoadPluginFunction(path, COX_DEVICE_API_SYMBOL));
  const CoxDeviceApi* const api = reinterpret_cast<CoxDeviceApiFunction>(function)();
  if (api->version != COX_DEVICE_API_VERSION || api->size != sizeof(CoxDeviceApi)) {
    return absl::FailedPreconditionError(absl::StrCat(path, " is of version ", api->version,
                                                      " of the plugins' table, wanted ",
                                                      COX_DEVICE_API_VERSION));
  }
  return api;
}

}  // namespace

absl::StatusOr<const CoxDeviceApi*> LoadDevicePlugin() {
  if (std::getenv(kPluginVariable) == nullptr && !HasDriver()) {
    return absl::NotFoundError("there is no NVIDIA driver (libcuda.so.1)");
  }
  const auto path = FindPlugin(kPlugin, kPluginVariable);
  if (path.ok()) return Load(*path);
  return absl::NotFoundError(absl::StrCat("there is no plugin for them ", path.status().message()));
}

}  // namespace coxswain::device
