// Picking a loop's code by dtype, and how much of a loop is worth a thread.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "coxswain/tensor.h"

namespace coxswain::kernels {

// Elements of a cheap element-wise loop that are worth a thread of their own.
constexpr int64_t kElementGrain = 32768;

// The product of dims [begin, end) of a fully known shape.
inline int64_t DimsProduct(const Shape& shape, int begin, int end) {
  int64_t n = 1;
  for (int i = begin; i < end; ++i) n *= shape.dim(i);
  return n;
}

// Calls f(T{}) with the C++ type of the dtype. Errors: what f returns; InvalidArgument for a dtype
// that is not in the set.
template <typename... Ts, typename F>
absl::Status DispatchAmong(DType dtype, F f) {
  absl::Status status = absl::InvalidArgumentError("");
  const bool found = ((DTypeOf<Ts>::value == dtype ? (status = f(Ts{}), true) : false) || ...);
  if (found) return status;
  std::string names;
  ((absl::StrAppend(&names, names.empty() ? "" : " or ", DTypeName(DTypeOf<Ts>::value))), ...);
  return absl::InvalidArgumentError(absl::StrCat("wanted ", names, ", found ", DTypeName(dtype)));
}
template <typename F>
absl::Status DispatchFloat(DType dtype, F f) {
  return DispatchAmong<float, double>(dtype, f);
}
template <typename F>
absl::Status DispatchNumber(DType dtype, F f) {
  return DispatchAmong<float, double, int32_t, int64_t>(dtype, f);
}
template <typename F>
absl::Status DispatchIndex(DType dtype, F f) {
  return DispatchAmong<int32_t, int64_t>(dtype, f);
}
// By the size of an element, for ops that only move bytes: f(uint8_t, uint16_t, uint32_t or
// uint64_t).
template <typename F>
absl::Status DispatchBytes(DType dtype, F f) {
  switch (SizeOf(dtype)) {
    case 1:
      return f(uint8_t{});
    case 2:
      return f(uint16_t{});
    case 4:
      return f(uint32_t{});
    case 8:
      return f(uint64_t{});
    default:
      return absl::InvalidArgumentError("wanted a value, found none");
  }
}

}  // namespace coxswain::kernels
