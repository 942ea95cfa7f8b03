#include "coxswain/tensor.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace coxswain {

bool Shape::IsFullyKnown() const {
  return std::all_of(dims_.begin(), dims_.end(), [](int64_t d) { return d >= 0; });
}

int64_t Shape::num_elements() const {
  int64_t n = 1;
  for (int64_t d : dims_) n *= d;
  return n;
}

bool Shape::Accepts(const Shape& other) const {
  if (rank() != other.rank()) return false;
  for (int i = 0; i < rank(); ++i) {
    if (dims_[i] != kUnknownDim && dims_[i] != other.dims_[i]) return false;
  }
  return true;
}

std::string Shape::ToString() const {
  std::string text = "[";
  for (int i = 0; i < rank(); ++i) {
    if (i > 0) text += ",";
    text += dims_[i] == kUnknownDim ? "?" : absl::StrCat(dims_[i]);
  }
  return text + "]";
}

absl::StatusOr<Shape> BroadcastShapes(const Shape& a, const Shape& b) {
  const int rank = std::max(a.rank(), b.rank());
  absl::InlinedVector<int64_t, 4> dims(rank);
  for (int i = 0; i < rank; ++i) {
    const int ia = a.rank() - rank + i, ib = b.rank() - rank + i;
    const int64_t da = ia < 0 ? 1 : a.dim(ia), db = ib < 0 ? 1 : b.dim(ib);
    if (da == db) {
      dims[i] = da;
    } else if (da == 1) {
      dims[i] = db;
    } else if (db == 1) {
      dims[i] = da;
    } else if (da == kUnknownDim || db == kUnknownDim) {
      dims[i] = std::max(da, db);
    } else {
      return absl::InvalidArgumentError(absl::StrCat("shapes ", a.ToString(), " and ", b.ToString(),
                                                     " do not broadcast: dimension ", i, " is ", da,
                                                     " on one side and ", db, " on the other"));
    }
  }
  return Shape(dims);
}

}  // namespace coxswain
