// The checks that every case gets: CheckForward and CheckGradient.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <random>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "runtime/base/status.h"
#include "runtime/graph/builder.h"
#include "tests/ops/op_run.h"
#include "tests/testing/interpreter.h"

namespace coxswain::testing {
namespace {

void CompareExpected(const OpCase& op_case, const std::vector<Tensor>& outputs,
                     Problems* problems) {
  if (op_case.expected.size() != outputs.size()) {
    problems->push_back(
        absl::StrCat("wanted ", op_case.expected.size(), " outputs, found ", outputs.size()));
    return;
  }
  for (size_t i = 0; i < outputs.size(); ++i) {
    const Tensor& wanted = op_case.expected[i];
    if (!wanted.has_value()) continue;
    const std::string what = absl::StrCat("output ", i);
    if (wanted.dtype() != outputs[i].dtype()) {
      problems->push_back(absl::StrCat(what, ": wanted ", DTypeName(wanted.dtype()), ", found ",
                                       DTypeName(outputs[i].dtype())));
      continue;
    }
    const double tolerance = wanted.dtype() == DType::kF64 ? 1e-9
                             : IsFloating(wanted.dtype())  ? op_case.tolerance
                                                           : 0.0;
    CompareValues(what, outputs[i], wanted, tolerance, problems);
  }
}

// The function of the gradient check: results are the loss (f64) and the gradients.
struct GradientFunction {
  graph::Function function;
  std::vector<int> inputs;  // that got a gradient; one result each, after the loss
};

Tensor Projection(const Shape& shape, uint64_t seed) {
  Tensor weights(DType::kF64, shape);
  std::mt19937_64 random(seed);
  for (int64_t i = 0; i < weights.num_elements(); ++i) {
    weights.mutable_data<double>()[i] = static_cast<double>(random() >> 11) * 0x1p-52 - 1.0;
  }
  return weights;
}

// loss = sum over the outputs of sum(output * weights), the weights random and fixed.
Output AddLoss(const OpCase& op_case, const std::vector<Tensor>& sample, Output first,
               graph::GraphBuilder* builder) {
  std::vector<Output> parts;
  for (size_t i = 0; i < sample.size(); ++i) {
    const int index = static_cast<int>(i);
    const auto& through = op_case.through;
    const bool wanted =
        through.empty() || std::find(through.begin(), through.end(), index) != through.end();
    if (!wanted || !IsFloating(sample[i].dtype())) continue;
    const Output wide = builder->Op("Cast", {{first.node, index}}, {{"dtype", DType::kF64}});
    const Output weights = builder->Constant(Projection(sample[i].shape(), 17 + i));
    parts.push_back(builder->Op("ReduceSum", {builder->Op("Mul", {wide, weights})}));
  }
  return builder->Op("AddN", parts);
}

absl::StatusOr<GradientFunction> BuildGradient(const OpCase& op_case,
                                               const graph::OpRegistry& registry, bool known,
                                               const std::vector<Tensor>& sample,
                                               const std::vector<int>& inputs) {
  graph::GraphBuilder builder("gradient", &registry);
  const std::vector<Output> arguments = AddArguments(op_case, known, &builder);
  const Output first = builder.Op(op_case.op, arguments, op_case.attrs);
  RETURN_IF_ERROR(builder.status());
  const Output loss = AddLoss(op_case, sample, first, &builder);
  std::vector<Output> xs;
  for (int i : inputs) xs.push_back(arguments[i]);
  const std::vector<Output> gradients = builder.Gradients({loss}, xs);
  builder.Result("loss", loss);
  GradientFunction made{graph::Function("", &registry), {}};
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!gradients[i].valid()) continue;
    made.inputs.push_back(inputs[i]);
    builder.Result(absl::StrCat("d", inputs[i]), gradients[i]);
  }
  ASSIGN_OR_RETURN(made.function, builder.Finish());
  return made;
}

// The step of the differences and what they may be off by, by the least exact dtype involved.
struct Precision {
  double step = 1e-5;
  double tolerance = 1e-6;
};

