#include "ps_server/combine_gradients.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "runtime/base/logging.h"

namespace coxswain::ps {
namespace {

template <typename T>
void Divide(T* values, int64_t n, int64_t divisor) {
  if (divisor == 1) return;
  const T by = static_cast<T>(divisor);
  for (int64_t i = 0; i < n; ++i) values[i] /= by;
}

template <typename T>
void AddTo(T* to, const T* from, int64_t n) {
  for (int64_t i = 0; i < n; ++i) to[i] += from[i];
}

template <typename T>
Tensor SumDense(absl::Span<const graph::Update* const> updates, int64_t divisor) {
  const Tensor& first = updates[0]->values;
  Tensor sum(first.dtype(), first.shape());
  const int64_t n = first.num_elements();
  std::copy_n(first.data<T>(), n, sum.mutable_data<T>());
  for (const graph::Update* update : updates.subspan(1)) {
    AddTo(sum.mutable_data<T>(), update->values.data<T>(), n);
  }
  Divide(sum.mutable_data<T>(), n, divisor);
  return sum;
}

// The position of each update's rows among all rows.
struct Merged {
  std::vector<int64_t> ids;
  std::vector<std::vector<size_t>> places;  // by update
};

Merged MergeIds(absl::Span<const graph::Update* const> updates) {
  Merged merged;
  absl::flat_hash_map<int64_t, size_t> place_of;  // its order is not observable
  for (const graph::Update* update : updates) {
    std::vector<size_t>& places = merged.places.emplace_back();
    for (const int64_t id : update->ids.values<int64_t>()) {
      const auto [place, is_new] = place_of.try_emplace(id, merged.ids.size());
      if (is_new) merged.ids.push_back(id);
      places.push_back(place->second);
    }
  }
  return merged;
}

template <typename T>
Tensor SumRows(absl::Span<const graph::Update* const> updates, const Merged& merged,
               int64_t divisor) {
  Shape shape{static_cast<int64_t>(merged.ids.size())};
  for (int d = 1; d < updates[0]->values.rank(); ++d) shape.Append(updates[0]->values.dim(d));
  Tensor sum(updates[0]->values.dtype(), shape);
  int64_t width = 1;
  for (int d = 1; d < sum.rank(); ++d) width *= sum.dim(d);
  T* const to = sum.mutable_data<T>();
  size_t known = 0;  // rows that have a value; new rows are appended
  for (size_t u = 0; u < updates.size(); ++u) {
    const T* from = updates[u]->values.data<T>();
    for (const size_t place : merged.places[u]) {
      T* const row = to + static_cast<int64_t>(place) * width;
      if (place == known) {
        std::copy_n(from, width, row);
        ++known;
      } else {
        AddTo(row, from, width);
      }
      from += width;
    }
  }
  Divide(to, sum.num_elements(), divisor);
  return sum;
}

}  // namespace

graph::Update CombineGradients(absl::Span<const graph::Update* const> updates, int64_t divisor) {
  COX_CHECK(!updates.empty(), "gradients of no closure");
  graph::Update combined = *updates[0];
  if (updates.size() == 1 && divisor == 1) return combined;
  const bool f64 = combined.values.dtype() == DType::kF64;
  if (combined.kind == graph::Update::Kind::kDense) {
    combined.values = f64 ? SumDense<double>(updates, divisor) : SumDense<float>(updates, divisor);
    return combined;
  }
  const Merged merged = MergeIds(updates);
  combined.values =
      f64 ? SumRows<double>(updates, merged, divisor) : SumRows<float>(updates, merged, divisor);
  combined.ids = Tensor::FromVector<int64_t>(merged.ids);
  return combined;
}

}  // namespace coxswain::ps
