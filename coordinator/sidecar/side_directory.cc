// What may be in the directory; taking checkpoints and inputs; the best one.
#include "coordinator/sidecar/side_directory.h"

#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "coordinator/model/saved_inputs.h"
#include "coordinator/model/saved_manifest.h"
#include "coordinator/model/unreplaced.h"
#include "runtime/base/logging.h"
#include "runtime/base/status.h"
#include "runtime/checkpoint/crc32.h"
#include "runtime/checkpoint/keep_checkpoint.h"
#include "runtime/checkpoint/manifest.h"
#include "runtime/env/system_error.h"

namespace coxswain::sidecar {
namespace {

namespace fs = std::filesystem;

constexpr char kLock[] = ".lock";
constexpr char kProbe[] = ".coxswain-";
constexpr char kUnfinished[] = ".tmp";

// The reports, and what is there before they are: "reports.jsonl..." is left of a process that was
// killed when it made them, and kProbe of one that tried whether it could.
bool IsOfReports(absl::string_view name) {
  return name == kLock || name == kReports || absl::StartsWith(name, absl::StrCat(kReports, ".")) ||
         absl::StartsWith(name, kProbe);
}

// Whether a side-car gives a file such a name.
bool IsOurs(absl::string_view name) {
  if (IsOfReports(name) || name == kBest || name == model::kInputsFolder) return true;
  if (absl::EndsWith(name, kUnfinished)) {
    name.remove_suffix(sizeof(kUnfinished) - 1);
    if (name == kBest || name == model::kInputsFolder) return true;
  }
  return checkpoint::ParseCheckpointName(name).has_value();
}

absl::Status CheckOurs(env::FileSystem* files, const std::string& path) {
  ASSIGN_OR_RETURN(const std::vector<std::string> names, files->List(path));
  const bool begun = files->Exists(absl::StrCat(path, "/", kReports));
  for (const std::string& name : names) {
    // Only the reports say that checkpoints are links of a side-car, and not a job's own.
    if (begun ? IsOurs(name) : IsOfReports(name)) continue;
    return absl::FailedPreconditionError(absl::StrCat(
        path, " holds ", name,
        ", which no `coxswain eval --follow` has made there: ", "name another directory"));
  }
  const std::string best = absl::StrCat(path, "/", kBest);
  std::error_code error;
  if (fs::symlink_status(best, error).type() == fs::file_type::not_found) return absl::OkStatus();
  const fs::path target = fs::read_symlink(best, error);
  if (!error && checkpoint::ParseCheckpointName(target.string())) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      best, " is no link to a checkpoint beside it: it stays; name another directory"));
}

// One side-car at a time. Null where the file system has no locks.
absl::StatusOr<std::unique_ptr<env::FileLock>> LockDirectory(env::FileSystem* files,
                                                             const std::string& path) {
  auto lock = files->Lock(absl::StrCat(path, "/", kLock),
                          absl::StrFormat("process %d\n", static_cast<int>(getpid())));
  if (absl::IsUnavailable(lock.status())) {
    return WithDetail(
        absl::UnavailableError(absl::StrCat("another `coxswain eval --follow` writes in ", path)),
        {ErrorCause::kClusterHeld, true, "", 0});
  }
  if (absl::IsUnimplemented(lock.status())) {
    LogWarning(lock.status().message(), ": another side-car may write there, too");
    return std::unique_ptr<env::FileLock>();
  }
  return lock;
}

absl::Status LinkOrCopy(const std::string& from, const std::string& to) {
  std::error_code error;
  fs::create_directories(fs::path(to).parent_path(), error);
  if (!error) fs::create_hard_link(from, to, error);
  if (error && error != std::errc::no_such_file_or_directory) {
    error.clear();
    fs::copy_file(from, to, error);
  }
  return error ? env::SystemError(error.value(), "link", from) : absl::OkStatus();
}

absl::Status LinkFiles(const std::vector<std::string>& names, const std::string& from,
                       const std::string& to) {
  for (const std::string& name : names) {
    RETURN_IF_ERROR(LinkOrCopy(absl::StrCat(from, "/", name), absl::StrCat(to, "/", name)));
  }
  return absl::OkStatus();
}

// Whether the inputs are of a job that began anew, with other data: nothing can be asked of the
// checkpoint any more. Inputs that are damaged say nothing.
bool IsOfOtherJob(env::FileSystem* files, const std::string& checkpoint,
                  const std::string& inputs) {
  const auto manifest = checkpoint::ReadManifest(files, checkpoint);
  if (!manifest.ok() || !model::ReadModelManifest(inputs, model::kSavedInputs).ok()) return false;
  return !model::CheckInputsFit(inputs, *manifest, checkpoint).ok();
}

// In place of another directory, which goes; in one step where the file system has that.
absl::Status PutInPlace(env::FileSystem* files, const std::string& made, const std::string& to) {
  if (files->Exists(to)) {
    const absl::Status exchanged = files->Exchange(made, to);
    if (!absl::IsUnimplemented(exchanged)) {
      RETURN_IF_ERROR(exchanged);
      return files->RemoveAll(made);
    }
    RETURN_IF_ERROR(files->RemoveAll(to));
  }
  return files->Rename(made, to);
}

}  // namespace

std::string IdentityOf(env::FileSystem* files, const std::string& checkpoint) {
  const auto manifest = files->Read(absl::StrCat(checkpoint, "/manifest.json"));
  if (!manifest.ok()) return "";
  return absl::StrFormat("%08x-%d", checkpoint::Crc32(0, manifest->data(), manifest->size()),
                         static_cast<int64_t>(manifest->size()));
}

