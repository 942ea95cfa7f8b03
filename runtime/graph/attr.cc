#include "runtime/graph/attr.h"

#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace coxswain {
namespace {

struct Printer {
  std::string operator()(std::monostate) const { return "none"; }
  std::string operator()(int64_t v) const { return absl::StrCat(v); }
  std::string operator()(double v) const { return absl::StrCat(v); }
  std::string operator()(bool v) const { return v ? "true" : "false"; }
  std::string operator()(const std::string& v) const { return absl::StrCat("\"", v, "\""); }
  std::string operator()(DType v) const { return std::string(DTypeName(v)); }
  std::string operator()(const Shape& v) const { return v.ToString(); }
  std::string operator()(const std::vector<int64_t>& v) const {
    return absl::StrCat("[", absl::StrJoin(v, ","), "]");
  }
  std::string operator()(const std::vector<std::string>& v) const {
    return absl::StrCat("[", absl::StrJoin(v, ","), "]");
  }
  std::string operator()(const Tensor& v) const { return v.ToString(); }
};

bool SameTensor(const Tensor& a, const Tensor& b) {
  return a.dtype() == b.dtype() && a.shape() == b.shape() &&
         (!a.has_value() || std::memcmp(a.raw(), b.raw(), a.bytes()) == 0);
}

}  // namespace

std::string AttrValue::ToString() const { return std::visit(Printer{}, storage_); }

bool AttrValue::operator==(const AttrValue& other) const {
  if (storage_.index() != other.storage_.index()) return false;
  if (const Tensor* mine = get<Tensor>()) return SameTensor(*mine, *other.get<Tensor>());
  return std::visit(
      [&](const auto& mine) -> bool {
        using T = std::decay_t<decltype(mine)>;
        if constexpr (std::is_same_v<T, Tensor>) {
          return false;  // handled above
        } else {
          return mine == std::get<T>(other.storage_);
        }
      },
      storage_);
}

}  // namespace coxswain
