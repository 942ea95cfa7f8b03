#include "tests/bench/step/batches.h"

#include <algorithm>
#include <cmath>
#include <set>

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

StepBatches MakeBatches(const StepShape& shape) {
  BatchMaker maker;
  StepBatches batches;
  if (!shape.bottom.empty()) batches.numbers = maker.Numbers(shape.batch * shape.dense_inputs);
  for (const TableShape& table : shape.tables) {
    batches.ids.push_back(maker.ZipfIds(table.rows, shape.batch * table.slots));
  }
  if (!shape.top.empty()) batches.labels = maker.Labels(shape.batch);
  return batches;
}

std::vector<double> UniqueRows(const StepShape& shape, const StepBatches& batches) {
  std::vector<double> unique;
  for (const Tensor& ids : batches.ids) {
    const int64_t n = ids.dim(1);
    size_t sum = 0;
    for (int64_t b = 0; b < kBatches; ++b) {
      const int64_t* begin = ids.data<int64_t>() + b * n;
      sum += std::set<int64_t>(begin, begin + n).size();
    }
    unique.push_back(static_cast<double>(sum) / kBatches);
  }
  return unique;
}

}  // namespace coxswain
