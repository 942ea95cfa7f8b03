// The reference shapes of a training step, as data. Each stands for a kind of job: what it reads
// from tables, what it computes, and how it updates.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace coxswain {

struct TableShape {
  std::string name;
  int64_t rows = 0;
  int64_t dim = 0;
  int64_t slots = 1;  // ids of each example
  bool hash = false;  // a hash table, for ids below `rows`
};

struct StepShape {
  std::string name;
  std::string summary = {};
  int64_t batch = 0;  // examples; 0: the step is empty
  std::vector<TableShape> tables = {};
  int64_t dense_inputs = 0;  // numbers of each example
  // Widths of the layers over these numbers, all with ReLU but the last.
  std::vector<int64_t> bottom = {};
  // How vectors of tables and bottom meet: side by side, or the bottom beside all pairs' products.
  bool dot_products = false;
  // Widths of the layers over that, all with ReLU but the last, which has one output: the logit of
  // a cross entropy. Empty: the loss is the sum of the squares of what was read.
  std::vector<int64_t> top = {};
  // Of the tables; the layers have the same, or Adam in place of lazy Adam.
  std::string optimizer = "adagrad";
  double learning_rate = 0.05;
};

// A product of matrices, [m, k] x [k, n], `count` times.
struct ProductShape {
  int64_t m = 0, n = 0, k = 0;
  int64_t count = 1;

  double flops() const {
    return 2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k) *
           static_cast<double>(count);
  }
};

// Width of what the layers on top begin with.
int64_t TopInputs(const StepShape& shape);
// All products of a step with their gradients: the layers', and those of pairs of vectors (as many
// products of two vectors).
std::vector<ProductShape> Products(const StepShape& shape);
// How many numbers the layers have.
int64_t DenseValues(const StepShape& shape);

const std::vector<StepShape>& StepShapes();
// Errors: InvalidArgument with the names there are.
absl::StatusOr<StepShape> FindStepShape(const std::string& name);

}  // namespace coxswain