Precision PrecisionFor(const OpCase& op_case, const std::vector<Tensor>& outputs) {
  Precision precision;
  for (const auto* tensors : {&op_case.inputs, &outputs}) {
    for (const Tensor& t : *tensors) {
      if (t.dtype() == DType::kF32 && precision.step < 1e-2) precision = {1e-2, 5e-3};
      if (t.dtype() == DType::kBF16) precision = {0.25, 5e-2};
    }
  }
  return precision;
}

class GradientCheck {
 public:
  GradientCheck(const OpCase& op_case, const graph::OpRegistry& registry, bool known,
                Problems* problems)
      : case_(op_case), registry_(registry), known_(known), problems_(problems) {}

  // The analytic gradients of case_.differentiate, compared with central differences.
  std::vector<Tensor> Run() {
    auto sample = RunForward(case_, registry_, true, Copies(case_.inputs));
    if (!sample.ok()) return Problem(sample.status());
    auto built = BuildGradient(case_, registry_, known_, *sample, case_.differentiate);
    if (!built.ok()) return Problem(built.status());
    if (built->inputs != case_.differentiate) {
      problems_->push_back("an input to be differentiated gets no gradient");
      return {};
    }
    auto analytic = Interpret(built->function, Copies(case_.inputs), OptionsOf(case_));
    if (!analytic.ok()) return Problem(analytic.status());
    const Precision precision = PrecisionFor(case_, *sample);
    for (size_t k = 0; k < built->inputs.size(); ++k) {
      CompareInput(built->function, built->inputs[k], (*analytic)[k + 1], precision);
    }
    analytic->erase(analytic->begin());
    return *std::move(analytic);
  }

 private:
  std::vector<Tensor> Problem(const absl::Status& status) {
    problems_->push_back(std::string(status.message()));
    return {};
  }

  double LossWith(const graph::Function& function, int input, int64_t element, double value) {
    std::vector<Tensor> arguments = Copies(case_.inputs);
    SetValue(&arguments[input], element, value);
    const auto results = Interpret(function, std::move(arguments), OptionsOf(case_));
    return results.ok() ? (*results)[0].data<double>()[0] : std::nan("");
  }

  void CompareInput(const graph::Function& function, int input, const Tensor& gradient,
                    const Precision& precision) {
    const Tensor& x = case_.inputs[input];
    const std::string what = absl::StrCat("gradient of input ", input);
    if (gradient.dtype() != x.dtype() || gradient.shape() != x.shape()) {
      problems_->push_back(absl::StrCat(what, ": wanted ", DTypeName(x.dtype()),
                                        x.shape().ToString(), ", found ",
                                        DTypeName(gradient.dtype()), gradient.shape().ToString()));
      return;
    }
    constexpr int64_t kElements = 48;  // that are looked at, spread over a large input
    const int64_t stride = std::max<int64_t>(1, x.num_elements() / kElements);
    for (int64_t i = 0; i < x.num_elements(); i += stride) {
      const double at = ValueAt(x, i);
      const double up = LossWith(function, input, i, at + precision.step);
      const double down = LossWith(function, input, i, at - precision.step);
      const double wanted = (up - down) / (2.0 * precision.step);
      if (Close(ValueAt(gradient, i), wanted, precision.tolerance)) continue;
      problems_->push_back(absl::StrCat(what, ": element ", i, ": differences say ", wanted,
                                        ", the gradient says ", ValueAt(gradient, i)));
      return;
    }
  }

  const OpCase& case_;
  const graph::OpRegistry& registry_;
  const bool known_;
  Problems* problems_;
};

void CheckWideForward(const OpCase& op_case, const graph::OpRegistry& registry,
                      const std::vector<Tensor>& outputs, Problems* problems) {
  const OpCase wide = Widened(op_case);
  if (!HasF32(op_case) || !Builds(wide, registry)) return;
  const auto wide_outputs = RunForward(wide, registry, true, Copies(wide.inputs));
  if (!wide_outputs.ok()) {
    problems->push_back(absl::StrCat("in f64: ", wide_outputs.status().message()));
    return;
  }
  for (size_t i = 0; i < outputs.size(); ++i) {
    CompareValues(absl::StrCat("output ", i, ", f32 against f64"), outputs[i], (*wide_outputs)[i],
                  IsFloating(outputs[i].dtype()) ? op_case.tolerance : 0.0, problems);
  }
}

}  // namespace

