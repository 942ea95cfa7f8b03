// Reading the attributes of a node.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "coxswain/tensor.h"

namespace coxswain::graph {

// The attribute `name` as a T (int64_t, double, bool, std::string, DType, Shape, vectors, Tensor).
// Errors: InvalidArgument when it is missing or of another type.
template <typename T>
absl::StatusOr<T> GetAttr(const Attrs& attrs, const std::string& name) {
  const auto it = attrs.find(name);
  if (it == attrs.end()) {
    return absl::InvalidArgumentError("attribute '" + name + "' is missing");
  }
  if (const T* value = it->second.get<T>()) return *value;
  return absl::InvalidArgumentError("attribute '" + name +
                                    "' has another type: " + it->second.ToString());
}

// The same with a default for an attribute that is absent (or, for safety of callers that already
// validated at inference, of another type).
template <typename T>
T AttrOr(const Attrs& attrs, const std::string& name, T fallback) {
  const auto it = attrs.find(name);
  if (it == attrs.end()) return fallback;
  const T* value = it->second.get<T>();
  return value == nullptr ? fallback : *value;
}

}  // namespace coxswain::graph
