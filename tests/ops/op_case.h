// One use of one op, with everything the common checks need. The cases of the ops of kernels/OPS.cc
// stand in OPS_cases.cc, here, under OP_CASES(OPS); no list names that file. registry_test.cc runs
// the checks on all cases, and fails for an op without a case and for a gradient that no case
// checks.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "coxswain/tensor.h"
#include "runtime/graph/graph.h"
#include "runtime/graph/op.h"
#include "runtime/graph/variable_access.h"

namespace coxswain::testing {

struct OpCase {
  std::string op = {};
  std::string label = {};  // what is special about this case: "broadcasts a row"
  std::vector<Tensor> inputs = {};
  Attrs attrs = {};
  // The inputs whose gradients are checked against central differences.
  std::vector<int> differentiate = {};
  // Compared with the outputs when not empty; an entry without a value is not compared.
  std::vector<Tensor> expected = {};
  // Of the f32 (or bf16) outputs and gradients, relative to max(1, |wanted|); f64 is compared at
  // 1e-9 (outputs) and 1e-6 (gradients).
  double tolerance = 1e-5;
  // The outputs the checked loss is made of; empty: all floating ones.
  std::vector<int> through = {};
  // Further claims about the outputs, said with Catch2's macros.
  std::function<void(const std::vector<Tensor>&)> verify = nullptr;
  // What on_parameter_server ops work on.
  std::function<graph::VariableAccess*()> variables = nullptr;
  // What OP_CASES says. AllOpCases sets it.
  std::string file = {};
};

// What the checks below found wrong: empty when nothing is. Each check is also made with arguments
// whose dimensions are all unknown at inference.
//
// Runs the op and compares its outputs with `expected`. Inputs in f32 are run in f64 as well, if
// the op takes f64, and the results compared.
std::vector<std::string> CheckForward(const OpCase& op_case, const graph::OpRegistry& registry);

// Compares the gradients with central differences of a random projection of the outputs. The
// differences are taken in f64 if the op takes f64, and the f32 gradients compared with the f64
// ones; else in f32, with a step and tolerance to suit.
std::vector<std::string> CheckGradient(const OpCase& op_case, const graph::OpRegistry& registry);

// One of the two above on every case that `wanted` takes (null: all), as checks of the Catch2 test
// that is running.
using CaseCheck = std::vector<std::string> (*)(const OpCase& op_case,
                                               const graph::OpRegistry& registry);
void CheckAllCases(CaseCheck check, bool (*wanted)(const OpCase& op_case) = nullptr);
inline bool HasGradient(const OpCase& op_case) { return !op_case.differentiate.empty(); }

// The inputs that a gradient flows to. Registry_test.cc wants each of them in some case's
// `differentiate`.
std::vector<int> InputsWithGradient(const OpCase& op_case, const graph::OpRegistry& registry);

// Runs the op alone on the inputs. Errors: of building and of running.
absl::StatusOr<std::vector<Tensor>> RunOp(const OpCase& op_case, const graph::OpRegistry& registry);

// The message of the error that building or running the op gives; empty when there is none.
std::string ErrorOf(const OpCase& op_case, const graph::OpRegistry& registry);

// The registry with all ops.
const graph::OpRegistry& AllOps();

// Inputs, by dtype. Values in row-major order.
Tensor F32(Shape shape, std::vector<float> values);
Tensor F64(Shape shape, std::vector<double> values);
Tensor I32(Shape shape, std::vector<int32_t> values);
Tensor I64(Shape shape, std::vector<int64_t> values);
Tensor BF16(Shape shape, const std::vector<float>& values);
Tensor Bools(Shape shape, std::vector<int> values);
// Uniform in [low, high), the same for the same seed.
Tensor RandomF32(Shape shape, uint64_t seed, float low = -1.0f, float high = 1.0f);

// The cases of all files, by the files' names.
std::vector<OpCase> AllOpCases();

using AddCasesFunction = void (*)(std::vector<OpCase>* cases);

// Makes a file's cases known to AllOpCases before main() begins.
class OpCaseFile {
 public:
  OpCaseFile(const char* name, AddCasesFunction add);
};

// Whether `path` is that of OPS_cases.cc.
constexpr bool IsCaseFileOf(absl::string_view ops, absl::string_view path) {
  constexpr absl::string_view kEnd = "_cases.cc";
  if (path.size() <= ops.size() + kEnd.size()) return false;
  path.remove_prefix(path.size() - ops.size() - kEnd.size() - 1);
  return path[0] == '/' && path.substr(1, ops.size()) == ops && path.substr(1 + ops.size()) == kEnd;
}

// Begins the function of tests/ops/OPS_cases.cc that adds the cases of the ops of kernels/OPS.cc to
// `cases`:
//
//   OP_CASES(add_n) {
//     cases->push_back({.op = "AddN", ...});
//   }
#define OP_CASES(ops)                                                                       \
  static_assert(IsCaseFileOf(#ops, __FILE__), "OP_CASES names the file that it stands in"); \
  static void AddCasesOf_##ops(std::vector<OpCase>* cases);                                 \
  static const OpCaseFile case_file_of_##ops(#ops, AddCasesOf_##ops);                       \
  static void AddCasesOf_##ops(std::vector<OpCase>* cases)

}  // namespace coxswain::testing
