#include "runtime/env/regular_file.h"

#include "absl/strings/str_cat.h"

namespace coxswain::env {
namespace {

const char* KindOf(const struct stat& file) {
  if (S_ISDIR(file.st_mode)) return "a directory";
  if (S_ISFIFO(file.st_mode)) return "a pipe";
  return S_ISSOCK(file.st_mode) ? "a socket" : "a device";
}

}  // namespace

absl::Status CheckRegular(const std::string& path, const struct stat& file) {
  if (S_ISREG(file.st_mode)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(path, ": wanted a file, found ", KindOf(file),
                   S_ISDIR(file.st_mode) ? "" : ", which cannot be read several times"));
}

}  // namespace coxswain::env
