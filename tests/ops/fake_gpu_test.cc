// Every op and every gradient on a fake GPU: placement, copies and the executor treat device memory
// as such, for each of them.
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "absl/strings/str_join.h"
#include "tests/ops/op_case.h"
#include "tests/ops/op_run.h"
#include "tests/testing/on_device.h"

namespace coxswain::testing {
namespace {

TEST_CASE("every op computes on a fake GPU what its cases say") {
  const FakeGpu gpu;
  const RunOnGpu there(&gpu);
  for (const OpCase& op_case : AllOpCases()) {
    INFO(op_case.op << ": " << op_case.label);
    const std::vector<std::string> problems = CheckForward(op_case, AllOps());
    CHECK(absl::StrJoin(problems, "\n") == "");
  }
  CHECK(gpu.device()->stats().ops > 1000);
}

TEST_CASE("every gradient on a fake GPU agrees with central differences") {
  device::FakeDeviceOptions options;
  options.max_delay = absl::ZeroDuration();
  const FakeGpu gpu(options);
  const RunOnGpu there(&gpu);
  for (const OpCase& op_case : AllOpCases()) {
    if (op_case.differentiate.empty()) continue;
    INFO(op_case.op << ": " << op_case.label);
    const std::vector<std::string> problems = CheckGradient(op_case, AllOps());
    CHECK(absl::StrJoin(problems, "\n") == "");
  }
}

}  // namespace
}  // namespace coxswain::testing
