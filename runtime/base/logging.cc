#include "runtime/base/logging.h"

#include <atomic>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <string>

#include "spdlog/sinks/stdout_color_sinks.h"
#include "spdlog/spdlog.h"

namespace coxswain {
namespace {

std::atomic<bool> g_initialized{false};

spdlog::level::level_enum ToSpdlog(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug:
      return spdlog::level::debug;
    case LogLevel::kInfo:
      return spdlog::level::info;
    case LogLevel::kWarning:
      return spdlog::level::warn;
    case LogLevel::kError:
      return spdlog::level::err;
    case LogLevel::kOff:
      return spdlog::level::off;
  }
  return spdlog::level::info;
}

}  // namespace

void InitLogging(absl::string_view process, LogLevel level) {
  auto logger = std::make_shared<spdlog::logger>(
      std::string(process), std::make_shared<spdlog::sinks::stderr_color_sink_mt>());
  logger->set_pattern("%Y-%m-%d %H:%M:%S.%e %^%L%$ %n] %v");
  logger->set_level(ToSpdlog(level));
  logger->flush_on(spdlog::level::info);
  spdlog::set_default_logger(std::move(logger));
  g_initialized.store(true);
}

// A program that uses the library and knows nothing of logging hears of what is wrong, and nothing
// else; spdlog's own default would write to its stdout.
void Log(LogLevel level, absl::string_view message) {
  static std::once_flag once;
  if (!g_initialized.load()) {
    std::call_once(once, [] {
      if (!g_initialized.load()) InitLogging("coxswain", LogLevel::kWarning);
    });
  }
  spdlog::default_logger_raw()->log(ToSpdlog(level),
                                    spdlog::string_view_t(message.data(), message.size()));
}

void CheckFailed(const char* file, int line, const char* condition, absl::string_view message) {
  Log(LogLevel::kError, absl::StrCat(file, ":", line, ": check failed: ", condition,
                                     message.empty() ? "" : ": ", message));
  std::abort();
}

}  // namespace coxswain
