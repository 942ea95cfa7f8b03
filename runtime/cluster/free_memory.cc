#include "runtime/cluster/free_memory.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <limits>
#include <optional>
#include <system_error>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "runtime/base/bytes_text.h"

namespace coxswain::cluster {
namespace {

// A number that means "no limit" to the older kind of control groups is near 2^63.
constexpr double kNoLimit = 1e18;

struct Limit {
  double free = 0;   // bytes, without swap space
  double total = 0;  // bytes
  double swap = 0;   // bytes that can be swapped out
  bool group = false;
};

// The number behind `key` in a file of lines "key value"; without a key: the file's first number.
std::optional<double> NumberIn(const std::string& path, const std::string& key) {
  std::ifstream file(path);
  std::string word;
  double number = 0;
  if (key.empty()) {
    return file >> number ? std::optional(number) : std::nullopt;
  }
  while (file >> word) {
    if (word == key && file >> number) return number;
    file.clear();
    file.ignore(std::numeric_limits<std::streamsize>::max(), '\n');
  }
  return std::nullopt;
}

// The files of one of the two kinds of control groups.
struct GroupFiles {
  const char* mount;
  const char* limit;
  const char* used;
  std::vector<const char*> cached;  // keys of memory.stat
  const char* swap_limit;           // nullptr: not looked at
  const char* swap_used;
};
const GroupFiles kUnified = {
    "/sys/fs/cgroup",   "/memory.max",
    "/memory.current",  {"inactive_file", "active_file", "slab_reclaimable"},
    "/memory.swap.max", "/memory.swap.current"};
const GroupFiles kOlder = {"/sys/fs/cgroup/memory",
                           "/memory.limit_in_bytes",
                           "/memory.usage_in_bytes",
                           {"total_inactive_file", "total_active_file"},
                           nullptr,
                           nullptr};

std::optional<Limit> LimitOf(const std::string& directory, const GroupFiles& files, double swap) {
  // "max", no number, where there is no limit.
  const auto limit = NumberIn(absl::StrCat(directory, files.limit), "");
  const auto used = NumberIn(absl::StrCat(directory, files.used), "");
  if (!limit || !used || *limit <= 0 || *limit >= kNoLimit) return std::nullopt;
  double cached = 0;  // what the system can take back at once counts as used there
  for (const char* key : files.cached) {
    cached += NumberIn(absl::StrCat(directory, "/memory.stat"), key).value_or(0);
  }
  if (files.swap_limit != nullptr) {
    const auto most = NumberIn(absl::StrCat(directory, files.swap_limit), "");
    const auto swapped = NumberIn(absl::StrCat(directory, files.swap_used), "");
    if (most) swap = std::min(swap, std::max(0.0, *most - swapped.value_or(0)));
  }
  return Limit{std::clamp(*limit - *used + cached, 0.0, *limit), *limit, swap, true};
}

// Adds the limits of the group at `path` and of those around it. A container may see the path that
// its group has outside, where only the root is its own.
void AddGroups(const std::string& root, const std::string& path, const GroupFiles& files,
               double swap, std::vector<Limit>* limits) {
  const std::string mount = absl::StrCat(root, files.mount);
  std::string directory = absl::StrCat(mount, path);
  std::error_code unseen;
  if (!std::filesystem::exists(directory, unseen)) directory = mount;
  while (directory.size() >= mount.size()) {
    if (auto limit = LimitOf(directory, files, swap)) limits->push_back(*limit);
    directory.resize(directory.rfind('/'));
  }
}

std::vector<Limit> FindLimits(const std::string& root) {
  std::vector<Limit> limits;
  const std::string machine = absl::StrCat(root, "/proc/meminfo");
  const auto total = NumberIn(machine, "MemTotal:"), free = NumberIn(machine, "MemAvailable:");
  const double swap = NumberIn(machine, "SwapFree:").value_or(0) * 1024;
  if (total && free && *total > 0) limits.push_back({*free * 1024, *total * 1024, swap});
  std::ifstream groups(absl::StrCat(root, "/proc/self/cgroup"));
  std::string line;
  while (std::getline(groups, line)) {
    // "0::/path" names the group in the unified hierarchy, "4:memory:/path" one of the older kind.
    const std::vector<std::string> parts = absl::StrSplit(line, absl::MaxSplits(':', 2));
    if (parts.size() < 3) continue;
    if (parts[0] == "0") AddGroups(root, parts[2], kUnified, swap, &limits);
    for (const auto& controller : absl::StrSplit(parts[1], ',')) {
      if (controller == "memory") AddGroups(root, parts[2], kOlder, swap, &limits);
    }
  }
  return limits;
}

}  // namespace

std::string FreeMemory::ToString() const {
  return absl::StrCat(BytesText(static_cast<int64_t>(bytes)), " of the ",
                      BytesText(static_cast<int64_t>(limit)), " that ",
                      group ? "its control group may use" : "the machine has");
}

FreeMemory FindFreeMemory() { return FindFreeMemoryBelow(""); }

FreeMemory FindFreeMemoryBelow(const std::string& root) {
  FreeMemory least;
  for (const Limit& limit : FindLimits(root)) {
    const double bytes = limit.free + limit.swap;
    if (least.limit > 0 && bytes >= least.bytes) continue;
    least = {bytes, limit.total + limit.swap, limit.group};
  }
  return least;
}

double FreeMemoryShare(const std::string& root) {
  double share = 1;
  for (const Limit& limit : FindLimits(root)) share = std::min(share, limit.free / limit.total);
  return share;
}

}  // namespace coxswain::cluster
