#include <dlfcn.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <system_error>
#include <vector>

#include "absl/strings/str_cat.h"
#include "runtime/base/status.h"
#include "runtime/device/plugin_device.h"

namespace coxswain::device {
namespace {

constexpr char kPlugin[] = "libcoxswain_cuda.so";
constexpr char kPluginVariable[] = "COXSWAIN_CUDA_PLUGIN";

// Where the plugin may be, in this order.
std::vector<std::filesystem::path> Places() {
  if (const char* named = std::getenv(kPluginVariable); named != nullptr) return {named};
  std::error_code error;
  const auto program = std::filesystem::read_symlink("/proc/self/exe", error);
  if (error) return {};
  const std::filesystem::path here = program.parent_path();
  return {here / kPlugin, here.parent_path() / "lib" / "coxswain" / kPlugin};
}

// Whether this machine has a driver at all. The plugin brings libraries of hundreds of megabytes:
// a worker without a GPU is not to wait for them.
bool HasDriver() {
  void* const driver = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL);
  if (driver != nullptr) dlclose(driver);
  return driver != nullptr;
}

absl::StatusOr<const CoxDeviceApi*> Load(const std::filesystem::path& path) {
  void* const library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    return absl::FailedPreconditionError(absl::StrCat("cannot load the plugin: ", dlerror()));
  }
  const auto function =
      reinterpret_cast<CoxDeviceApiFunction>(dlsym(library, COX_DEVICE_API_SYMBOL));
  if (function == nullptr) {
    return absl::FailedPreconditionError(absl::StrCat(
        path.string(), " is no plugin of Coxswain: it has no ", COX_DEVICE_API_SYMBOL));
  }
  const CoxDeviceApi* const api = function();
  if (api->version != COX_DEVICE_API_VERSION || api->size != sizeof(CoxDeviceApi)) {
    return absl::FailedPreconditionError(
        absl::StrCat(path.string(), " is of version ", api->version,
                     " of the plugins' table, wanted ", COX_DEVICE_API_VERSION));
  }
  return api;
}

}  // namespace

absl::StatusOr<const CoxDeviceApi*> LoadDevicePlugin() {
  if (std::getenv(kPluginVariable) == nullptr && !HasDriver()) {
    return absl::NotFoundError("there is no NVIDIA driver (libcuda.so.1)");
  }
  const std::vector<std::filesystem::path> places = Places();
  for (const auto& place : places) {
    std::error_code error;
    if (std::filesystem::exists(place, error)) return Load(place);
  }
  std::string looked;
  for (const auto& place : places)
    absl::StrAppend(&looked, looked.empty() ? "" : ", ", place.string());
  return absl::NotFoundError(absl::StrCat("there is no plugin for them (looked for ", looked, ")"));
}

}  // namespace coxswain::device
