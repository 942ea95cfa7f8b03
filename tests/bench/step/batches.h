// The examples that the steps train on, made before anything is timed.
#pragma once

#include <cstdint>
#include <random>
#include <vector>

#include "coxswain/tensor.h"
#include "tests/bench/step/shape.h"

namespace coxswain {

constexpr int64_t kBatches = 64;  // distinct ones

// Draws for one shape; the same numbers in every run.
class BatchMaker {
 public:
  // i64 [kBatches, n]: ids below `rows`, Zipf(1.05) by rank, the ranks spread over the rows by a
  // fixed multiplication.
  Tensor ZipfIds(int64_t rows, int64_t n);
  // f32 [kBatches, n]: 0 or 1.
  Tensor Labels(int64_t n);
  // f32 [kBatches, n], standard normal.
  Tensor Numbers(int64_t n);

 private:
  std::mt19937_64 random_{7};
};

// All that a shape's steps read; an empty tensor where it reads nothing of the kind.
struct StepBatches {
  Tensor numbers;
  std::vector<Tensor> ids;  // by table
  Tensor labels;
};
StepBatches MakeBatches(const StepShape& shape);

// Distinct ids in a batch, by table: the mean over all batches.
std::vector<double> UniqueRows(const StepShape& shape, const StepBatches& batches);

}  // namespace coxswain
