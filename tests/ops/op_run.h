// What the checks of op cases are made of: running a case's op, and comparing tensors.
#pragma once

#include <string>
#include <vector>

#include "runtime/graph/builder.h"
#include "tests/ops/op_case.h"
#include "tests/testing/interpreter.h"

namespace coxswain::testing {

using Problems = std::vector<std::string>;

// Element i as a double, whatever the dtype; and the other way, for floating dtypes only.
double ValueAt(const Tensor& t, int64_t i);
void SetValue(Tensor* t, int64_t i, double value);

// The same dtype, shape and bytes.
bool SameBytes(const Tensor& a, const Tensor& b);
// Equal (also: both NaN), or off by at most tolerance * max(1, |wanted|).
bool Close(double found, double wanted, double tolerance);
// Compares shapes and values, not dtypes; names the first element that differs.
void CompareValues(const std::string& what, const Tensor& found, const Tensor& wanted,
                   double tolerance, Problems* problems);

// Each in memory of its own.
std::vector<Tensor> Copies(const std::vector<Tensor>& tensors);

bool HasF32(const OpCase& op_case);
// The case with its f32 inputs in f64.
OpCase Widened(const OpCase& op_case);

// While it lives, what this thread runs is run on the GPU.
class RunOnGpu {
 public:
  explicit RunOnGpu(const Gpu* gpu);
  ~RunOnGpu();
};

// With the shards that the case works on, if any.
InterpretOptions OptionsOf(const OpCase& op_case);

// One argument per input; with unknown dimensions unless `known`.
std::vector<Output> AddArguments(const OpCase& op_case, bool known, graph::GraphBuilder* builder);
// The function of the op alone. Its results are the op's outputs.
absl::StatusOr<graph::Function> BuildForward(const OpCase& op_case,
                                             const graph::OpRegistry& registry, bool known);
absl::StatusOr<std::vector<Tensor>> RunForward(const OpCase& op_case,
                                               const graph::OpRegistry& registry, bool known,
                                               std::vector<Tensor> arguments);
// The op takes these dtypes, by its own inference.
bool Builds(const OpCase& op_case, const graph::OpRegistry& registry);

}  // namespace coxswain::testing
