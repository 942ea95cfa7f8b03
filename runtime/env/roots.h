// The directories below which a daemon reads and writes for others.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "runtime/env/env.h"

namespace coxswain::env {

// A value.
class Roots {
 public:
  Roots() = default;  // everywhere
  // Of this machine, or of an object store: "s3://bucket/clicks", where nothing is looked up.
  // Errors: NotFound, InvalidArgument for what is no directory; the message names it.
  static absl::StatusOr<Roots> Make(const std::vector<std::string>& directories);

  bool everywhere() const { return directories_.empty(); }
  // Where an absolute path leads, without links, "." and ".."; the file need not be there. With
  // `everywhere` the path as it is. Links are followed as they are now: whoever may change what
  // lies below a root can still lead elsewhere in between. Errors: PermissionDenied when that is
  // not below a root, also through a link; InvalidArgument for a path of this machine that is
  // not absolute, or goes round in links.
  absl::StatusOr<std::string> Resolve(const std::string& path) const;

 private:
  std::vector<std::string> directories_;  // without links
};

// `env`, whose files are those below `roots`: calls for others end with the error of Resolve, and
// there they do not exist.
std::unique_ptr<Env> NewRootedEnv(std::unique_ptr<Env> env, const Roots& roots);

}  // namespace coxswain::env
