#include "runtime/env/keep_access.h"

#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <system_error>

namespace coxswain::env {
namespace {

constexpr char kAccessList[] = "system.posix_acl_access";

// False: there is one, and `made` has it not.
bool CopyAccessList(const std::string& old, const std::string& made) {
  const ssize_t size = getxattr(old.c_str(), kAccessList, nullptr, 0);
  if (size <= 0) return size == 0 || errno == ENODATA || errno == ENOTSUP;
  std::string list(static_cast<size_t>(size), '\0');
  return getxattr(old.c_str(), kAccessList, list.data(), list.size()) == size &&
         setxattr(made.c_str(), kAccessList, list.data(), list.size(), 0) == 0;
}

}  // namespace

std::string BehindLinks(const std::string& path) {
  std::error_code error;
  if (!std::filesystem::is_symlink(path, error)) return path;
  const auto target = std::filesystem::weakly_canonical(path, error);
  return error ? path : target.string();
}

void KeepAccess(const std::string& old, const std::string& made, mode_t also) {
  struct stat before {
  }, now{};
  if (stat(old.c_str(), &before) != 0 || stat(made.c_str(), &now) != 0) return;
  const bool directory = S_ISDIR(before.st_mode);
  if (directory != S_ISDIR(now.st_mode) || (!directory && !S_ISREG(before.st_mode))) return;
  const auto no_owner = static_cast<uid_t>(-1);
  // First, as it takes bits off the mode.
  const bool kept = chown(made.c_str(), before.st_uid, before.st_gid) == 0 ||
                    chown(made.c_str(), no_owner, before.st_gid) == 0;
  mode_t mode = before.st_mode & (directory ? 07777 : 0777);
  if ((!kept && now.st_gid != before.st_gid) || !CopyAccessList(old, made)) {
    mode = (mode & ~static_cast<mode_t>(S_IRWXG | S_ISGID)) | (mode & S_IRWXO) << 3;
  }
  chmod(made.c_str(), mode | also);
}

}  // namespace coxswain::env
