// Where files come to that a job follows: a directory of this machine or of an object store, or the
// names in one that a pattern matches.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace coxswain::data {

struct ListedFile {
  std::string path;
  int64_t bytes = 0;
  int64_t modified_ns = 0;
};

// Not thread-safe. Calls of a store wait for the network, for a bounded time.
class FollowedPlace {
 public:
  virtual ~FollowedPlace() = default;

  // Whether files can come. Errors: InvalidArgument for what is neither a directory nor a pattern
  // in one; those of the store.
  virtual absl::Status Check() const = 0;
  // Whether a file of that name is in the directory. Errors: those of the store.
  virtual absl::StatusOr<bool> Has(const std::string& name) const = 0;
  // The files that are there, none where nothing is, but for those that ListFiles passes over.
  // Errors: Unavailable for a directory that cannot be listed at the moment; those of the store.
  virtual absl::StatusOr<std::vector<ListedFile>> List() const = 0;
  // Whether each look is a request that somebody pays for.
  virtual bool remote() const = 0;
};

std::unique_ptr<FollowedPlace> MakeFollowedPlace(const std::string& path);

}  // namespace coxswain::data
