// Rows of a block on the device: in place or not, they get the bits that the CPU computes, and what
// names no row of the block changes none.
#include <catch2/catch.hpp>
#include <type_traits>

#include "absl/strings/string_view.h"
#include "kernels/cuda/optimizer_rules.h"
#include "kernels/optimizers/optimizer_list.h"
#include "tests/cuda/device_run.h"
#include "tests/ops/op_run.h"

namespace coxswain::testing {
namespace {

// A power is a function of the C library or CUDA's, which round differently.
bool HasPower(const OpCase& op_case) {
  return op_case.label.find("another power") != std::string::npos;
}

// Whether a Rule<float> of O can be read as a Rule of the device: same numbers, same order.
template <typename O, typename Rule>
bool HasNumbersOf() {
  using OnHost = typename O::template Rule<float>;
  if constexpr (requires { typename OnHost::Numbers; }) {
    using Numbers = typename OnHost::Numbers;
    return std::is_base_of_v<Numbers, OnHost> && std::is_base_of_v<Numbers, Rule> &&
           sizeof(Numbers) == sizeof(Rule) && sizeof(Numbers) <= sizeof(OnHost);
  } else {
    return false;
  }
}

template <typename Rule>
void CheckNumbers(absl::string_view kind) {
  INFO(kind);
  int found = 0;
#define COX_CHECK_NUMBERS(O)          \
  if (kind == O::kKind) {             \
    ++found;                          \
    CHECK((HasNumbersOf<O, Rule>())); \
  }
  COX_OPTIMIZERS(COX_CHECK_NUMBERS)
#undef COX_CHECK_NUMBERS
  CHECK(found == 1);
}

TEST_CASE("an optimizer's rule has the same numbers on the device, and in the same order") {
#define COX_CHECK_RULE(kind, Rule) CheckNumbers<cuda::Rule>(kind);
  COX_CUDA_RULES(COX_CHECK_RULE)
#undef COX_CHECK_RULE
}

TEST_CASE("a block's rows on the device get the bits that the CPU computes, in place or not") {
  const TestedDevice* on = OpenTestedDevice();
  if (on == nullptr) return;
  for (const OpCase& op_case : AllOpCases()) {
    if (op_case.op != "BlockScatter" && op_case.op != "BlockApply") continue;
    INFO(op_case.op << ": " << op_case.label);
    const auto wanted = RunOnCpu(op_case);
    REQUIRE(wanted.ok());
    for (const bool in_place : {false, true}) {
      for (const bool shifted : {false, true}) {
        const DeviceRun run =
            RunOnDevice(*on, op_case, TypesOf(*wanted), {.shifted = shifted, .in_place = in_place});
        REQUIRE(run.message == "");
        CHECK(run.fault.kind == COX_FAULT_NONE);
        CHECK((HasPower(op_case) || SameBytes(run.outputs[0], (*wanted)[0])));
      }
    }
  }
}

// Each op with places 1, 4 and 2 of a block of 4 rows: 4 is out of range.
std::vector<OpCase> WithFault(int64_t columns, int64_t width) {
  const Tensor block = RandomF32({4, columns}, 1, 0.1f), places = I64({3}, {1, 4, 2});
  const Tensor rows = RandomF32({3, width}, 2);
  return {
      {.op = "BlockGather", .inputs = {block, places}, .attrs = {{"offset", 0}, {"width", width}}},
      {.op = "BlockScatter", .inputs = {block, places, rows}, .attrs = {{"offset", 0}}},
      {.op = "BlockApply",
       .inputs = {block, places, rows, F32({3}, {0.1f, 0, 0})},
       .attrs = {{"kind", "adagrad"}}},
      {.op = "BlockApply",
       .inputs = {block, places, rows, F32({3}, {0.1f, 0, 0})},
       .attrs = {{"kind", "rowwise_adagrad"}}},
  };
}

// The case without what is out of range.
OpCase WithoutFault(const OpCase& op_case) {
  OpCase good = op_case;
  good.inputs[1] = I64({2}, {1, 2});
  if (good.inputs.size() == 2) return good;
  const Tensor& rows = op_case.inputs[2];
  const int64_t width = rows.dim(1);
  Tensor kept(DType::kF32, Shape{2, width});
  std::copy_n(rows.data<float>(), width, kept.mutable_data<float>());
  std::copy_n(rows.data<float>() + 2 * width, width, kept.mutable_data<float>() + width);
  good.inputs[2] = kept;
  return good;
}

void CheckFault(const TestedDevice& on, const OpCase& op_case) {
  INFO(op_case.op << " of " << op_case.inputs[0].dim(1) << " columns");
  const auto good = RunOnCpu(WithoutFault(op_case));
  REQUIRE(good.ok());
  Tensor wanted = (*good)[0];
  const bool gather = op_case.op == "BlockGather";
  if (gather) {  // the rows that there are, zeros between them
    const int64_t width = wanted.dim(1);
    wanted = Tensor::Zeros(DType::kF32, Shape{3, width});
    std::copy_n((*good)[0].data<float>(), width, wanted.mutable_data<float>());
    std::copy_n((*good)[0].data<float>() + width, width, wanted.mutable_data<float>() + 2 * width);
  }
  const DeviceRun run = RunOnDevice(on, op_case, TypesOf({wanted}), {.in_place = !gather});
  CHECK(run.message == "");
  CHECK(run.fault.kind == COX_FAULT_INDEX);
  CHECK(run.fault.node == 17);
  CHECK(run.fault.input == 1);
  CHECK(run.fault.at == 1);
  CHECK(run.fault.value == 4);
  CHECK(run.fault.bound == 4);
  REQUIRE(run.outputs.size() == 1);
  CHECK(SameBytes(run.outputs[0], wanted));
}

TEST_CASE("a place outside of a block is a fault, and the other rows are done") {
  const TestedDevice* on = OpenTestedDevice();
  if (on == nullptr) return;
  for (const OpCase& op_case : WithFault(16, 8)) CheckFault(*on, op_case);
  for (const OpCase& op_case : WithFault(7, 3)) CheckFault(*on, op_case);
}

TEST_CASE("a block that is too narrow for what is asked is refused") {
  const TestedDevice* on = OpenTestedDevice();
  if (on == nullptr) return;
  for (const OpCase& op_case : WithFault(5, 8)) {
    INFO(op_case.op);
    const Shape shape = op_case.op == "BlockGather" ? Shape{3, 8} : Shape{4, 5};
    const DeviceRun run = RunOnDevice(*on, op_case, {{DType::kF32, shape}});
    CHECK(run.code == COX_INVALID_ARGUMENT);
    CHECK_THAT(run.message, Catch::Contains("wanted columns within the block's 5"));
  }
}

}  // namespace
}  // namespace coxswain::testing
