// Every op has a case, every gradient is checked against differences.
#include <catch2/catch.hpp>
#include <set>
#include <utility>

#include "absl/strings/str_join.h"
#include "tests/ops/op_case.h"

namespace coxswain::testing {
namespace {

// An op that no kernel makes: the executor gives it its value.
bool IsFedByExecutor(const std::string& op) {
  return AllOps().Find(op)->max_inputs == 0 && AllOps().Find(op)->not_differentiable &&
         !AllOps().HasKernel(op, DeviceType::kCpu);
}

TEST_CASE("every op has a kernel and a case") {
  std::set<std::string> covered;
  for (const OpCase& op_case : AllOpCases()) covered.insert(op_case.op);
  for (const std::string& op : AllOps().Names()) {
    if (IsFedByExecutor(op)) continue;
    INFO(op);
    CHECK(AllOps().HasKernel(op, DeviceType::kCpu));
    CHECK(covered.contains(op));
  }
}

TEST_CASE("only arguments of a function are fed by the executor") {
  std::vector<std::string> fed;
  for (const std::string& op : AllOps().Names()) {
    if (IsFedByExecutor(op)) fed.push_back(op);
  }
  CHECK(fed == std::vector<std::string>{"Arg"});
}

TEST_CASE("every gradient of every input is checked by a case") {
  std::set<std::pair<std::string, int>> checked, flowing;
  for (const OpCase& op_case : AllOpCases()) {
    for (int input : op_case.differentiate) checked.insert({op_case.op, input});
    for (int input : InputsWithGradient(op_case, AllOps())) flowing.insert({op_case.op, input});
  }
  for (const auto& [op, input] : flowing) {
    INFO(op << ", input " << input);
    CHECK(checked.count({op, input}) == 1);
  }
  for (const std::string& op : AllOps().Names()) {
    const OpSchema* schema = AllOps().Find(op);
    if (schema->gradient == nullptr || schema->not_differentiable) continue;
    INFO(op);
    CHECK(checked.lower_bound({op, 0}) != checked.end());
    CHECK(checked.lower_bound({op, 0})->first == op);
  }
}

TEST_CASE("no op without a derivative has a gradient") {
  for (const std::string& op : AllOps().Names()) {
    const OpSchema* schema = AllOps().Find(op);
    INFO(op);
    CHECK((schema->gradient == nullptr) == schema->not_differentiable);
  }
}

TEST_CASE("every op computes what its cases say") {
  for (const OpCase& op_case : AllOpCases()) {
    INFO(op_case.op << ": " << op_case.label);
    const std::vector<std::string> problems = CheckForward(op_case, AllOps());
    CHECK(absl::StrJoin(problems, "\n") == "");
  }
}

TEST_CASE("every gradient agrees with central differences") {
  for (const OpCase& op_case : AllOpCases()) {
    if (op_case.differentiate.empty()) continue;
    INFO(op_case.op << ": " << op_case.label);
    const std::vector<std::string> problems = CheckGradient(op_case, AllOps());
    CHECK(absl::StrJoin(problems, "\n") == "");
  }
}

}  // namespace
}  // namespace coxswain::testing
