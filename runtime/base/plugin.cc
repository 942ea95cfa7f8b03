#include "runtime/base/plugin.h"

#include <dlfcn.h>

#include <cstdlib>
#include <filesystem>
#include <system_error>
#include <vector>

#include "absl/strings/str_cat.h"

namespace coxswain {
namespace {

// Where the plugin may be, in this order.
std::vector<std::filesystem::path> Places(const char* file, const char* variable) {
  if (const char* named = std::getenv(variable); named != nullptr) return {named};
  std::error_code error;
  const auto program = std::filesystem::read_symlink("/proc/self/exe", error);
  if (error) return {};
  const std::filesystem::path here = program.parent_path();
  return {here / file, here.parent_path() / "lib" / "coxswain" / file};
}

}  // namespace

absl::StatusOr<std::string> FindPlugin(const char* file, const char* variable) {
  std::string looked;
  for (const auto& place : Places(file, variable)) {
    std::error_code error;
    if (std::filesystem::exists(place, error)) return place.string();
    absl::StrAppend(&looked, looked.empty() ? "" : ", ", place.string());
  }
  return absl::NotFoundError(absl::StrCat("(looked for ", looked, ")"));
}

absl::StatusOr<void*> LoadPluginFunction(const std::string& path, const char* name) {
  void* const library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    return absl::FailedPreconditionError(absl::StrCat("cannot load the plugin: ", dlerror()));
  }
  void* const function = dlsym(library, name);
  if (function == nullptr) {
    return absl::FailedPreconditionError(
        absl::StrCat(path, " is no plugin of Coxswain: it has no ", name));
  }
  return function;
}

}  // namespace coxswain
