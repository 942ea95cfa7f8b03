// Paths of data as a user names them: files, directories, patterns.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "protos/dataset.pb.h"

namespace coxswain::data {

// The files of a path: the file itself; of a directory those in it, but for names that begin with
// '.' or '_', sorted by name; of a pattern ('*', '?', '[...]') those that it matches, sorted. A
// path that is a file stands for that whatever characters it has; one that does not exist and is no
// pattern stays, for who opens it to tell. Errors: NotFound for a pattern or a directory without a
// file; PermissionDenied, or Unavailable for other errors of the system, for a directory that
// cannot be read, be it one of several that a pattern looks into; InvalidArgument for a pattern
// with "**".
absl::StatusOr<std::vector<std::string>> ListFiles(const std::string& path);

// The spec with the files in place of its paths. Done by the one that all others get the spec from:
// a file that comes into a directory meanwhile must not be in the data of some of them. Directories
// that are passed over are logged. Errors: those of ListFiles; InvalidArgument for a file that is
// there twice, under whatever name, and for any text in the spec that is not UTF-8.
absl::StatusOr<proto::DatasetSpec> WithFiles(proto::DatasetSpec spec);

// Errors: InvalidArgument for a test file that is a training file, under whatever name. Paths that
// cannot be listed are left to who reads them.
absl::Status CheckHeldOut(const proto::DatasetSpec& spec);

// All paths in the spec that reading the data opens: who bounds what may be read goes by these.
std::vector<std::string*> FilesOf(proto::DatasetSpec* spec);

}  // namespace coxswain::data
