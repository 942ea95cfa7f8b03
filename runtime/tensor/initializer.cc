#include "runtime/tensor/initializer.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "runtime/base/stable_hash.h"

namespace coxswain {
namespace {

// Hashes of the counters (row, 0), (row, 1), ...
class RowStream {
 public:
  RowStream(uint64_t base, int64_t row)
      : state_(SplitMixFinish(base + (static_cast<uint64_t>(row) + 1) * kSplitMixStep)) {}
  uint64_t At(uint64_t counter) const {
    return SplitMixFinish(state_ + (counter + 1) * kSplitMixStep);
  }

 private:
  uint64_t state_;
};

double UnitInterval(uint64_t hash) { return static_cast<double>(hash >> 11) * 0x1p-53; }  // [0, 1)

struct NormalPair {
  double even, odd;
};

// Box & Muller 1958, from the hashes of counters 2k and 2k + 1.
NormalPair DrawNormals(const RowStream& stream, uint64_t pair) {
  const double u = static_cast<double>((stream.At(2 * pair) >> 11) + 1) * 0x1p-53;  // (0, 1]
  const double angle = 2 * M_PI * UnitInterval(stream.At(2 * pair + 1));
  const double radius = std::sqrt(-2 * std::log(u));
  return {radius * std::cos(angle), radius * std::sin(angle)};
}

// Draws of one element have counters of their own, so that no element depends on its neighbours'
// rejections. One draw in 22 is rejected: 16 draws (32 values) fail once in 10^43.
double DrawTruncated(uint64_t base, int64_t row, uint64_t column) {
  const RowStream element(RowStream(base, row).At(column), 0);
  for (uint64_t draw = 0; draw < 16; ++draw) {
    const NormalPair pair = DrawNormals(element, draw);
    if (std::abs(pair.even) <= 2) return pair.even;
    if (std::abs(pair.odd) <= 2) return pair.odd;
  }
  return 0;
}

double GlorotLimit(const Shape& shape) {
  const int rank = shape.rank();
  double fan_in = 1, fan_out = 1;
  if (rank == 1) {
    fan_in = fan_out = static_cast<double>(shape.dim(0));
  } else if (rank >= 2) {
    double receptive = 1;
    for (int i = 0; i < rank - 2; ++i) receptive *= static_cast<double>(shape.dim(i));
    fan_in = receptive * static_cast<double>(shape.dim(rank - 2));
    fan_out = receptive * static_cast<double>(shape.dim(rank - 1));
  }
  return std::sqrt(6 / std::max(1.0, fan_in + fan_out));
}

absl::Status Invalid(absl::string_view variable, absl::string_view message) {
  return absl::InvalidArgumentError(
      absl::StrCat("variable '", variable, "': initializer ", message));
}

}  // namespace

absl::StatusOr<Initializer> Initializer::Create(const proto::InitializerSpec& spec,
                                                absl::string_view variable, const Shape& shape,
                                                DType dtype) {
  Initializer init;
  init.base_ = SplitMixFinish(SplitMixFinish(spec.seed() + kSplitMixStep) ^ Fnv1a(variable));
  if (spec.zero_rows_from() < 0) {
    return Invalid(variable,
                   absl::StrCat("wants zero_rows_from >= 0, got ", spec.zero_rows_from()));
  }
  const bool hash_table = shape.rank() > 0 && shape.dim(0) == kUnknownDim;
  if (spec.zero_rows_from() > 0 && !hash_table) init.zero_from_ = spec.zero_rows_from();
  const std::string& kind = spec.kind();
  if (kind.empty() || kind == "zeros") {
    init.a_ = 0;
  } else if (kind == "ones") {
    init.a_ = 1;
  } else if (kind == "constant") {
    init.a_ = spec.value();
  } else if (kind == "uniform") {
    const bool keras = spec.low() == 0 && spec.high() == 0;
    const double low = keras ? -0.05 : spec.low(), high = keras ? 0.05 : spec.high();
    if (!std::isfinite(high - low) || low > high) {
      return Invalid(variable, absl::StrCat("uniform wants finite low <= high, got low ", low,
                                            " and high ", high));
    }
    init.kind_ = Kind::kUniform;
    init.a_ = low;
    init.b_ = high - low;
  } else if (kind == "normal" || kind == "truncated_normal") {
    const double stddev = spec.stddev() == 0 ? 0.05 : spec.stddev();
    if (!std::isfinite(spec.mean()) || !std::isfinite(stddev) || stddev < 0) {
      return Invalid(variable, absl::StrCat(kind, " wants a finite mean and stddev >= 0, got mean ",
                                            spec.mean(), " and stddev ", stddev));
    }
    init.kind_ = kind == "normal" ? Kind::kNormal : Kind::kTruncatedNormal;
    init.a_ = spec.mean();
    init.b_ = stddev;
  } else if (kind == "glorot_uniform") {
    if (!shape.IsFullyKnown()) {
      return Invalid(variable, absl::StrCat("glorot_uniform wants a known number of rows, got ",
                                            shape.ToString(), ": use uniform or normal"));
    }
    const double limit = GlorotLimit(shape);
    init.kind_ = Kind::kUniform;
    init.a_ = -limit;
    init.b_ = 2 * limit;
  } else {
    return Invalid(variable, absl::StrCat("'", kind,
                                          "' is unknown: known are zeros, ones, constant, uniform, "
                                          "normal, truncated_normal and glorot_uniform"));
  }
  if (!IsFloating(dtype)) {
    if (init.kind_ != Kind::kConstant) {
      return Invalid(variable,
                     absl::StrCat(kind, " gives fractions, but the dtype is ", DTypeName(dtype),
                                  ": use zeros, ones or a whole constant"));
    }
    if (!(std::abs(init.a_) <= 0x1p53) || init.a_ != std::trunc(init.a_)) {
      return Invalid(variable, absl::StrCat("constant ", init.a_, " is not a whole number within ",
                                            "2^53, but the dtype is ", DTypeName(dtype)));
    }
  }
  return init;
}

template <typename T>
void Initializer::FillRow(int64_t row, absl::Span<T> out) const {
  constexpr int64_t kNone = std::numeric_limits<int64_t>::max();  // an id may be that, too
  if (zero_from_ != kNone && row >= zero_from_) {
    std::fill(out.begin(), out.end(), T{});
    return;
  }
  const RowStream stream(base_, row);
  switch (kind_) {
    case Kind::kConstant:
      std::fill(out.begin(), out.end(), static_cast<T>(a_));
      return;
    case Kind::kUniform:
      for (size_t c = 0; c < out.size(); ++c) {
        out[c] = static_cast<T>(a_ + b_ * UnitInterval(stream.At(c)));
      }
      return;
    case Kind::kNormal:
      for (size_t c = 0; c < out.size(); c += 2) {
        const NormalPair pair = DrawNormals(stream, c / 2);
        out[c] = static_cast<T>(a_ + b_ * pair.even);
        if (c + 1 < out.size()) out[c + 1] = static_cast<T>(a_ + b_ * pair.odd);
      }
      return;
    case Kind::kTruncatedNormal:
      for (size_t c = 0; c < out.size(); ++c) {
        out[c] = static_cast<T>(a_ + b_ * DrawTruncated(base_, row, c));
      }
      return;
  }
}

template void Initializer::FillRow<float>(int64_t, absl::Span<float>) const;
template void Initializer::FillRow<double>(int64_t, absl::Span<double>) const;
template void Initializer::FillRow<int64_t>(int64_t, absl::Span<int64_t>) const;

}  // namespace coxswain
