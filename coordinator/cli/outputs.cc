// What files and directories are; which of a command's outputs would hurt its inputs or each other;
// and writing a report.
#include "coordinator/cli/outputs.h"

#include <fcntl.h>
#include <fnmatch.h>
#include <glob.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <system_error>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "coordinator/cli/interrupt.h"
#include "coordinator/model/saved_inputs.h"
#include "coordinator/runner/best_values.h"
#include "nlohmann/json.hpp"
#include "runtime/base/status.h"
#include "runtime/checkpoint/manifest.h"
#include "runtime/config/yaml_reader.h"
#include "runtime/data/file_list.h"
#include "runtime/env/file_system.h"
#include "runtime/env/remote_path.h"
#include "runtime/env/system_error.h"
#include "runtime/env/unfinished_files.h"

namespace coxswain::cli {
namespace {

namespace fs = std::filesystem;

constexpr size_t kProbeBytes = 4096;
constexpr int64_t kLargestReport = int64_t{256} << 20;
constexpr size_t kFirstEventBytes = 32;

absl::Status No(absl::string_view flag, const std::string& path, absl::string_view why) {
  return config::ConfigurationError(absl::StrCat(flag, " ", path, " cannot be written: ", why));
}

bool SameFile(const struct stat& a, const struct stat& b) {
  return a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

// The descriptor of stdout or stderr when that is this file, as of /dev/stdout; else -1.
int StandardStream(const struct stat& file) {
  for (const int fd : {STDOUT_FILENO, STDERR_FILENO}) {
    struct stat stream {};
    if (fstat(fd, &stream) == 0 && SameFile(stream, file)) return fd;
  }
  return -1;
}

// Written into as it is, not replaced.
bool IsStream(const struct stat& file) {
  return (!S_ISREG(file.st_mode) && !S_ISDIR(file.st_mode)) || StandardStream(file) >= 0;
}

// Which report a file holds, as all versions of this program write them, each key with a value of
// its type: one of training has the version, one of an evaluation the part.
std::optional<OutputKind> ReportIn(const std::string& path, int64_t bytes) {
  if (bytes > kLargestReport) return std::nullopt;
  std::ifstream file(path, std::ios::binary);
  const auto json = nlohmann::json::parse(file, nullptr, /*allow_exceptions=*/false);
  // Manifests of models and exports have a "format".
  if (!json.is_object() || json.contains("format")) return std::nullopt;
  const auto is = [&json](const char* key, bool (*wanted)(const nlohmann::json&)) {
    const auto value = json.find(key);
    return value != json.end() && wanted(*value);
  };
  const auto text = [](const nlohmann::json& v) { return v.is_string(); };
  const auto whole = [](const nlohmann::json& v) { return v.is_number_integer(); };
  if (!is("job", text) || !is("metrics", [](const nlohmann::json& v) { return v.is_object(); })) {
    return std::nullopt;
  }
  if (is("version", text) && is("steps", whole)) return OutputKind::kTrainingReport;
  if (is("part", text) && is("examples", whole)) return OutputKind::kEvaluationReport;
  return std::nullopt;
}

// By its first event, which names a task; where no task was asked there is only the last one.
bool LooksLikeTrace(const std::string& path) {
  constexpr absl::string_view kBegin = "[\n{\"ph\":\"M\",\"name\":\"";
  std::ifstream file(path, std::ios::binary);
  std::string begin(kBegin.size() + kFirstEventBytes, '\0');
  file.read(begin.data(), static_cast<std::streamsize>(begin.size()));
  begin.resize(static_cast<size_t>(file.gcount()));
  absl::string_view rest = begin;
  return absl::ConsumePrefix(&rest, kBegin) && (absl::StartsWith(rest, "process_name\",\"pid\":") ||
                                                absl::StartsWith(rest, "trace\",\"pid\":"));
}

// Makes a file in the folder and removes it again. Returns the system's error, 0 for none.
int ErrorInFolder(const fs::path& folder) {
  std::string path = (folder / ".coxswain-XXXXXX").string();
  const int fd = mkostemp(path.data(), O_CLOEXEC);
  if (fd < 0) return errno;
  unlink(path.c_str());  // at once: who is killed meanwhile leaves nothing
  const std::string bytes(kProbeBytes, 'x');
  int error = 0;
  // A write of a part does not say why: a full disk, a quota, a limit of files. The next one does.
  for (size_t done = 0; error == 0 && done < bytes.size();) {
    const ssize_t n = write(fd, bytes.data() + done, bytes.size() - done);
    if (n > 0) done += static_cast<size_t>(n);
    if (n == 0) error = ENOSPC;
    if (n < 0 && errno != EINTR) error = errno;
  }
  if (error == 0 && fsync(fd) != 0) error = errno;
  close(fd);
  return error;
}

absl::Status TryFolder(const fs::path& folder) {
  const int error = ErrorInFolder(folder);
  return error == 0 ? absl::OkStatus() : env::SystemError(error, "write in", folder.string());
}

// Absolute, without links as far as it is there.
fs::path Resolve(const std::string& path) {
  std::error_code error;
  fs::path absolute = fs::absolute(path, error).lexically_normal();
  if (absolute.filename().empty()) absolute = absolute.parent_path();
  const fs::path whole = fs::weakly_canonical(absolute, error);
  return error ? absolute : whole;
}

bool LiesIn(const fs::path& path, const fs::path& directory) {
  return std::mismatch(directory.begin(), directory.end(), path.begin(), path.end()).first ==
         directory.end();
}

// What a directory holds as a whole, by its manifest; empty for any other directory.
std::string SavedThere(const fs::path& directory) {
  for (const auto& [manifest, format, what] :
       {std::array{"model.json", "coxswain-model", "a saved model"},
        std::array{"manifest.json", "coxswain-checkpoint", "a checkpoint"},
        std::array{"inputs.json", "coxswain-inputs", "the inputs of a job"}}) {
    std::ifstream file(directory / manifest, std::ios::binary);
    const auto json = nlohmann::json::parse(file, nullptr, /*allow_exceptions=*/false);
    if (!json.is_object()) continue;
    const auto found = json.value("format", nlohmann::json());
    if (found.is_string() && absl::StartsWith(found.get<std::string>(), format)) return what;
  }
  return "";
}

bool HoldsCheckpoints(const fs::path& directory) {
  std::error_code error;
  for (fs::directory_iterator it(directory, error), end; !error && it != end; it.increment(error)) {
    if (checkpoint::ParseCheckpointName(it->path().filename().string())) return true;
  }
  return false;
}

// Whether a job removes or replaces what has this path, because of its name beside checkpoints.
bool BelongsToJob(const fs::path& path) {
  const std::string name = path.filename().string();
  const absl::string_view whole = absl::StripSuffix(name, ".tmp");
  std::error_code error;
  // A user's own folder of this name, with something in it, stays.
  const bool inputs =
      whole == model::kInputsFolder && (!fs::exists(path, error) || fs::is_empty(path, error));
  const bool kept = inputs || runner::IsBestValuesName(name) ||
                    checkpoint::ParseCheckpointName(whole).has_value();
  return kept && HoldsCheckpoints(path.parent_path());
}

// `place`: where the saved things begin that nothing may lie in.
absl::Status CheckOutsideSavedAt(const NamedPath& path, fs::path place) {
  for (;; place = place.parent_path()) {
    const std::string what = SavedThere(place);
    if (!what.empty()) {
      return config::ConfigurationError(
          absl::StrCat(path.flag, " ", path.path, " lies in ", what, ", ", place.string(),
                       ", which holds nothing else: name another place"));
    }
    if (place == place.parent_path()) break;
  }
  for (fs::path named = Resolve(path.path); named.has_relative_path();
       named = named.parent_path()) {
    if (!BelongsToJob(named)) continue;
    return config::ConfigurationError(
        absl::StrCat(path.flag, " ", path.path, ": the job whose checkpoints are in ",
                     named.parent_path().string(), " removes or replaces what is called ",
                     named.filename().string(), " there: name another place"));
  }
  return absl::OkStatus();
}

bool IsPattern(const std::string& path) {
  return path.find_first_of("*?[") != std::string::npos && !env::IsRemotePath(path);
}

// The directories whose files are all read, for a directory or a pattern.
std::vector<std::string> DirectoriesOf(const std::string& input) {
  std::error_code error;
  if (fs::is_directory(input, error)) return {input};
  if (!IsPattern(input)) return {};
  glob_t found = {};
  std::vector<std::string> directories;
  if (glob(fs::path(input).parent_path().c_str(), 0, nullptr, &found) == 0) {
    directories.assign(found.gl_pathv, found.gl_pathv + found.gl_pathc);
  }
  globfree(&found);
  return directories;
}

// Whether a new file of this path would be read with the others of the input.
bool WouldBeRead(const fs::path& path, const std::string& input) {
  const std::string name = path.filename().string();
  const std::string wanted = fs::path(input).filename().string();
  std::error_code error;
  const bool counts = fs::is_directory(input, error)
                          ? name[0] != '.' && name[0] != '_'
                          : fnmatch(wanted.c_str(), name.c_str(), FNM_PERIOD) == 0;
  if (!counts) return false;
  const std::vector<std::string> directories = DirectoriesOf(input);
  return std::any_of(directories.begin(), directories.end(), [&](const std::string& directory) {
    std::error_code none;
    return fs::equivalent(directory, path.parent_path(), none);
  });
}

absl::Status CheckNotRead(absl::string_view flag, const std::string& path,
                          const std::vector<CommandInput>& inputs) {
  const fs::path whole = Resolve(path);
  for (const CommandInput& input : inputs) {
    if (!WouldBeRead(whole, input.path)) continue;
    return config::ConfigurationError(absl::StrCat(flag, " ", path, " would be read as ",
                                                   input.what, ", which is all of ", input.path,
                                                   ": name another place"));
  }
  return absl::OkStatus();
}

const char* NameOf(OutputKind kind) {
  return kind == OutputKind::kTrainingReport     ? "a report of training"
         : kind == OutputKind::kEvaluationReport ? "a report of an evaluation"
                                                 : "a trace";
}

// Whether a file holds what the kind of output replaces.
absl::Status CheckOfKind(absl::string_view flag, const std::string& path, OutputKind kind,
                         int64_t bytes) {
  std::optional<OutputKind> found;
  if (kind != OutputKind::kTrace) {
    found = ReportIn(path, bytes);
  } else if (LooksLikeTrace(path)) {
    found = kind;
  }
  if (found == kind) return absl::OkStatus();
  const std::string holds =
      found ? absl::StrCat(NameOf(*found), ", which ", NameOf(kind), " does not replace")
            : absl::StrCat("something else than ", NameOf(kind), ", which stays");
  return config::ConfigurationError(
      absl::StrCat(flag, " ", path, " holds ", holds, ": name another file, or remove this one"));
}

absl::Status CheckExisting(absl::string_view flag, const std::string& path, OutputKind kind,
                           const struct stat& file, const std::vector<CommandInput>& inputs) {
  for (const CommandInput& input : inputs) {
    struct stat read {};
    if (stat(input.path.c_str(), &read) != 0 || !SameFile(read, file)) continue;
    return config::ConfigurationError(
        absl::StrCat(flag, " ", path, " is ", input.what, " ", input.path, ": it stays"));
  }
  if (S_ISDIR(file.st_mode)) return No(flag, path, "it is a directory");
  if (IsStream(file)) {
    return access(path.c_str(), W_OK) == 0 ? absl::OkStatus()
                                           : No(flag, path, std::strerror(errno));
  }
  if (kind == OutputKind::kForced) return absl::OkStatus();
  if (kind == OutputKind::kNew && file.st_size > 0) {
    return config::ConfigurationError(
        absl::StrCat(flag, " ", path, " is there already; --force replaces it"));
  }
  if (file.st_size == 0) return absl::OkStatus();
  return CheckOfKind(flag, path, kind, file.st_size);
}

}  // namespace

absl::Status CheckOfThisMachine(absl::string_view flag, const std::string& path) {
  if (!env::IsRemotePath(path)) return absl::OkStatus();
  return config::ConfigurationError(absl::StrCat(
      flag, " ", path, ": wanted a path of this machine; only data is read from object stores"));
}

std::vector<CommandInput> InputsOf(const job::JobSpec& job) {
  std::vector<CommandInput> inputs = {{"the job file", job.file}};
  const auto add = [&](const std::string& path) {
    if (!path.empty()) inputs.push_back({"the job's data", path});
  };
  const auto add_files = [&](const std::string& path) {
    if (env::IsRemotePath(path)) return;  // no output can be there
    std::error_code ignored;
    const bool several = IsPattern(path) || fs::is_directory(path, ignored);
    if (several) add(path);
    const auto files = data::ListFiles(path);
    if (files.ok()) {
      for (const std::string& file : *files) add(file);
    } else if (!several) {
      add(path);  // there is none, or whoever reads them will tell
    }
  };
  for (const std::string& path : job.dataset.paths()) add_files(path);
  for (const std::string& path : job.dataset.split().test_paths()) add_files(path);
  for (const proto::FeatureSpec& feature : job.dataset.features()) add(feature.vocabulary_file());
  for (const proto::JoinSpec& join : job.dataset.joins()) add(join.path());
  for (const job::TableSpec& table : job.tables) {
    if (table.rows_file) add(table.rows_file->path);
  }
  add(job.evaluate.word_similarity);
  add(job.evaluate.analogies);
  return inputs;
}

absl::Status CheckOutputFile(absl::string_view flag, const std::string& path, OutputKind kind,
                             const std::vector<CommandInput>& inputs) {
  if (path.empty()) return absl::OkStatus();
  RETURN_IF_ERROR(CheckOfThisMachine(flag, path));
  if (path.back() == '/') return No(flag, path, "it is a directory");
  struct stat file {};
  if (stat(path.c_str(), &file) == 0) {
    RETURN_IF_ERROR(CheckExisting(flag, path, kind, file, inputs));
    if (IsStream(file)) return absl::OkStatus();
  } else if (errno != ENOENT && errno != ENOTDIR) {
    return No(flag, path, std::strerror(errno));
  } else if (struct stat link{}; lstat(path.c_str(), &link) == 0) {
    return No(flag, path, "it is a link to nothing");
  }
  RETURN_IF_ERROR(CheckNotRead(flag, path, inputs));
  const fs::path folder = Resolve(path).parent_path();
  std::error_code ignored;
  if (fs::exists(folder, ignored) && !fs::is_directory(folder, ignored)) {
    return No(flag, path, absl::StrCat(folder.string(), " is no directory"));
  }
  const absl::Status tried = TryFolder(folder);
  return tried.ok() ? tried : No(flag, path, tried.message());
}

absl::Status CheckApart(const NamedPath& a, const NamedPath& b) {
  if (a.path.empty() || b.path.empty()) return absl::OkStatus();
  const fs::path first = Resolve(a.path), second = Resolve(b.path);
  if (first == second) {
    return config::ConfigurationError(
        absl::StrCat(a.flag, " ", a.path, " and ", b.flag, " ", b.path, " are the same"));
  }
  const bool in = LiesIn(first, second);
  if (!in && !LiesIn(second, first)) return absl::OkStatus();
  const NamedPath &inner = in ? a : b, &outer = in ? b : a;
  return config::ConfigurationError(absl::StrCat(inner.flag, " ", inner.path, " lies in ",
                                                 outer.flag, " ", outer.path,
                                                 ": each wants a place of its own"));
}

absl::Status CheckNotUnderFile(const NamedPath& directory, const NamedPath& file) {
  if (file.path.empty() || directory.path.empty()) return absl::OkStatus();
  if (!LiesIn(Resolve(directory.path), Resolve(file.path))) return absl::OkStatus();
  return config::ConfigurationError(
      absl::StrCat(file.flag, " ", file.path, " is to be a file, and ", directory.flag, " ",
                   directory.path, " a directory there: name another file"));
}

absl::Status CheckNoInput(const NamedPath& directory, const std::vector<CommandInput>& inputs) {
  if (directory.path.empty()) return absl::OkStatus();
  for (const CommandInput& input : inputs) {
    std::error_code error;
    if (!fs::equivalent(input.path, Resolve(directory.path), error)) continue;
    return config::ConfigurationError(absl::StrCat(directory.flag, " ", directory.path, " is ",
                                                   input.what, " ", input.path,
                                                   ": it stays, name another directory"));
  }
  return absl::OkStatus();
}

absl::Status CheckOutside(const NamedPath& file, const NamedPath& directory) {
  if (file.path.empty() || directory.path.empty()) return absl::OkStatus();
  if (!LiesIn(Resolve(file.path), Resolve(directory.path))) return absl::OkStatus();
  return config::ConfigurationError(
      absl::StrCat(file.flag, " ", file.path, " lies in ", directory.flag, " ", directory.path,
                   ", which is replaced as a whole: name another place"));
}

namespace {

absl::Status MakeOutputDirectory(absl::string_view flag, const std::string& path) {
  RETURN_IF_ERROR(CheckOfThisMachine(flag, path));
  std::error_code error;
  if (fs::exists(path, error) && !fs::is_directory(path, error)) {
    return config::ConfigurationError(absl::StrCat(flag, " ", path, ": it is no directory"));
  }
  const absl::Status made = env::NewRealFileSystem()->MakeDirs(path);
  return made.ok() ? made : No(flag, path, made.message());
}

}  // namespace

absl::Status CheckOutputDirectory(absl::string_view flag, const std::string& path) {
  RETURN_IF_ERROR(MakeOutputDirectory(flag, path));
  const absl::Status tried = TryFolder(path);
  return tried.ok() ? tried : No(flag, path, tried.message());
}

absl::StatusOr<std::string> CheckCheckpointDirectory(absl::string_view flag,
                                                     const std::string& path) {
  RETURN_IF_ERROR(MakeOutputDirectory(flag, path));
  const int error = ErrorInFolder(path);
  if (error == 0) return std::string();
  const absl::Status tried = env::SystemError(error, "write in", path);
  if (error != ENOSPC && error != EDQUOT) return No(flag, path, tried.message());
  return absl::StrCat(flag, " ", path, " is full: checkpoints fail until there is room (",
                      tried.message(), ")");
}

absl::Status CheckOutsideSaved(const NamedPath& path) {
  if (path.path.empty()) return absl::OkStatus();
  RETURN_IF_ERROR(CheckOfThisMachine(path.flag, path.path));
  std::error_code ignored;
  const fs::path place = Resolve(path.path);
  // A file that is there was told of, or is an earlier report.
  return CheckOutsideSavedAt(path, fs::is_directory(place, ignored) ? place : place.parent_path());
}

absl::Status CheckModelOutsideSaved(const NamedPath& directory) {
  if (directory.path.empty()) return absl::OkStatus();
  RETURN_IF_ERROR(CheckOfThisMachine(directory.flag, directory.path));
  return CheckOutsideSavedAt(directory, Resolve(directory.path).parent_path());
}

namespace {

constexpr absl::Duration kReaderAgain = absl::Milliseconds(50);

// A pipe opens when somebody reads it. What waits for that is not woken by a signal, which another
// thread takes.
absl::StatusOr<net::UniqueFd> OpenPipe(const std::string& path) {
  while (true) {
    net::UniqueFd fd(open(path.c_str(), O_WRONLY | O_CLOEXEC | O_NONBLOCK));
    if (fd.valid()) {
      if (fcntl(fd.get(), F_SETFL, O_WRONLY) == 0) return fd;
      return env::SystemError(errno, "open", path);
    }
    if (errno != ENXIO && errno != EINTR) return env::SystemError(errno, "open", path);
    if (InterruptScope::interrupted()) {
      return absl::AbortedError(absl::StrCat("interrupted: nobody reads the pipe ", path));
    }
    absl::SleepFor(kReaderAgain);
  }
}

}  // namespace

absl::StatusOr<std::optional<net::UniqueFd>> OpenIfStream(const std::string& path) {
  struct stat file {};
  if (stat(path.c_str(), &file) != 0 || !IsStream(file)) return std::nullopt;
  std::fflush(stdout);
  // As it is, not opened anew: with a place of its own a file would be written over from its begin.
  const int stream = StandardStream(file);
  if (stream < 0 && S_ISFIFO(file.st_mode)) {
    ASSIGN_OR_RETURN(net::UniqueFd pipe, OpenPipe(path));
    return std::optional<net::UniqueFd>(std::move(pipe));
  }
  net::UniqueFd fd(stream >= 0 ? fcntl(stream, F_DUPFD_CLOEXEC, STDERR_FILENO + 1)
                               : open(path.c_str(), O_WRONLY | O_CLOEXEC));
  if (!fd.valid()) return env::SystemError(errno, "open", path);
  return std::optional<net::UniqueFd>(std::move(fd));
}

bool IsStandardStream(const std::string& path) {
  struct stat file {};
  return stat(path.c_str(), &file) == 0 && StandardStream(file) >= 0;
}

absl::Status WriteAll(int fd, const std::string& text, const std::string& name) {
  for (size_t done = 0; done < text.size();) {
    const ssize_t n = write(fd, text.data() + done, text.size() - done);
    if (n >= 0) done += static_cast<size_t>(n);
    if (n < 0 && errno != EINTR) return env::SystemError(errno, "write", name);
  }
  return absl::OkStatus();
}

absl::Status WriteReport(const std::string& path, const std::string& text) {
  if (path.empty()) return absl::OkStatus();
  ASSIGN_OR_RETURN(const auto stream, OpenIfStream(path));
  if (!stream) {
    struct stat file {};
    const bool there = stat(path.c_str(), &file) == 0;
    const std::string target = there ? Resolve(path).string() : path;  // a link stays one
    env::RemoveUnfinished(target);
    return env::NewRealFileSystem()->WriteAtomically(target, text);
  }
  return WriteAll(stream->get(), text, path);
}

}  // namespace coxswain::cli
