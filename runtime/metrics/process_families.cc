#include "runtime/metrics/process_families.h"

#include <dirent.h>
#include <unistd.h>

#include <fstream>
#include <iterator>
#include <memory>
#include <optional>
#include <sstream>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace coxswain::metrics {
namespace {

std::string ReadAll(const char* path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

// Of /proc/self/stat, counted as in proc(5) from 1; the second may have spaces, and is skipped.
constexpr size_t kUserTicks = 14, kSystemTicks = 15, kStartTicks = 22, kResidentPages = 24;
constexpr size_t kFirstBehindName = 3;

struct Stat {
  std::vector<std::string> fields;

  std::optional<double> Get(size_t number) const {
    const size_t at = number - kFirstBehindName;
    double value = 0;
    if (at >= fields.size() || !absl::SimpleAtod(fields[at], &value)) return std::nullopt;
    return value;
  }
};

Stat ReadStat() {
  const std::string text = ReadAll("/proc/self/stat");
  const size_t name_end = text.rfind(')');
  if (name_end == std::string::npos) return {};
  return {absl::StrSplit(text.substr(name_end + 1), ' ', absl::SkipEmpty())};
}

// When the machine was started, in seconds since 1970.
std::optional<double> BootTime() {
  for (const absl::string_view line : absl::StrSplit(ReadAll("/proc/stat"), '\n')) {
    absl::string_view rest = line;
    double seconds = 0;
    if (absl::ConsumePrefix(&rest, "btime ") && absl::SimpleAtod(rest, &seconds)) return seconds;
  }
  return std::nullopt;
}

std::optional<double> OpenFiles() {
  const std::unique_ptr<DIR, int (*)(DIR*)> directory(opendir("/proc/self/fd"), closedir);
  if (directory == nullptr) return std::nullopt;
  double files = 0;
  while (const dirent* const entry = readdir(directory.get())) {
    if (entry->d_name[0] != '.') ++files;
  }
  return files - 1;  // without the directory's own
}

}  // namespace

Families ProcessFamilies() {
  Families families;
  const Stat stat = ReadStat();
  const auto ticks = static_cast<double>(sysconf(_SC_CLK_TCK));
  if (const auto user = stat.Get(kUserTicks), system = stat.Get(kSystemTicks); user && system) {
    AddCounter("process_cpu_seconds_total", "CPU time of the process, in user and system mode",
               (*user + *system) / ticks, &families);
  }
  if (const auto pages = stat.Get(kResidentPages)) {
    AddGauge("process_resident_memory_bytes", "Memory of the process that is in RAM",
             *pages * static_cast<double>(sysconf(_SC_PAGESIZE)), &families);
  }
  if (const auto files = OpenFiles()) {
    AddGauge("process_open_fds", "File descriptors that are open, sockets among them", *files,
             &families);
  }
  if (const auto start = stat.Get(kStartTicks), boot = BootTime(); start && boot) {
    AddGauge("process_start_time_seconds", "When the process began, in seconds since 1970",
             *boot + *start / ticks, &families);
  }
  return families;
}

}  // namespace coxswain::metrics
