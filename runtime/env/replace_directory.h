// Puts a directory that is whole in the place of another one, which goes.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "runtime/env/file_system.h"

namespace coxswain::env {

// "<target>.<16 digits>.tmp": a name beside it that nobody has. Of a long name it has the begin.
std::string NewNameBeside(const std::string& target);

// A directory that is being written. While it is, a lock in it tells that from what a process left
// that was killed.
struct NewDirectory {
  std::string path;
  std::unique_ptr<FileLock> lock;  // null where there are no locks
};
// The name of the lock's file; it is gone when the directory is in its place.
constexpr char kBeingWritten[] = ".being-written";

// Whether a file of this name, relative to the directory, is one that its writer makes.
using IsPart = std::function<bool(const std::string& name)>;

// Makes a directory beside `target`, for what will replace it, under such a name; with the
// directories above it. Removes what was left of such directories: those with a lock that nobody
// has, that belong to this user, and hold nothing but plain files that are parts (null: any). Links
// are not followed. Errors: those of the file system.
absl::StatusOr<NewDirectory> MakeDirectoryBeside(FileSystem* files, const std::string& target,
                                                 const IsPart& is_part = nullptr);

// `made` becomes `target`, by renaming: whoever opens `target` finds the old directory or the new
// one. Only where the file system cannot exchange two names there is a moment without either.
// `may_go` is asked about what is to be replaced, and again once it is out of the way: whatever has
// come into it meanwhile is put back. The new directory has the old one's mode, and its owner and
// group where the system allows it. After an error all is as before, and `made` is still there.
// Errors: those of `may_go` and of the file system. What was replaced but cannot be removed stays
// under another name, which is logged.
absl::Status ReplaceDirectory(FileSystem* files, const std::string& made, const std::string& target,
                              const std::function<absl::Status(const std::string& path)>& may_go);
// The same for one that MakeDirectoryBeside made.
absl::Status ReplaceDirectory(FileSystem* files, NewDirectory made, const std::string& target,
                              const std::function<absl::Status(const std::string& path)>& may_go);

}  // namespace coxswain::env
