#include "runtime/tensor/device.h"

#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace coxswain {
namespace {

absl::Status BadDevice(absl::string_view text, absl::string_view part) {
  return absl::InvalidArgumentError(
      absl::StrCat("device '", text, "': cannot read '", part,
                   "'; wanted /job:NAME/task:N/device:CPU:N with every part optional"));
}

absl::Status ParseLocal(absl::string_view text, absl::string_view part, absl::string_view value,
                        DeviceSpec* spec) {
  const std::vector<absl::string_view> pieces = absl::StrSplit(value, ':');
  int index = 0;
  if (pieces.size() > 2 || (pieces.size() == 2 && !absl::SimpleAtoi(pieces[1], &index)) ||
      index < 0 || index > 1024) {
    return BadDevice(text, part);
  }
  const std::string type = absl::AsciiStrToUpper(pieces[0]);
  if (type != "CPU" && type != "GPU") return BadDevice(text, part);
  spec->device.type = type == "CPU" ? DeviceType::kCpu : DeviceType::kGpu;
  spec->device.index = static_cast<int16_t>(index);
  spec->has_device = true;
  return absl::OkStatus();
}

}  // namespace

absl::string_view DeviceTypeName(DeviceType type) {
  return type == DeviceType::kCpu ? "CPU" : "GPU";
}

std::string DeviceSpec::ToString() const {
  std::string text;
  if (!job.empty()) absl::StrAppend(&text, "/job:", job);
  if (task >= 0) absl::StrAppend(&text, "/task:", task);
  if (has_device) {
    absl::StrAppend(&text, "/device:", DeviceTypeName(device.type), ":", device.index);
  }
  return text;
}

absl::StatusOr<DeviceSpec> ParseDevice(absl::string_view text) {
  DeviceSpec spec;
  for (absl::string_view part : absl::StrSplit(text, '/', absl::SkipEmpty())) {
    absl::string_view value = part;
    if (absl::ConsumePrefix(&value, "job:")) {
      if (value.empty()) return BadDevice(text, part);
      spec.job = std::string(value);
    } else if (absl::ConsumePrefix(&value, "task:")) {
      if (!absl::SimpleAtoi(value, &spec.task) || spec.task < 0) return BadDevice(text, part);
    } else if (absl::ConsumePrefix(&value, "replica:")) {
      continue;  // accepted, as in TensorFlow, and of no meaning
    } else if (absl::ConsumePrefix(&value, "device:")) {
      if (absl::Status s = ParseLocal(text, part, value, &spec); !s.ok()) return s;
    } else {
      return BadDevice(text, part);
    }
  }
  return spec;
}

}  // namespace coxswain
