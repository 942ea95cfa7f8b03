#include "coordinator/cli/save_somewhere.h"

#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <system_error>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "coordinator/cli/interrupt.h"
#include "coordinator/model/model_directory.h"
#include "runtime/base/status.h"

namespace coxswain::cli {
namespace {

namespace fs = std::filesystem;

constexpr int kLookMs = 200;  // between looks at whether a signal has come

// A name that nothing has.
std::string NewName(const std::string& begin) {
  std::error_code error;
  std::string name = absl::StrCat(begin, getpid());
  for (int i = 2; fs::exists(fs::symlink_status(name, error)); ++i) {
    name = absl::StrCat(begin, getpid(), "-", i);
  }
  return name;
}

// Whether the cluster, not the place, is what failed.
bool IsOfTheCluster(const absl::Status& status) {
  const auto detail = GetDetail(status);
  return absl::IsUnavailable(status) || absl::IsCancelled(status) ||
         (detail && (!detail->task.empty() || detail->cause == ErrorCause::kTaskLost));
}

}  // namespace

std::vector<std::string> PlacesBeside(const std::string& directory) {
  std::error_code error;
  fs::path path = fs::absolute(directory, error).lexically_normal();
  if (path.filename().empty()) path = path.parent_path();
  const std::string name = absl::StrCat(path.filename().string(), "-");
  std::vector<std::string> places = {absl::StrCat(path.string(), "-")};
  for (const fs::path& folder : {fs::current_path(error), fs::temp_directory_path(error)}) {
    if (!folder.empty()) places.push_back((folder / name).string());
  }
  return places;
}

SaveOutcome SaveSomewhere(const SaveOptions& options,
                          const std::function<absl::Status(const std::string& directory)>& save) {
  SaveOutcome outcome;
  outcome.status = save(options.directory);
  if (outcome.status.ok()) outcome.directory = options.directory;
  if (outcome.status.ok() || !options.checkpoints.empty() || IsOfTheCluster(outcome.status)) {
    return outcome;
  }
  const auto try_saving = [&](const std::string& directory) {
    absl::Status status = options.check == nullptr ? absl::OkStatus() : options.check(directory);
    if (status.ok()) status = model::CheckCanSave(directory, options.bytes);
    if (status.ok()) status = save(directory);
    if (status.ok()) outcome.directory = directory;
    return status;
  };
  for (const std::string& place : options.places) {
    if (try_saving(NewName(place)).ok()) return outcome;
  }
  if (options.ask == nullptr) return outcome;
  std::string why(outcome.status.message());
  while (const auto directory = options.ask(why)) {
    const absl::Status status = try_saving(*directory);
    outcome.chosen = status.ok();
    if (status.ok() || IsOfTheCluster(status)) return outcome;
    why = std::string(status.message());
  }
  return outcome;
}

std::function<std::optional<std::string>(const std::string& why)> AskOnTerminal() {
  if (isatty(STDIN_FILENO) != 1 || isatty(STDERR_FILENO) != 1) return nullptr;
  return [](const std::string& why) -> std::optional<std::string> {
    std::fprintf(
        stderr,
        "cannot save the model: %s\nanother directory for it (empty: it is lost): ", why.c_str());
    std::fflush(stderr);
    std::string line;
    while (!InterruptScope::interrupted()) {
      pollfd input{STDIN_FILENO, POLLIN, 0};
      const int ready = poll(&input, 1, kLookMs);
      if (ready == 0 || (ready < 0 && errno == EINTR)) continue;
      char c = '\0';
      if (ready < 0 || read(STDIN_FILENO, &c, 1) != 1) break;
      if (c != '\n') {
        line += c;
        continue;
      }
      const std::string directory(absl::StripAsciiWhitespace(line));
      if (directory.empty()) break;
      return directory;
    }
    return std::nullopt;
  };
}

}  // namespace coxswain::cli