SideDirectory::SideDirectory(env::FileSystem* files, std::string path,
                             std::unique_ptr<env::FileLock> lock, EvaluationLog log, BestBy by)
    : files_(files),
      path_(std::move(path)),
      lock_(std::move(lock)),
      log_(std::move(log)),
      by_(std::move(by)) {}

absl::StatusOr<SideDirectory> SideDirectory::Open(env::FileSystem* files, const std::string& path,
                                                  const std::string& job, const BestBy& by) {
  RETURN_IF_ERROR(files->MakeDirs(path));
  RETURN_IF_ERROR(CheckOurs(files, path));
  ASSIGN_OR_RETURN(auto lock, LockDirectory(files, path));
  ASSIGN_OR_RETURN(EvaluationLog log,
                   EvaluationLog::Open(files, absl::StrCat(path, "/", kReports), job));
  SideDirectory directory(files, path, std::move(lock), std::move(log), by);
  RETURN_IF_ERROR(directory.Tidy());
  return directory;
}

std::string SideDirectory::PathOf(uint64_t number) const {
  return absl::StrCat(path_, "/", checkpoint::CheckpointName(number));
}

std::string SideDirectory::inputs() const { return absl::StrCat(path_, "/", model::kInputsFolder); }

absl::StatusOr<std::string> SideDirectory::Take(const std::string& checkpoints, uint64_t number) {
  const std::string from = absl::StrCat(checkpoints, "/", checkpoint::CheckpointName(number));
  const std::string to = PathOf(number);
  if (files_->Exists(to)) {
    const std::string identity = IdentityOf(files_, to);
    if (!identity.empty() && identity == IdentityOf(files_, from)) return to;
    // A job that began anew has come to the number of the best one.
    if (log_.best() && log_.best()->number == number) log_.ForgetBest();
    RETURN_IF_ERROR(files_->RemoveAll(to));
  }
  RETURN_IF_ERROR(checkpoint::KeepCheckpoint(files_, from, to));
  return to;
}

absl::StatusOr<bool> SideDirectory::TakeInputs(const std::string& checkpoints) {
  const std::string from = model::InputsOf(checkpoints), to = inputs();
  const std::string made = absl::StrCat(to, kUnfinished);
  const std::string manifest = absl::StrCat("/", model::kSavedInputs.file);
  // It is written last. Who was killed behind it may have left side tables that nobody else has.
  if (!files_->Exists(to) && files_->Exists(made + manifest)) {
    RETURN_IF_ERROR(files_->Rename(made, to));
  }
  // The job may replace its inputs, and some of their files, meanwhile.
  const auto make = [&]() -> absl::StatusOr<bool> {
    ASSIGN_OR_RETURN(const auto take, model::FindInputsToTake(files_, from, to, path_));
    if (!take) return false;
    RETURN_IF_ERROR(files_->RemoveAll(made));
    RETURN_IF_ERROR(files_->MakeDirs(made));
    RETURN_IF_ERROR(LinkFiles(take->of_job, from, made));
    RETURN_IF_ERROR(LinkFiles(take->of_own, to, made));
    RETURN_IF_ERROR(files_->WriteAtomically(made + manifest, take->manifest));
    return true;
  };
  ASSIGN_OR_RETURN(const bool is_made, model::ReadUnreplaced(from, model::kSavedInputs.file, make));
  if (!is_made) return false;
  RETURN_IF_ERROR(PutInPlace(files_, made, to));
  RETURN_IF_ERROR(Tidy());
  return true;
}

absl::Status SideDirectory::Report(EvaluatedCheckpoint* evaluated) {
  evaluated->best = by_.Better(*evaluated, log_.best());
  RETURN_IF_ERROR(log_.Append(*evaluated));
  return Tidy();
}

absl::Status SideDirectory::LetGo() { return Tidy(); }

absl::Status SideDirectory::MarkBest(uint64_t number) {
  const std::string best = absl::StrCat(path_, "/", kBest), made = absl::StrCat(best, kUnfinished);
  const std::string target = checkpoint::CheckpointName(number);
  std::error_code error;
  if (fs::read_symlink(best, error) == target && !error) return absl::OkStatus();
  RETURN_IF_ERROR(files_->RemoveAll(made));
  if (symlink(target.c_str(), made.c_str()) != 0) return env::SystemError(errno, "link", made);
  return files_->Rename(made, best);
}

absl::Status SideDirectory::Tidy() {
  if (log_.best()) {
    const std::string best = PathOf(log_.best()->number);
    const bool gone = IdentityOf(files_, best) != log_.best()->identity;
    if (gone || IsOfOtherJob(files_, best, inputs())) log_.ForgetBest();
  }
  std::string keep;
  if (log_.best()) {
    RETURN_IF_ERROR(MarkBest(log_.best()->number));
    keep = checkpoint::CheckpointName(log_.best()->number);
  } else {
    RETURN_IF_ERROR(files_->RemoveAll(absl::StrCat(path_, "/", kBest)));  // it led to nothing
  }
  ASSIGN_OR_RETURN(const std::vector<std::string> names, files_->List(path_));
  for (const std::string& name : names) {
    const std::string finished = name.substr(0, name.find('.'));
    const bool checkpoint = checkpoint::ParseCheckpointName(finished).has_value();
    if (!checkpoint || name == keep) continue;
    RETURN_IF_ERROR(files_->RemoveAll(absl::StrCat(path_, "/", name)));
  }
  return absl::OkStatus();
}

}  // namespace coxswain::sidecar
