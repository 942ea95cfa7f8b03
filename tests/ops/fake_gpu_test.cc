// Every op and every gradient on a fake GPU: placement, copies and the executor treat device memory
// as such, for each of them.
#include <catch2/catch.hpp>

#include "tests/ops/op_case.h"
#include "tests/ops/op_run.h"
#include "tests/testing/on_device.h"

namespace coxswain::testing {
namespace {

TEST_CASE("every op computes on a fake GPU what its cases say") {
  const FakeGpu gpu;
  const RunOnGpu there(&gpu);
  CheckAllCases(CheckForward);
  CHECK(gpu.device()->stats().ops > 1000);
}

TEST_CASE("every gradient on a fake GPU agrees with central differences") {
  device::FakeDeviceOptions options;
  options.max_delay = absl::ZeroDuration();
  const FakeGpu gpu(options);
  const RunOnGpu there(&gpu);
  CheckAllCases(CheckGradient, HasGradient);
}

}  // namespace
}  // namespace coxswain::testing
