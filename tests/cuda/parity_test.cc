// Every case of an op gives the same on the device as on the CPU.
#include <catch2/catch.hpp>
#include <map>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "tests/cuda/device_run.h"
#include "tests/ops/op_run.h"

namespace coxswain::testing {
namespace {

// Compares a run on the device with the CPU's outputs.
void CompareRun(const TestedDevice& on, const OpCase& op_case, const std::vector<Tensor>& wanted,
                const std::string& how, const DeviceRunOptions& options, Problems* problems) {
  const DeviceRun run = RunOnDevice(on, op_case, TypesOf(wanted), options);
  if (run.code != COX_OK) {
    problems->push_back(absl::StrCat(how, ": code ", run.code, ": ", run.message));
    return;
  }
  if (run.fault.kind != COX_FAULT_NONE) {
    problems->push_back(absl::StrCat(how, ": fault ", run.fault.kind, " of input ", run.fault.input,
                                     " at ", run.fault.at));
  }
  for (size_t i = 0; i < wanted.size(); ++i) {
    const double tolerance = wanted[i].dtype() == DType::kF64 ? 1e-9
                             : IsFloating(wanted[i].dtype())  ? op_case.tolerance
                                                              : 0.0;
    CompareValues(absl::StrCat(how, ", output ", i), run.outputs[i], wanted[i], tolerance,
                  problems);
  }
}

Problems CompareWithCpu(const TestedDevice& on, const OpCase& op_case) {
  Problems problems;
  const auto wanted = RunOnCpu(op_case);
  if (!wanted.ok()) return {std::string(wanted.status().message())};
  if (CreateOnDevice(on, op_case, TypesOf(*wanted)) == COX_NOT_FOUND) return {};
  CompareRun(on, op_case, *wanted, "aligned", {}, &problems);
  CompareRun(on, op_case, *wanted, "shifted", {.shifted = true}, &problems);
  CompareRun(on, op_case, *wanted, "backwards", {.backwards = true}, &problems);
  return problems;
}

TEST_CASE("every op computes on the device what it does on the CPU") {
  const TestedDevice* on = OpenTestedDevice();
  if (on == nullptr) return;
  for (const OpCase& op_case : AllOpCases()) {
    if (AllOps().Find(op_case.op)->on_parameter_server) continue;
    INFO(op_case.op << ": " << op_case.label);
    CHECK(absl::StrJoin(CompareWithCpu(*on, op_case), "\n") == "");
    const OpCase wide = Widened(op_case);
    if (!HasF32(op_case) || !Builds(wide, AllOps())) continue;
    INFO("in f64");
    CHECK(absl::StrJoin(CompareWithCpu(*on, wide), "\n") == "");
  }
}

// What has no kernel, and why. A new op belongs here or gets one.
const std::map<std::string, std::string>& WithoutKernel() {
  static const auto* const ops = new std::map<std::string, std::string>{
      {"CopyToDevice", "the executor's"},
      {"CopyBetweenDevices", "the executor's"},
      {"CopyToHost", "the executor's"},
      {"Arg", "the executor feeds it"},
      {"Const", "the host copies its value to the device, once"},
      {"InBags", "it looks at ids, which stay on the host"},
      {"BagOf", "offsets of bags of ids are on the host"},
      {"PickBags", "it picks lists of ids, which stay on the host"},
      {"Unique", "ids stay on the host, where the calls to parameter servers are made"},
      {"UniqueShards", "ids stay on the host"},
      {"FixedUnigramSampler", "it draws ids, which stay on the host"},
  };
  return *ops;
}

TEST_CASE("each op has a kernel for devices, or there is a reason why not") {
  const TestedDevice* on = OpenTestedDevice();
  if (on == nullptr) return;
  std::set<std::string> found;
  for (const OpCase& op_case : AllOpCases()) {
    if (AllOps().Find(op_case.op)->on_parameter_server) continue;  // it runs where its matrix is
    const auto outputs = RunOp(op_case, AllOps());
    REQUIRE(outputs.ok());
    if (CreateOnDevice(*on, op_case, TypesOf(*outputs)) == COX_OK) found.insert(op_case.op);
  }
  for (const std::string& op : AllOps().Names()) {
    INFO(op);
    if (AllOps().Find(op)->on_parameter_server) {
      CHECK_FALSE(found.contains(op));
    } else {
      CHECK(found.contains(op) != WithoutKernel().contains(op));
    }
  }
  for (const auto& [op, reason] : WithoutKernel()) {
    INFO(op << ": " << reason);
    CHECK(AllOps().Find(op) != nullptr);
  }
}

TEST_CASE("random ops draw what the CPU draws for the same step, bit for bit") {
  const TestedDevice* on = OpenTestedDevice();
  if (on == nullptr) return;
  const graph::StepInfo step{
      .session = 3, .closure = (uint64_t{7} << 40) + 5, .step = 9, .seed = 12345};
  const std::vector<OpCase> cases = {
      {.op = "RandomUniform",
       .attrs = {{"shape", Shape{1003}}, {"seed", -4}, {"low", -0.3}, {"high", 17.1}}},
      {.op = "RandomInt",
       .attrs = {{"shape", Shape{3, 333}}, {"seed", 5}, {"low", -1000}, {"high", 1000000007}}},
  };
  for (const OpCase& op_case : cases) {
    INFO(op_case.op);
    const auto function = BuildForward(op_case, AllOps(), true);
    REQUIRE(function.ok());
    InterpretOptions options;
    options.step = step;
    const auto wanted = Interpret(*function, {}, options);
    REQUIRE(wanted.ok());
    const DeviceRun run = RunOnDevice(*on, op_case, TypesOf(*wanted), {.step = step});
    REQUIRE(run.code == COX_OK);
    CHECK(SameBytes(run.outputs[0], (*wanted)[0]));
  }
}

TEST_CASE("an op that only passes a tensor on may write to the memory that it reads") {
  const TestedDevice* on = OpenTestedDevice();
  if (on == nullptr) return;
  const std::set<std::string> passing = {"Identity", "StopGradient", "Reshape",      "ReshapeLike",
                                         "Squeeze",  "ExpandDims",   "CheckGradient"};
  for (const OpCase& op_case : AllOpCases()) {
    if (!passing.contains(op_case.op)) continue;
    INFO(op_case.op << ": " << op_case.label);
    const auto wanted = RunOp(op_case, AllOps());
    REQUIRE(wanted.ok());
    Problems problems;
    CompareRun(*on, op_case, *wanted, "in place", {.in_place = true}, &problems);
    CHECK(absl::StrJoin(problems, "\n") == "");
  }
}

}  // namespace
}  // namespace coxswain::testing
