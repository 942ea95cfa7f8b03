#include "runtime/device/open_devices.h"

#include <cstdlib>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "runtime/base/logging.h"
#include "runtime/base/status.h"
#include "runtime/device/fake_device.h"
#include "runtime/device/plugin_device.h"

namespace coxswain::device {
namespace {

constexpr int kMaxDevices = 64;
using Devices = std::vector<std::shared_ptr<DeviceRuntime>>;

absl::Status NotUnderstood(const std::string& wanted) {
  return absl::InvalidArgumentError(absl::StrCat(
      "GPUs '", wanted, "': wanted auto, none, or numbers with commas between them (0,1)"));
}

absl::StatusOr<Devices> FakeDevices(const std::string& wanted, env::Env* env) {
  int count = 1;
  if (wanted != "fake" &&
      (!absl::SimpleAtoi(wanted.substr(5), &count) || count < 1 || count > kMaxDevices)) {
    return NotUnderstood(wanted);
  }
  Devices devices;
  for (int i = 0; i < count; ++i) {
    FakeDeviceOptions options;
    options.index = i;
    options.seed = env->Random64();
    ASSIGN_OR_RETURN(auto device, FakeDevice::Make(env, options));
    devices.push_back(std::move(device));
  }
  return devices;
}

absl::StatusOr<Devices> NumberedDevices(const std::string& wanted) {
  Devices devices;
  for (const absl::string_view part : absl::StrSplit(wanted, ',')) {
    int number = -1;
    if (!absl::SimpleAtoi(part, &number) || number < 0 || number >= kMaxDevices) {
      return NotUnderstood(wanted);
    }
    ASSIGN_OR_RETURN(const CoxDeviceApi* const api, LoadDevicePlugin());
    ASSIGN_OR_RETURN(auto device, NewPluginDevice(api, number, static_cast<int>(devices.size())));
    devices.push_back(std::move(device));
  }
  return devices;
}

absl::StatusOr<Devices> AllDevices() {
  ASSIGN_OR_RETURN(const CoxDeviceApi* const api, LoadDevicePlugin());
  ASSIGN_OR_RETURN(const int count, CountPluginDevices(api));
  Devices devices;
  absl::Status unusable;
  for (int i = 0; i < count; ++i) {
    auto device = NewPluginDevice(api, i, static_cast<int>(devices.size()));
    if (device.ok()) {
      devices.push_back(*std::move(device));
    } else {
      LogWarning("GPU ", i, " of this machine is not used: ", device.status().message());
      unusable.Update(device.status());
    }
  }
  if (devices.empty()) RETURN_IF_ERROR(unusable);
  return devices;
}

}  // namespace

absl::Status CheckGpuWords(const std::string& wanted) {
  if (wanted == "auto" || wanted == "none" || wanted == "fake") return absl::OkStatus();
  const bool fake = absl::StartsWith(wanted, "fake:");
  for (const absl::string_view part :
       absl::StrSplit(fake ? wanted.substr(5) : wanted, fake ? '\0' : ',')) {
    int number = -1;
    if (!absl::SimpleAtoi(part, &number) || number < (fake ? 1 : 0) ||
        number > kMaxDevices - (fake ? 0 : 1)) {
      return NotUnderstood(wanted);
    }
  }
  return absl::OkStatus();
}

std::string WantedGpus() {
  const char* const wanted = std::getenv(kGpusVariable);
  return wanted == nullptr ? "auto" : wanted;
}

absl::StatusOr<std::shared_ptr<const DeviceSet>> OpenDevices(const std::string& wanted,
                                                             env::Env* env) {
  Devices devices;
  if (wanted == "fake" || absl::StartsWith(wanted, "fake:")) {
    ASSIGN_OR_RETURN(devices, FakeDevices(wanted, env));
  } else if (wanted == "auto") {
    auto all = AllDevices();
    if (all.ok()) {
      devices = *std::move(all);
    } else {
      LogInfo("no GPUs: ", all.status().message());
    }
  } else if (wanted != "none") {
    ASSIGN_OR_RETURN(devices, NumberedDevices(wanted));
  }
  for (const auto& device : devices) {
    LogInfo("GPU:", device->device().index, " is ", device->name(), " with ",
            device->memory_bytes() >> 20, " MiB");
  }
  return std::make_shared<const DeviceSet>(std::move(devices));
}

}  // namespace coxswain::device
