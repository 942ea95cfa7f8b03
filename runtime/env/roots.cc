// Paths without links, files below roots, and which paths those are.
#include "runtime/env/roots.h"

#include <climits>
#include <cstdlib>
#include <deque>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "runtime/base/status.h"
#include "runtime/env/remote_path.h"

namespace coxswain::env {
namespace {

namespace fs = std::filesystem;

constexpr int kMostLinks = 40;  // as the kernel

// As realpath, but what is not there may be missing: the rest of the path is taken as it is.
absl::StatusOr<std::string> WithoutLinks(const std::string& path) {
  if (!absl::StartsWith(path, "/") || path.find('\0') != std::string::npos) {
    return absl::InvalidArgumentError(absl::StrCat("wanted an absolute path, found '", path, "'"));
  }
  const auto parts_of = [](const std::string& text) {
    return std::deque<std::string>(absl::StrSplit(text, '/', absl::SkipEmpty()));
  };
  std::deque<std::string> left = parts_of(path);
  std::vector<std::string> done;
  const auto so_far = [&done] { return absl::StrCat("/", absl::StrJoin(done, "/")); };
  int links = 0;
  while (!left.empty()) {
    const std::string part = std::move(left.front());
    left.pop_front();
    if (part == ".") continue;
    if (part == "..") {
      if (!done.empty()) done.pop_back();
      continue;
    }
    done.push_back(part);
    std::error_code error;
    if (!fs::is_symlink(fs::symlink_status(so_far(), error))) continue;
    if (++links > kMostLinks) {
      return absl::InvalidArgumentError(absl::StrCat(path, ": too many links"));
    }
    const std::string target = fs::read_symlink(so_far(), error).string();
    if (error) return absl::InvalidArgumentError(absl::StrCat(path, ": ", error.message()));
    if (absl::StartsWith(target, "/")) {
      done.clear();
    } else {
      done.pop_back();
    }
    const std::deque<std::string> parts = parts_of(target);
    left.insert(left.begin(), parts.begin(), parts.end());
  }
  return so_far();
}

class RootedFileSystem final : public FileSystem {
 public:
  RootedFileSystem(FileSystem* files, const Roots& roots) : files_(files), roots_(roots) {}

  absl::StatusOr<std::string> Read(const std::string& path) override {
    ASSIGN_OR_RETURN(const std::string resolved, roots_.Resolve(path));
    return files_->Read(resolved);
  }
  absl::StatusOr<Buffer> Map(const std::string& path) override {
    ASSIGN_OR_RETURN(const std::string resolved, roots_.Resolve(path));
    return files_->Map(resolved);
  }
  absl::StatusOr<uint64_t> Size(const std::string& path) override {
    ASSIGN_OR_RETURN(const std::string resolved, roots_.Resolve(path));
    return files_->Size(resolved);
  }
  absl::StatusOr<std::unique_ptr<WritableFile>> Create(const std::string& path) override {
    ASSIGN_OR_RETURN(const std::string resolved, roots_.Resolve(path));
    return files_->Create(resolved);
  }
  absl::StatusOr<std::unique_ptr<WritableFile>> CreateLarge(const std::string& path) override {
    ASSIGN_OR_RETURN(const std::string resolved, roots_.Resolve(path));
    return files_->CreateLarge(resolved);
  }
  absl::Status WriteAtomically(const std::string& path, absl::string_view content) override {
    ASSIGN_OR_RETURN(const std::string resolved, roots_.Resolve(path));
    return files_->WriteAtomically(resolved, content);
  }
  absl::Status Rename(const std::string& from, const std::string& to) override {
    ASSIGN_OR_RETURN(const std::string resolved_from, roots_.Resolve(from));
    ASSIGN_OR_RETURN(const std::string resolved_to, roots_.Resolve(to));
    return files_->Rename(resolved_from, resolved_to);
  }
  absl::Status Exchange(const std::string& a, const std::string& b) override {
    ASSIGN_OR_RETURN(const std::string resolved_a, roots_.Resolve(a));
    ASSIGN_OR_RETURN(const std::string resolved_b, roots_.Resolve(b));
    return files_->Exchange(resolved_a, resolved_b);
  }
  absl::Status Link(const std::string& from, const std::string& to) override {
    ASSIGN_OR_RETURN(const std::string resolved_from, roots_.Resolve(from));
    ASSIGN_OR_RETURN(const std::string resolved_to, roots_.Resolve(to));
    return files_->Link(resolved_from, resolved_to);
  }
  absl::Status SyncDirectory(const std::string& path) override {
    ASSIGN_OR_RETURN(const std::string resolved, roots_.Resolve(path));
    return files_->SyncDirectory(resolved);
  }
  absl::Status MakeDirs(const std::string& path) override {
    ASSIGN_OR_RETURN(const std::string resolved, roots_.Resolve(path));
    return files_->MakeDirs(resolved);
  }
  absl::StatusOr<std::vector<std::string>> List(const std::string& path) override {
    ASSIGN_OR_RETURN(const std::string resolved, roots_.Resolve(path));
    return files_->List(resolved);
  }
  absl::Status RemoveAll(const std::string& path) override {
    ASSIGN_OR_RETURN(const std::string resolved, roots_.Resolve(path));
    return files_->RemoveAll(resolved);
  }
  bool Exists(const std::string& path) override {
    const auto resolved = roots_.Resolve(path);
    return resolved.ok() && files_->Exists(*resolved);
  }
  absl::StatusOr<std::unique_ptr<FileLock>> Lock(const std::string& path,
                                                 absl::string_view content) override {
    ASSIGN_OR_RETURN(const std::string resolved, roots_.Resolve(path));
    return files_->Lock(resolved, content);
  }
  absl::StatusOr<std::unique_ptr<FileLock>> TakeLock(const std::string& path,
                                                     absl::string_view content) override {
    ASSIGN_OR_RETURN(const std::string resolved, roots_.Resolve(path));
    return files_->TakeLock(resolved, content);
  }

