// The one place that knows the logging library. CHECK is for this program's own bugs only: never
// for what a user, a peer or a disk sent.
#pragma once

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace coxswain {

enum class LogLevel { kDebug, kInfo, kWarning, kError, kOff };

// Names the process in each line ("worker:1"), sets the level (till then: warnings). Logs: stderr.
void InitLogging(absl::string_view process, LogLevel level);

// Thread-safe.
void Log(LogLevel level, absl::string_view message);

template <typename... Args>
void LogDebug(const Args&... args) {
  Log(LogLevel::kDebug, absl::StrCat(args...));
}
template <typename... Args>
void LogInfo(const Args&... args) {
  Log(LogLevel::kInfo, absl::StrCat(args...));
}
template <typename... Args>
void LogWarning(const Args&... args) {
  Log(LogLevel::kWarning, absl::StrCat(args...));
}
template <typename... Args>
void LogError(const Args&... args) {
  Log(LogLevel::kError, absl::StrCat(args...));
}

[[noreturn]] void CheckFailed(const char* file, int line, const char* condition,
                              absl::string_view message);

}  // namespace coxswain

#define COX_CHECK(condition, ...)                                                         \
  do {                                                                                    \
    if (__builtin_expect(!(condition), 0)) {                                              \
      ::coxswain::CheckFailed(__FILE__, __LINE__, #condition, absl::StrCat(__VA_ARGS__)); \
    }                                                                                     \
  } while (false)
