#include "tests/ops/op_run.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "coordinator/api/variable_info.h"
#include "runtime/base/status.h"
#include "runtime/graph/builder.h"
#include "tests/testing/interpreter.h"

namespace coxswain::testing {

double ValueAt(const Tensor& t, int64_t i) {
  switch (t.dtype()) {
    case DType::kF32:
      return t.data<float>()[i];
    case DType::kF64:
      return t.data<double>()[i];
    case DType::kI32:
      return t.data<int32_t>()[i];
    case DType::kI64:
      return static_cast<double>(t.data<int64_t>()[i]);
    case DType::kBool:
      return t.data<bool>()[i] ? 1.0 : 0.0;
    case DType::kBF16:
      return t.data<BFloat16>()[i].ToFloat();
    case DType::kInvalid:
      return 0.0;
  }
  return 0.0;
}

void SetValue(Tensor* t, int64_t i, double value) {
  if (t->dtype() == DType::kF64) t->mutable_data<double>()[i] = value;
  if (t->dtype() == DType::kF32) t->mutable_data<float>()[i] = static_cast<float>(value);
  if (t->dtype() == DType::kBF16) {
    t->mutable_data<BFloat16>()[i] = BFloat16::FromFloat(static_cast<float>(value));
  }
}

bool SameBytes(const Tensor& a, const Tensor& b) {
  return a.dtype() == b.dtype() && a.shape() == b.shape() &&
         (a.bytes() == 0 || std::memcmp(a.raw(), b.raw(), a.bytes()) == 0);
}

bool Close(double found, double wanted, double tolerance) {
  if (std::isnan(wanted)) return std::isnan(found);
  if (found == wanted) return true;
  return std::fabs(found - wanted) <= tolerance * std::max(1.0, std::fabs(wanted));
}

// Compares values, whatever the dtypes; names the first element that differs.
void CompareValues(const std::string& what, const Tensor& found, const Tensor& wanted,
                   double tolerance, Problems* problems) {
  if (found.shape() != wanted.shape()) {
    problems->push_back(absl::StrCat(what, ": wanted shape ", wanted.shape().ToString(), ", found ",
                                     found.shape().ToString()));
    return;
  }
  for (int64_t i = 0; i < wanted.num_elements(); ++i) {
    if (Close(ValueAt(found, i), ValueAt(wanted, i), tolerance)) continue;
    problems->push_back(absl::StrCat(what, ": element ", i, ": wanted ", ValueAt(wanted, i),
                                     ", found ", ValueAt(found, i)));
    return;
  }
}

Tensor Widen(const Tensor& t) {
  if (t.dtype() != DType::kF32) return DeepCopy(t);
  Tensor wide(DType::kF64, t.shape());
  for (int64_t i = 0; i < t.num_elements(); ++i) wide.mutable_data<double>()[i] = ValueAt(t, i);
  return wide;
}

bool HasF32(const OpCase& op_case) {
  return std::any_of(op_case.inputs.begin(), op_case.inputs.end(),
                     [](const Tensor& t) { return t.dtype() == DType::kF32; });
}

OpCase Widened(const OpCase& op_case) {
  OpCase wide = op_case;
  for (Tensor& input : wide.inputs) input = Widen(input);
  return wide;
}

namespace {

Shape AllUnknown(const Shape& shape) {
  Shape unknown = shape;
  for (int i = 0; i < unknown.rank(); ++i) unknown.set_dim(i, kUnknownDim);
  return unknown;
}

// Whether the op is run only for its effect.
bool HasNoOutputs(const OpCase& op_case, const graph::OpRegistry& registry) {
  const graph::OpSchema* schema = registry.Find(op_case.op);
  if (schema == nullptr || !schema->on_parameter_server ||
      static_cast<int>(op_case.inputs.size()) < schema->min_inputs) {
    return false;
  }
  graph::Node probe;
  probe.op = op_case.op;
  probe.attrs = op_case.attrs;
  std::vector<TensorType> types;
  for (const Tensor& t : op_case.inputs) types.push_back({t.dtype(), t.shape()});
  graph::InferenceContext context(probe, std::move(types));
  return schema->infer(&context).ok() && context.outputs().empty();
}

}  // namespace

namespace {
thread_local const Gpu* t_gpu = nullptr;
}  // namespace

RunOnGpu::RunOnGpu(const Gpu* gpu) { t_gpu = gpu; }
RunOnGpu::~RunOnGpu() { t_gpu = nullptr; }

InterpretOptions OptionsOf(const OpCase& op_case) {
  InterpretOptions options;
  options.gpu = t_gpu;
  if (op_case.variables) options.variables = op_case.variables();
  return options;
}

std::vector<Output> AddArguments(const OpCase& op_case, bool known, graph::GraphBuilder* builder) {
  std::vector<Output> arguments;
  for (size_t i = 0; i < op_case.inputs.size(); ++i) {
    const Tensor& input = op_case.inputs[i];
    arguments.push_back(builder->Argument(absl::StrCat("x", i), input.dtype(),
                                          known ? input.shape() : AllUnknown(input.shape())));
  }
  return arguments;
}

// The op alone, as node 'it', with all its outputs as results.
absl::StatusOr<graph::Function> BuildForward(const OpCase& op_case,
                                             const graph::OpRegistry& registry, bool known) {
  graph::GraphBuilder builder("forward", &registry);
  const std::vector<Output> arguments = AddArguments(op_case, known, &builder);
  if (HasNoOutputs(op_case, registry)) {
    builder.Target(op_case.op, arguments, op_case.attrs);
    return builder.Finish();
  }
  const Output first = builder.Op(op_case.op, arguments, op_case.attrs, "it");
  const int count =
      first.valid() ? static_cast<int>(builder.graph().node(first.node).outputs.size()) : 0;
  for (int i = 0; i < count; ++i) builder.Result(absl::StrCat("y", i), {first.node, i});
  return builder.Finish();
}

absl::StatusOr<std::vector<Tensor>> RunForward(const OpCase& op_case,
                                               const graph::OpRegistry& registry, bool known,
                                               std::vector<Tensor> arguments) {
  ASSIGN_OR_RETURN(const graph::Function function, BuildForward(op_case, registry, known));
  return Interpret(function, std::move(arguments), OptionsOf(op_case));
}

std::vector<Tensor> Copies(const std::vector<Tensor>& tensors) {
  std::vector<Tensor> copies;
  for (const Tensor& t : tensors) copies.push_back(DeepCopy(t));
  return copies;
}

bool Builds(const OpCase& op_case, const graph::OpRegistry& registry) {
  return BuildForward(op_case, registry, true).ok();
}

absl::StatusOr<std::vector<Tensor>> RunOp(const OpCase& op_case,
                                          const graph::OpRegistry& registry) {
  return RunForward(op_case, registry, true, Copies(op_case.inputs));
}

std::string ErrorOf(const OpCase& op_case, const graph::OpRegistry& registry) {
  const auto outputs = RunOp(op_case, registry);
  return outputs.ok() ? "" : std::string(outputs.status().message());
}

}  // namespace coxswain::testing