 private:
  FileSystem* const files_;
  const Roots roots_;
};

class RootedEnv final : public Env {
 public:
  RootedEnv(std::unique_ptr<Env> env, const Roots& roots)
      : files_(env->files(), roots), env_(std::move(env)) {}
  absl::Time Now() override { return env_->Now(); }
  absl::Duration Monotonic() override { return env_->Monotonic(); }
  uint64_t Random64() override { return env_->Random64(); }
  std::unique_ptr<EventLoop> NewLoop() override { return env_->NewLoop(); }
  std::unique_ptr<EventLoop> NewComputeLoop() override { return env_->NewComputeLoop(); }
  ComputePool* pool() override { return env_->pool(); }
  FileSystem* files() override { return &files_; }
  void FaultPoint(const char* name) override { env_->FaultPoint(name); }

 private:
  RootedFileSystem files_;
  const std::unique_ptr<Env> env_;  // ends first: tasks of its pool use files_
};

}  // namespace

absl::StatusOr<Roots> Roots::Make(const std::vector<std::string>& directories) {
  Roots roots;
  for (const std::string& directory : directories) {
    if (IsRemotePath(directory)) {
      roots.directories_.emplace_back(absl::StripSuffix(directory, "/"));
      continue;
    }
    std::error_code error;
    const std::string real = fs::canonical(directory, error).string();
    if (error) return absl::NotFoundError(absl::StrCat(directory, ": ", error.message()));
    if (!fs::is_directory(real, error)) {
      return absl::InvalidArgumentError(absl::StrCat(directory, ": wanted a directory"));
    }
    roots.directories_.push_back(real);
  }
  return roots;
}

absl::StatusOr<std::string> Roots::Resolve(const std::string& path) const {
  if (everywhere()) return path;
  const bool remote = IsRemotePath(path);
  std::string resolved = path;
  if (!remote) {
    ASSIGN_OR_RETURN(resolved, WithoutLinks(path));
  }
  for (const std::string& root : directories_) {
    if (remote != IsRemotePath(root)) continue;
    if (root == "/" || resolved == root || absl::StartsWith(resolved, root + "/")) return resolved;
  }
  return absl::PermissionDeniedError(absl::StrCat(
      "'", path, "'", resolved == path ? "" : absl::StrCat(" leads to '", resolved, "', which"),
      " is not below ", absl::StrJoin(directories_, " or "),
      ", where this daemon works for others; see --root"));
}

std::unique_ptr<Env> NewRootedEnv(std::unique_ptr<Env> env, const Roots& roots) {
  if (roots.everywhere()) return env;
  return std::make_unique<RootedEnv>(std::move(env), roots);
}

}  // namespace coxswain::env
