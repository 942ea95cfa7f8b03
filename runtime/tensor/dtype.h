// Element types. Sizes in bytes; bf16 is a storage type (kernels widen it to f32).
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace coxswain {

enum class DType : uint8_t {
  kInvalid = 0,
  kF32 = 1,
  kF64 = 2,
  kI32 = 3,
  kI64 = 4,
  kBool = 5,
  kBF16 = 6
};

// A bfloat16: the upper half of an f32.
struct BFloat16 {
  uint16_t bits = 0;

  // Rounds to nearest even; NaN stays NaN.
  static BFloat16 FromFloat(float value) {
    uint32_t raw;
    std::memcpy(&raw, &value, sizeof(raw));
    if ((raw & 0x7fffffffu) > 0x7f800000u) return {static_cast<uint16_t>((raw >> 16) | 0x40u)};
    raw += 0x7fffu + ((raw >> 16) & 1u);
    return {static_cast<uint16_t>(raw >> 16)};
  }
  float ToFloat() const {
    const uint32_t raw = static_cast<uint32_t>(bits) << 16;
    float value;
    std::memcpy(&value, &raw, sizeof(value));
    return value;
  }
};

constexpr size_t SizeOf(DType dtype) {
  switch (dtype) {
    case DType::kF32:
    case DType::kI32:
      return 4;
    case DType::kF64:
    case DType::kI64:
      return 8;
    case DType::kBool:
      return 1;
    case DType::kBF16:
      return 2;
    case DType::kInvalid:
      return 0;
  }
  return 0;
}

// "f32", "f64", "i32", "i64", "bool", "bf16".
absl::string_view DTypeName(DType dtype);

// Errors: InvalidArgument for a name that is none of the above.
absl::StatusOr<DType> ParseDType(absl::string_view name);

constexpr bool IsFloating(DType dtype) {
  return dtype == DType::kF32 || dtype == DType::kF64 || dtype == DType::kBF16;
}
constexpr bool IsInteger(DType dtype) { return dtype == DType::kI32 || dtype == DType::kI64; }

template <typename T>
struct DTypeOf;
template <>
struct DTypeOf<float> {
  static constexpr DType value = DType::kF32;
};
template <>
struct DTypeOf<double> {
  static constexpr DType value = DType::kF64;
};
template <>
struct DTypeOf<int32_t> {
  static constexpr DType value = DType::kI32;
};
template <>
struct DTypeOf<int64_t> {
  static constexpr DType value = DType::kI64;
};
template <>
struct DTypeOf<bool> {
  static constexpr DType value = DType::kBool;
};
template <>
struct DTypeOf<BFloat16> {
  static constexpr DType value = DType::kBF16;
};

}  // namespace coxswain
