// Errors as values within the plugin: a code of the C table and what is said about it.
#pragma once

#include <string>
#include <utility>

#include "runtime/device/device_api.h"

namespace coxswain::cuda {

class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(CoxCode code, std::string message) : code_(code), message_(std::move(message)) {}

  bool ok() const { return code_ == COX_OK; }
  CoxCode code() const { return code_; }
  const std::string& message() const { return message_; }

 private:
  CoxCode code_ = COX_OK;
  std::string message_;
};

inline Status InvalidArgument(std::string message) {
  return Status(COX_INVALID_ARGUMENT, std::move(message));
}
inline Status NotFound(std::string message) { return Status(COX_NOT_FOUND, std::move(message)); }

#define COX_CUDA_RETURN_IF_ERROR(expression)         \
  do {                                               \
    ::coxswain::cuda::Status status_ = (expression); \
    if (!status_.ok()) return status_;               \
  } while (false)

}  // namespace coxswain::cuda
