#include "runtime/device/open_devices.h"

#include <algorithm>
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

bool IsFake(const std::string& wanted) {
  return wanted == "fake" || absl::StartsWith(wanted, "fake:");
}

// "fake[:COUNT[:OPS]]"
struct FakeGpus {
  int count = 1;
  int64_t break_after_ops = -1;
};
absl::StatusOr<FakeGpus> ParseFake(const std::string& wanted) {
  FakeGpus fake;
  const std::vector<absl::string_view> parts = absl::StrSplit(wanted, ':');
  const bool good =
      parts.size() <= 3 &&
      (parts.size() < 2 ||
       (absl::SimpleAtoi(parts[1], &fake.count) && fake.count >= 1 && fake.count <= kMaxDevices)) &&
      (parts.size() < 3 ||
       (absl::SimpleAtoi(parts[2], &fake.break_after_ops) && fake.break_after_ops >= 1));
  if (!good) return NotUnderstood(wanted);
  return fake;
}

absl::StatusOr<std::vector<int>> ParseNumbers(const std::string& wanted) {
  std::vector<int> numbers;
  for (const absl::string_view part : absl::StrSplit(wanted, ',')) {
    int number = -1;
    if (!absl::SimpleAtoi(part, &number) || number < 0 || number >= kMaxDevices) {
      return NotUnderstood(wanted);
    }
    if (std::find(numbers.begin(), numbers.end(), number) != numbers.end()) {
      return absl::InvalidArgumentError(
          absl::StrCat("GPUs '", wanted, "': wanted each once, found ", number, " again"));
    }
    numbers.push_back(number);
  }
  return numbers;
}

absl::StatusOr<Devices> FakeDevices(const std::string& wanted, env::Env* env) {
  ASSIGN_OR_RETURN(const FakeGpus fake, ParseFake(wanted));
  Devices devices;
  for (int i = 0; i < fake.count; ++i) {
    FakeDeviceOptions options;
    options.index = i;
    options.seed = env->Random64();
    options.break_after_ops = fake.break_after_ops;
    ASSIGN_OR_RETURN(auto device, FakeDevice::Make(env, options));
    devices.push_back(std::move(device));
  }
  return devices;
}

absl::StatusOr<Devices> NumberedDevices(const std::string& wanted) {
  ASSIGN_OR_RETURN(const std::vector<int> numbers, ParseNumbers(wanted));
  ASSIGN_OR_RETURN(const CoxDeviceApi* const api, LoadDevicePlugin());
  Devices devices;
  for (const int number : numbers) {
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
  if (wanted == "auto" || wanted == "none") return absl::OkStatus();
  return IsFake(wanted) ? ParseFake(wanted).status() : ParseNumbers(wanted).status();
}

absl::Status CheckGpusThere(const std::string& wanted) {
  RETURN_IF_ERROR(CheckGpuWords(wanted));
  if (wanted == "auto" || wanted == "none" || IsFake(wanted)) return absl::OkStatus();
  ASSIGN_OR_RETURN(const std::vector<int> numbers, ParseNumbers(wanted));
  ASSIGN_OR_RETURN(const CoxDeviceApi* const api, LoadDevicePlugin());
  ASSIGN_OR_RETURN(const int count, CountPluginDevices(api));
  for (const int number : numbers) {
    if (number < count) continue;
    return absl::NotFoundError(
        absl::StrCat("GPUs '", wanted, "': found ", count, ", numbered from 0"));
  }
  return absl::OkStatus();
}

std::string WantedGpus() {
  const char* const wanted = std::getenv(kGpusVariable);
  return wanted == nullptr || *wanted == 0 ? "auto" : wanted;
}

absl::StatusOr<std::shared_ptr<const DeviceSet>> OpenDevices(const std::string& wanted,
                                                             env::Env* env) {
  Devices devices;
  std::string why_none;
  if (IsFake(wanted)) {
    ASSIGN_OR_RETURN(devices, FakeDevices(wanted, env));
  } else if (wanted == "auto") {
    auto all = AllDevices();
    if (all.ok()) {
      devices = *std::move(all);
    } else {
      why_none = std::string(all.status().message());
      LogInfo("no GPUs: ", why_none);
    }
  } else if (wanted == "none") {
    why_none = "it was told to use none";
  } else {
    ASSIGN_OR_RETURN(devices, NumberedDevices(wanted));
  }
  for (const auto& device : devices) {
    LogInfo("GPU:", device->device().index, " is ", device->name(), " with ",
            device->memory_bytes() >> 20, " MiB");
  }
  return std::make_shared<const DeviceSet>(std::move(devices), std::move(why_none));
}

}  // namespace coxswain::device
