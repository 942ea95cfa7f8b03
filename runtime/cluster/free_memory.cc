#include "runtime/cluster/free_memory.h"

#include <algorithm>
#include <fstream>
#include <limits>
#include <optional>

#include "absl/strings/str_cat.h"

namespace coxswain::cluster {
namespace {

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

// "0::/path" names the group in the unified hierarchy.
std::string GroupDirectory(const std::string& root) {
  std::ifstream file(absl::StrCat(root, "/proc/self/cgroup"));
  std::string line;
  while (std::getline(file, line)) {
    if (line.rfind("0::", 0) == 0) return absl::StrCat(root, "/sys/fs/cgroup", line.substr(3));
  }
  return "";
}

}  // namespace

double FreeMemoryShare(const std::string& root) {
  double share = 1;
  const std::string machine = absl::StrCat(root, "/proc/meminfo");
  const auto total = NumberIn(machine, "MemTotal:"), free = NumberIn(machine, "MemAvailable:");
  if (total && free && *total > 0) share = *free / *total;
  const std::string group = GroupDirectory(root);
  if (group.empty()) return share;
  // "max", no number, where there is no limit.
  const auto limit = NumberIn(absl::StrCat(group, "/memory.max"), "");
  const auto used = NumberIn(absl::StrCat(group, "/memory.current"), "");
  if (!limit || !used || *limit <= 0) return share;
  // What the system can take back at once counts as used there.
  const double cached = NumberIn(absl::StrCat(group, "/memory.stat"), "inactive_file").value_or(0);
  return std::min(share, std::max(0.0, *limit - *used + cached) / *limit);
}

}  // namespace coxswain::cluster
