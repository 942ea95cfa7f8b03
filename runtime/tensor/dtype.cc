#include "coxswain/tensor.h"

#include "absl/strings/str_cat.h"

namespace coxswain {

absl::string_view DTypeName(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return "f32";
    case DType::kF64:
      return "f64";
    case DType::kI32:
      return "i32";
    case DType::kI64:
      return "i64";
    case DType::kBool:
      return "bool";
    case DType::kBF16:
      return "bf16";
    case DType::kInvalid:
      return "invalid";
  }
  return "invalid";
}

absl::StatusOr<DType> ParseDType(absl::string_view name) {
  for (DType d : {DType::kF32, DType::kF64, DType::kI32, DType::kI64, DType::kBool, DType::kBF16}) {
    if (DTypeName(d) == name) return d;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("'", name, "' is no dtype; wanted f32, f64, i32, i64, bool or bf16"));
}

}  // namespace coxswain
