// Libraries that are loaded when they are wanted: they export one function, which gives a table of
// functions (device_api.h, arrow_api.h).
#pragma once

#include <string>

#include "absl/status/statusor.h"

namespace coxswain {

// The path of the plugin: what the environment's `variable` names, or the file beside this program
// or in ../lib/coxswain. Errors: NotFound "(looked for A, B)".
absl::StatusOr<std::string> FindPlugin(const char* file, const char* variable);

// The function of that name, after the library was loaded, which stays. Its symbols and those of
// the libraries that it brings are seen by nobody else. Errors: FailedPrecondition.
absl::StatusOr<void*> LoadPluginFunction(const std::string& path, const char* name);

}  // namespace coxswain
