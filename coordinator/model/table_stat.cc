#include "coordinator/model/table_stat.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "runtime/base/status.h"

namespace coxswain::model {
namespace {

// A bin is the exponent and the upper 10 bits of the mantissa: numbers of one bin differ by less
// than one in a thousand, and bins are in the order of the numbers.
constexpr int kDropped = 13;
constexpr size_t kBins = size_t{1} << (31 - kDropped);

size_t BinOf(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  return (bits & 0x7fffffffu) >> kDropped;
}

float LowerEnd(size_t bin) {
  const uint32_t bits = static_cast<uint32_t>(bin) << kDropped;
  float value;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}

}  // namespace

NormCounts::NormCounts() : counts_(kBins, 0) {}

void NormCounts::Add(float norm) {
  min_ = count_ == 0 ? norm : std::min(min_, norm);
  max_ = count_ == 0 ? norm : std::max(max_, norm);
  ++count_;
  ++counts_[BinOf(norm)];
}

float NormCounts::Quantile(double share) const {
  if (count_ == 0) return 0;
  const auto wanted =
      std::max<int64_t>(1, static_cast<int64_t>(std::ceil(share * static_cast<double>(count_))));
  int64_t seen = 0;
  for (size_t bin = 0; bin < kBins; ++bin) {
    seen += counts_[bin];
    if (seen >= wanted) return std::clamp(LowerEnd(bin), min_, max_);
  }
  return max_;
}

std::vector<int64_t> NormCounts::Histogram(int bins) const {
  std::vector<int64_t> histogram(static_cast<size_t>(bins), 0);
  if (count_ == 0) return histogram;
  const double width = (static_cast<double>(max_) - min_) / bins;
  for (size_t bin = 0; bin < kBins; ++bin) {
    if (counts_[bin] == 0) continue;
    const double value = std::clamp(LowerEnd(bin), min_, max_);
    const double at = width > 0 ? (value - min_) / width : 0;
    histogram[std::min(static_cast<size_t>(at), static_cast<size_t>(bins - 1))] += counts_[bin];
  }
  return histogram;
}

absl::StatusOr<TableStat> ComputeTableStat(const SavedRows& rows) {
  TableStat stat;
  stat.knows_touched = rows.has_touched();
  const int64_t block = std::min(rows.block_rows(), std::max<int64_t>(1, rows.rows()));
  const int64_t width = rows.row_elements();
  std::vector<double> values(static_cast<size_t>(block * width));
  std::vector<int64_t> touched(static_cast<size_t>(block));
  std::vector<char> live(static_cast<size_t>(block));
  for (int64_t begin = 0; begin < rows.rows(); begin += block) {
    const int64_t n = std::min(block, rows.rows() - begin);
    RETURN_IF_ERROR(rows.ReadDoubles(begin, n, values.data()));
    RETURN_IF_ERROR(rows.ReadLive(begin, n, live.data()));
    if (stat.knows_touched) RETURN_IF_ERROR(rows.ReadTouched(begin, n, touched.data()));
    for (int64_t r = 0; r < n; ++r) {
      if (!live[static_cast<size_t>(r)]) continue;
      ++stat.rows;
      if (stat.knows_touched && touched[static_cast<size_t>(r)] <= 0) ++stat.never_touched;
      double sum = 0;
      bool finite = true;
      for (const double *v = values.data() + r * width, *end = v + width; v != end; ++v) {
        stat.nan_values += std::isnan(*v);
        stat.inf_values += std::isinf(*v);
        finite = finite && std::isfinite(*v);
        sum += *v * *v;
      }
      if (!finite) continue;
      stat.zero_rows += sum == 0;
      constexpr double kLargest = std::numeric_limits<float>::max();
      stat.norms.Add(static_cast<float>(std::min(std::sqrt(sum), kLargest)));
    }
  }
  stat.bytes = static_cast<uint64_t>(stat.rows) * rows.row_bytes();
  return stat;
}

}  // namespace coxswain::model
