#include "ps_server/delay_compensation.h"

#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_map.h"

namespace coxswain::ps {
namespace {

template <typename T>
void CompensateRow(T* g, const T* then, const T* now, int64_t n, double lambda) {
  const T by = static_cast<T>(lambda);
  for (int64_t i = 0; i < n; ++i) g[i] += by * g[i] * g[i] * (now[i] - then[i]);
}

template <typename T>
void CompensateDense(const ReadMarks::Values& read, const Tensor& now, double lambda,
                     Tensor* gradient) {
  const Tensor& then = read.front().second;
  const int64_t n = gradient->num_elements();
  if (then.dtype() != gradient->dtype() || now.dtype() != gradient->dtype() ||
      then.num_elements() != n || now.num_elements() != n) {
    return;
  }
  CompensateRow(gradient->mutable_data<T>(), then.data<T>(), now.data<T>(), n, lambda);
}

template <typename T>
void CompensateRows(const graph::Update& update, const ReadMarks::Values& read, const Tensor& now,
                    double lambda, Tensor* gradient) {
  const int64_t rows = update.ids.num_elements();
  const int64_t width = rows == 0 ? 0 : gradient->num_elements() / rows;
  if (now.dtype() != gradient->dtype() || now.num_elements() != gradient->num_elements()) return;
  absl::flat_hash_map<int64_t, const T*> then;  // its order is never seen
  for (const std::pair<Tensor, Tensor>& one : read) {
    const Tensor &ids = one.first, &values = one.second;
    const int64_t n = ids.num_elements();
    if (values.dtype() != gradient->dtype() || values.num_elements() != n * width) continue;
    for (int64_t i = 0; i < n; ++i) {
      then.try_emplace(ids.data<int64_t>()[i], values.data<T>() + i * width);
    }
  }
  T* const g = gradient->mutable_data<T>();
  for (int64_t i = 0; i < rows; ++i) {
    const auto found = then.find(update.ids.data<int64_t>()[i]);
    if (found == then.end()) continue;
    CompensateRow(g + i * width, found->second, now.data<T>() + i * width, width, lambda);
  }
}

}  // namespace

graph::Update Compensate(const graph::Update& update, const ReadMarks::Values& read,
                         const Shard& shard, double lambda) {
  graph::Update compensated = update;
  if (read.empty()) return compensated;
  const bool sparse = update.kind == graph::Update::Kind::kSparse;
  const absl::StatusOr<Tensor> now = sparse ? shard.Gather(update.ids) : shard.Read();
  if (!now.ok() || sparse != read.front().first.has_value()) return compensated;
  const Tensor& from = update.values;
  Tensor gradient(from.dtype(), from.shape());
  std::copy_n(static_cast<const char*>(from.raw()), from.bytes(),
              static_cast<char*>(gradient.mutable_raw()));
  const bool f64 = from.dtype() == DType::kF64;
  if (sparse && f64) CompensateRows<double>(update, read, *now, lambda, &gradient);
  if (sparse && !f64) CompensateRows<float>(update, read, *now, lambda, &gradient);
  if (!sparse && f64) CompensateDense<double>(read, *now, lambda, &gradient);
  if (!sparse && !f64) CompensateDense<float>(read, *now, lambda, &gradient);
  compensated.values = std::move(gradient);
  return compensated;
}

}  // namespace coxswain::ps
