#include "ps_server/combine_gradients.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <utility>
#include <vector>

#include "runtime/base/id_hash.h"
#include "runtime/base/logging.h"
#include "runtime/base/multiversion.h"

namespace coxswain::ps {
namespace {

using Updates = absl::Span<const graph::Update* const>;

// Divides by a number of closures. That of a power of two is the product with its inverse, to the
// bit, and takes a fraction of the time.
template <typename T>
class Divisor {
 public:
  explicit Divisor(int64_t divisor)
      : by_(static_cast<T>(divisor)),
        inverse_(T{1} / static_cast<T>(divisor)),
        none_(divisor == 1),
        exact_(std::has_single_bit(static_cast<uint64_t>(divisor))) {}

  COX_ALWAYS_INLINE void Divide(const T* from, int64_t n, T* to) const {
    if (none_) {
      std::copy_n(from, n, to);
    } else if (exact_) {
      for (int64_t i = 0; i < n; ++i) to[i] = from[i] * inverse_;
    } else {
      for (int64_t i = 0; i < n; ++i) to[i] = from[i] / by_;
    }
  }
  COX_ALWAYS_INLINE void Divide(T* values, int64_t n) const {
    if (!none_) Divide(values, n, values);
  }

 private:
  const T by_, inverse_;
  const bool none_, exact_;
};

template <typename T>
COX_ALWAYS_INLINE void AddTo(T* __restrict to, const T* __restrict from, int64_t n) {
  for (int64_t i = 0; i < n; ++i) to[i] += from[i];
}

// Block by block, so that a block's sum stays in the nearest cache until it is complete.
template <typename T>
COX_ALWAYS_INLINE void SumValues(Updates updates, Divisor<T> divisor, int64_t n, T* to) {
  constexpr int64_t kBlock = 2048;
  for (int64_t at = 0; at < n; at += kBlock) {
    const int64_t size = std::min(kBlock, n - at);
    std::copy_n(updates[0]->values.data<T>() + at, size, to + at);
    for (const graph::Update* update : updates.subspan(1)) {
      AddTo(to + at, update->values.data<T>() + at, size);
    }
    divisor.Divide(to + at, size);
  }
}

COX_MULTIVERSION void SumF32(Updates updates, Divisor<float> divisor, int64_t n, float* to) {
  SumValues(updates, divisor, n, to);
}
COX_MULTIVERSION void SumF64(Updates updates, Divisor<double> divisor, int64_t n, double* to) {
  SumValues(updates, divisor, n, to);
}

// The rows of all updates, each once, in the order of their first occurrence.
struct Merged {
  std::vector<int64_t> ids;
  std::vector<uint32_t> count;   // by row: how often it occurs
  std::vector<uint32_t> places;  // by occurrence, one update's after the other's: the row
};

// A table of its own, at most half full, because the time of a step's end goes by it: it is filled
// once and dropped, and has no use for what a general one can do.
Merged MergeIds(Updates updates) {
  size_t occurrences = 0;
  for (const graph::Update* update : updates) {
    occurrences += static_cast<size_t>(update->ids.num_elements());
  }
  COX_CHECK(occurrences < std::numeric_limits<uint32_t>::max(), "too many rows in a step");
  Merged merged;
  merged.ids.reserve(occurrences);
  merged.count.reserve(occurrences);
  merged.places.reserve(occurrences);
  const size_t mask = std::bit_ceil(2 * occurrences + 1) - 1;
  std::vector<uint32_t> table(mask + 1, 0);  // 1 + the row; 0: free
  for (const graph::Update* update : updates) {
    for (const int64_t id : update->ids.values<int64_t>()) {
      size_t at = HashId(id) & mask;
      while (table[at] != 0 && merged.ids[table[at] - 1] != id) at = (at + 1) & mask;
      if (table[at] == 0) {
        merged.ids.push_back(id);
        merged.count.push_back(0);
        table[at] = static_cast<uint32_t>(merged.ids.size());
      }
      merged.places.push_back(table[at] - 1);
      ++merged.count[table[at] - 1];
    }
  }
  return merged;
}

// Each row is divided when its last value is added to it, while it is in the nearest cache. `left`
// is what Merged::count was.
template <typename T>
COX_ALWAYS_INLINE void SumRowValues(Updates updates, const Merged& merged,
                                    std::vector<uint32_t>* left, Divisor<T> divisor, int64_t width,
                                    T* to) {
  size_t known = 0;  // rows that have a value; new rows are appended
  const uint32_t* place = merged.places.data();
  for (const graph::Update* update : updates) {
    const T* from = update->values.data<T>();
    const int64_t rows = update->ids.num_elements();
    for (int64_t i = 0; i < rows; ++i, ++place, from += width) {
      T* const row = to + static_cast<int64_t>(*place) * width;
      const bool is_last = --(*left)[*place] == 0;
      const bool is_first = *place == known;
      if (is_first) ++known;
      if (is_first && is_last) {
        divisor.Divide(from, width, row);
        continue;
      }
      if (is_first) {
        std::copy_n(from, width, row);
      } else {
        AddTo(row, from, width);
      }
      if (is_last) divisor.Divide(row, width);
    }
  }
}

COX_MULTIVERSION void SumRowsF32(Updates updates, const Merged& merged, std::vector<uint32_t>* left,
                                 Divisor<float> divisor, int64_t width, float* to) {
  SumRowValues(updates, merged, left, divisor, width, to);
}
COX_MULTIVERSION void SumRowsF64(Updates updates, const Merged& merged, std::vector<uint32_t>* left,
                                 Divisor<double> divisor, int64_t width, double* to) {
  SumRowValues(updates, merged, left, divisor, width, to);
}

Tensor SumDense(Updates updates, int64_t divisor) {
  const Tensor& first = updates[0]->values;
  Tensor sum(first.dtype(), first.shape());
  const int64_t n = first.num_elements();
  if (first.dtype() == DType::kF64) {
    SumF64(updates, Divisor<double>(divisor), n, sum.mutable_data<double>());
  } else {
    SumF32(updates, Divisor<float>(divisor), n, sum.mutable_data<float>());
  }
  return sum;
}

Tensor SumRows(Updates updates, Merged* merged, int64_t divisor) {
  const Tensor& first = updates[0]->values;
  Shape shape{static_cast<int64_t>(merged->ids.size())};
  int64_t width = 1;
  for (int d = 1; d < first.rank(); ++d) {
    shape.Append(first.dim(d));
    width *= first.dim(d);
  }
  Tensor sum(first.dtype(), shape);
  std::vector<uint32_t> left = std::move(merged->count);
  if (first.dtype() == DType::kF64) {
    SumRowsF64(updates, *merged, &left, Divisor<double>(divisor), width,
               sum.mutable_data<double>());
  } else {
    SumRowsF32(updates, *merged, &left, Divisor<float>(divisor), width, sum.mutable_data<float>());
  }
  return sum;
}

}  // namespace

graph::Update CombineGradients(absl::Span<const graph::Update* const> updates, int64_t divisor) {
  COX_CHECK(!updates.empty(), "gradients of no closure");
  graph::Update combined = *updates[0];
  if (updates.size() == 1 && divisor == 1) return combined;
  if (combined.kind == graph::Update::Kind::kDense) {
    combined.values = SumDense(updates, divisor);
    return combined;
  }
  Merged merged = MergeIds(updates);
  combined.values = SumRows(updates, &merged, divisor);
  combined.ids = Tensor::FromVector<int64_t>(merged.ids);
  return combined;
}

}  // namespace coxswain::ps
