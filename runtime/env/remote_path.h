// Which paths lead to no file of this machine.
#pragma once

#include "absl/strings/match.h"
#include "absl/strings/string_view.h"

namespace coxswain::env {

inline constexpr absl::string_view kS3 = "s3://";

// "s3://bucket/key": the address of an object in a store. Its characters are what they are: there
// are no "..", no links and no working directory.
inline bool IsRemotePath(absl::string_view path) { return absl::StartsWith(path, kS3); }

}  // namespace coxswain::env
