#include "ps_server/averages.h"

#include <cmath>
#include <cstring>
#include <type_traits>

#include "absl/strings/str_cat.h"

namespace coxswain::ps {
namespace {

float Widened(float weight) { return weight; }
double Widened(double weight) { return weight; }
float Widened(BFloat16 weight) { return weight.ToFloat(); }

template <typename T, typename W>
void MoveRow(const W* w, T share, int64_t width, T* a) {
  for (int64_t e = 0; e < width; ++e) a[e] += share * (Widened(w[e]) - a[e]);
}

template <typename T, typename W>
void CopyRow(const W* w, int64_t width, T* a) {
  for (int64_t e = 0; e < width; ++e) a[e] = Widened(w[e]);
}

// Calls `row` with (weights, averages) of each row, in their types.
template <typename Row>
void ForEachRow(const AveragedRows& rows, const int64_t* ids, int64_t begin, int64_t n, Row row) {
  const auto all = [&](auto* weight, auto* average) {
    for (int64_t i = 0; i < n; ++i) {
      const int64_t at = ids == nullptr ? begin + i : ids[i];
      row(reinterpret_cast<decltype(weight)>(rows.weights.Row(at)),
          reinterpret_cast<decltype(average)>(rows.averages.Row(at)));
    }
  };
  switch (rows.dtype) {
    case DType::kF64:
      return all(static_cast<const double*>(nullptr), static_cast<double*>(nullptr));
    case DType::kBF16:
      return all(static_cast<const BFloat16*>(nullptr), static_cast<float*>(nullptr));
    default:
      return all(static_cast<const float*>(nullptr), static_cast<float*>(nullptr));
  }
}

}  // namespace

absl::Status CheckEmaDecay(const proto::OptimizerSpec& spec) {
  if (std::isfinite(spec.ema_decay()) && spec.ema_decay() >= 0 && spec.ema_decay() < 1) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat("optimizer ", spec.kind(),
                                                 ": ema_decay: wanted a number from 0 to below 1, ",
                                                 "found ", spec.ema_decay()));
}

void BeginAverages(const AveragedRows& rows, const int64_t* ids, int64_t begin, int64_t n) {
  ForEachRow(rows, ids, begin, n, [&](const auto* w, auto* a) { CopyRow(w, rows.width, a); });
}

void MoveAverages(const AveragedRows& rows, double decay, const int64_t* ids, int64_t begin,
                  int64_t n) {
  ForEachRow(rows, ids, begin, n, [&](const auto* w, auto* a) {
    using T = std::remove_pointer_t<decltype(a)>;
    MoveRow(w, static_cast<T>(1 - decay), rows.width, a);
  });
}

void MoveAveragesOnce(const AveragedRows& rows, double decay, const PartPlace& touched,
                      int64_t number, absl::Span<const absl::Span<const int64_t>> lists) {
  const int64_t moved = -number;  // no number of an update
  for (const absl::Span<const int64_t> ids : lists) {
    for (const int64_t id : ids) {
      int64_t last = 0;
      std::memcpy(&last, touched.Row(id), sizeof(last));
      if (last == moved) continue;
      MoveAverages(rows, decay, &id, 0, 1);
      std::memcpy(touched.Row(id), &moved, sizeof(moved));
    }
  }
  for (const absl::Span<const int64_t> ids : lists) {
    for (const int64_t id : ids) std::memcpy(touched.Row(id), &number, sizeof(number));
  }
}

}  // namespace coxswain::ps
