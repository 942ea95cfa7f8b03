// Attributes: the compile-time constants of a node.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "runtime/tensor/dtype.h"
#include "runtime/tensor/shape.h"
#include "runtime/tensor/tensor.h"

namespace coxswain {

class AttrValue {
 public:
  using Storage = std::variant<std::monostate, int64_t, double, bool, std::string, DType, Shape,
                               std::vector<int64_t>, std::vector<std::string>, Tensor>;

  AttrValue() = default;
  AttrValue(int value) : storage_(int64_t{value}) {}
  AttrValue(int64_t value) : storage_(value) {}
  AttrValue(double value) : storage_(value) {}
  AttrValue(float value) : storage_(double{value}) {}
  AttrValue(bool value) : storage_(value) {}
  AttrValue(const char* value) : storage_(std::string(value)) {}
  AttrValue(std::string value) : storage_(std::move(value)) {}
  AttrValue(DType value) : storage_(value) {}
  AttrValue(Shape value) : storage_(std::move(value)) {}
  AttrValue(std::vector<int64_t> value) : storage_(std::move(value)) {}
  AttrValue(std::vector<std::string> value) : storage_(std::move(value)) {}
  AttrValue(Tensor value) : storage_(std::move(value)) {}

  const Storage& storage() const { return storage_; }
  template <typename T>
  const T* get() const {
    return std::get_if<T>(&storage_);
  }
  std::string ToString() const;
  bool operator==(const AttrValue& other) const;

 private:
  Storage storage_;
};

using Attrs = std::map<std::string, AttrValue>;

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

}  // namespace coxswain
