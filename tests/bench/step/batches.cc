#include "tests/bench/step/batches.h"

#include <algorithm>
#include <cmath>

namespace coxswain {
namespace {

constexpr double kZipf = 1.05;
constexpr uint64_t kSpread = 2654435761;

}  // namespace

// By the inverse of the continuous distribution x^-1.05 on [1, rows].
Tensor BatchMaker::ZipfIds(int64_t rows, int64_t n) {
  Tensor ids(DType::kI64, Shape{kBatches, n});
  int64_t* out = ids.mutable_data<int64_t>();
  const double a = 1.0 - kZipf, span = std::pow(static_cast<double>(rows), a) - 1.0;
  std::uniform_real_distribution<double> uniform;
  for (int64_t i = 0; i < ids.num_elements(); ++i) {
    const int64_t rank = static_cast<int64_t>(std::pow(uniform(random_) * span + 1.0, 1.0 / a)) - 1;
    const uint64_t place = static_cast<uint64_t>(std::clamp<int64_t>(rank, 0, rows - 1));
    out[i] = static_cast<int64_t>(place * kSpread % static_cast<uint64_t>(rows));
  }
  return ids;
}

Tensor BatchMaker::Labels(int64_t n) {
  Tensor labels(DType::kF32, Shape{kBatches, n});
  float* out = labels.mutable_data<float>();
  for (int64_t i = 0; i < labels.num_elements(); ++i) out[i] = static_cast<float>(random_() >> 63);
  return labels;
}

Tensor BatchMaker::Numbers(int64_t n) {
  Tensor numbers(DType::kF32, Shape{kBatches, n});
  float* out = numbers.mutable_data<float>();
  std::normal_distribution<float> normal;
  for (int64_t i = 0; i < numbers.num_elements(); ++i) out[i] = normal(random_);
  return numbers;
}

}  // namespace coxswain