std::vector<std::string> CheckForward(const OpCase& op_case, const graph::OpRegistry& registry) {
  Problems problems;
  // Once with inputs that someone else holds too, which must not change; once with owned ones,
  // which kernels may overwrite; once with nothing known of the dimensions. All give the same
  // bytes.
  std::vector<Tensor> held = Copies(op_case.inputs);
  const auto outputs = RunForward(op_case, registry, true, held);
  if (!outputs.ok()) return {std::string(outputs.status().message())};
  for (size_t i = 0; i < held.size(); ++i) {
    if (!SameBytes(held[i], op_case.inputs[i])) {
      problems.push_back(absl::StrCat("input ", i, " was changed although it was shared"));
    }
  }
  for (const bool known : {true, false}) {
    const char* how = known ? "in place" : "with unknown dimensions";
    const auto again = RunForward(op_case, registry, known, Copies(op_case.inputs));
    if (!again.ok()) {
      problems.push_back(absl::StrCat(how, ": ", again.status().message()));
      continue;
    }
    for (size_t i = 0; i < outputs->size(); ++i) {
      if (SameBytes((*outputs)[i], (*again)[i])) continue;
      problems.push_back(absl::StrCat("output ", i, " is different ", how, ": ",
                                      (*outputs)[i].ToString(), " and ", (*again)[i].ToString()));
    }
  }
  if (!op_case.expected.empty()) CompareExpected(op_case, *outputs, &problems);
  CheckWideForward(op_case, registry, *outputs, &problems);
  if (op_case.verify) op_case.verify(*outputs);
  return problems;
}

std::vector<std::string> CheckGradient(const OpCase& op_case, const graph::OpRegistry& registry) {
  Problems problems;
  const OpCase wide = Widened(op_case);
  const bool takes_f64 = Builds(wide, registry);
  const OpCase& exact = takes_f64 ? wide : op_case;
  const std::vector<Tensor> wanted = GradientCheck(exact, registry, true, &problems).Run();
  GradientCheck(exact, registry, false, &problems).Run();
  if (!problems.empty() || !takes_f64 || !HasF32(op_case)) return problems;
  // The f32 kernels' gradients, against the f64 ones.
  auto sample = RunForward(op_case, registry, true, Copies(op_case.inputs));
  if (!sample.ok()) return {std::string(sample.status().message())};
  auto built = BuildGradient(op_case, registry, true, *sample, op_case.differentiate);
  if (!built.ok()) return {std::string(built.status().message())};
  auto found = Interpret(built->function, Copies(op_case.inputs), OptionsOf(op_case));
  if (!found.ok()) return {std::string(found.status().message())};
  for (size_t k = 0; k < wanted.size(); ++k) {
    CompareValues(absl::StrCat("gradient of input ", built->inputs[k], ", f32 against f64"),
                  (*found)[k + 1], wanted[k], op_case.tolerance, &problems);
  }
  return problems;
}

std::vector<int> InputsWithGradient(const OpCase& op_case, const graph::OpRegistry& registry) {
  std::vector<int> floating;
  for (size_t i = 0; i < op_case.inputs.size(); ++i) {
    if (IsFloating(op_case.inputs[i].dtype())) floating.push_back(static_cast<int>(i));
  }
  const auto sample = RunForward(op_case, registry, true, Copies(op_case.inputs));
  if (floating.empty() || !sample.ok()) return {};
  if (std::none_of(sample->begin(), sample->end(),
                   [](const Tensor& t) { return IsFloating(t.dtype()); })) {
    return {};
  }
  const auto built = BuildGradient(op_case, registry, true, *sample, floating);
  return built.ok() ? built->inputs : std::vector<int>{};
}

void CheckAllCases(CaseCheck check, bool (*wanted)(const OpCase& op_case)) {
  for (const OpCase& op_case : AllOpCases()) {
    if (wanted != nullptr && !wanted(op_case)) continue;
    INFO(op_case.op << ": " << op_case.label);
    CHECK(absl::StrJoin(check(op_case, AllOps()), "\n") == "");
  }
}

}  // namespace coxswain::testing
