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
  std::string optimizer = "adagrad";
  double learning_rate = 0.05;
};

const std::vector<StepShape>& StepShapes();
// Errors: InvalidArgument with the names there are.
absl::StatusOr<StepShape> FindStepShape(const std::string& name);

}  // namespace coxswain
