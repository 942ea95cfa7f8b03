// Kernels whose loops are split over the threads of a pool.
#include <catch2/catch.hpp>
#include <memory>

#include "kernels/compute.h"
#include "tests/ops/op_case.h"
#include "tests/ops/op_run.h"

namespace coxswain::testing {
namespace {

// Splits every loop of two steps or more, where a real pool leaves a short loop to one thread: so
// small inputs show what large ones would.
class FinePool final : public env::ComputePool {
 public:
  explicit FinePool(int threads) : pool_(env::NewComputePool(threads)) {}

  void Schedule(absl::AnyInvocable<void()> task) override { pool_->Schedule(std::move(task)); }
  void ParallelFor(int64_t n, int64_t, absl::FunctionRef<void(int64_t, int64_t)> body) override {
    pool_->ParallelFor(n, 1, body);
  }
  int threads() const override { return pool_->threads(); }
  double busy_seconds() const override { return pool_->busy_seconds(); }

 private:
  const std::unique_ptr<env::ComputePool> pool_;
};

// Inputs are copied, so that kernels may write in place.
std::vector<Tensor> RunOn(const OpCase& op_case, env::ComputePool* pool) {
  const auto function = BuildForward(op_case, AllOps(), true);
  REQUIRE(function.ok());
  InterpretOptions options = OptionsOf(op_case);
  options.pool = pool;
  auto results = Interpret(*function, Copies(op_case.inputs), options);
  INFO(results.status().message());
  REQUIRE(results.ok());
  return *std::move(results);
}

TEST_CASE("kernels give the same on several threads as on one, to the bit") {
  const auto one = env::NewInlinePool();
  FinePool three(3);
  const auto four = env::NewComputePool(4);  // splits what is large enough as it would in training
  for (const OpCase& op_case : AllOpCases()) {
    INFO(op_case.op << ": " << op_case.label);
    const std::vector<Tensor> alone = RunOn(op_case, one.get());
    for (env::ComputePool* pool : {static_cast<env::ComputePool*>(&three), four.get()}) {
      const std::vector<Tensor> together = RunOn(op_case, pool);
      REQUIRE(together.size() == alone.size());
      for (size_t i = 0; i < alone.size(); ++i) CHECK(SameBytes(together[i], alone[i]));
    }
  }
}

// Large enough that oneDNN sums a part in another order than the whole (on some processors).
TEST_CASE("products give the same on any number of threads where that is wanted, to the bit") {
  struct Case {
    const char* op;
    std::vector<Tensor> inputs;
    Attrs attrs;
  };
  const Tensor x = RandomF32({700, 300}, 1), g = RandomF32({700, 260}, 2);
  const std::vector<Case> cases = {
      {"MatMul", {x, RandomF32({300, 260}, 3)}, {}},
      {"MatMul", {x, g}, {{"transpose_a", true}}},
      {"MatMul", {RandomF32({4000, 200}, 4), RandomF32({4000, 190}, 5)}, {{"transpose_a", true}}},
      {"MatMul", {g, RandomF32({300, 260}, 6)}, {{"transpose_b", true}}},
      {"MatMul", {RandomF32({20, 300}, 7), RandomF32({300, 5000}, 8)}, {}},
      {"BatchMatMul", {RandomF32({40, 60, 50}, 9), RandomF32({40, 50, 70}, 10)}, {}},
      {"FusedDense",
       {x, RandomF32({300, 260}, 11), RandomF32({260}, 12)},
       {{"activation", "relu"}}},
      {"DenseInputGrad", {g, RandomF32({300, 260}, 13), RandomF32({700, 300}, 14)}, {}},
  };
  for (const Case& c : cases) {
    for (const char* compute : {"", "bf16"}) {
      OpCase op_case{.op = c.op, .inputs = c.inputs, .attrs = c.attrs};
      op_case.attrs[kernels::kSameOnAnyThreadsAttr] = true;
      if (*compute != 0) op_case.attrs[kernels::kComputeAttr] = compute;
      CAPTURE(c.op, c.inputs[0].shape().ToString(), compute);
      const auto one = env::NewInlinePool();
      const std::vector<Tensor> alone = RunOn(op_case, one.get());
      for (const int threads : {2, 3, 5, 16}) {
        CAPTURE(threads);
        const auto pool = env::NewComputePool(threads);
        const std::vector<Tensor> together = RunOn(op_case, pool.get());
        for (size_t i = 0; i < alone.size(); ++i) CHECK(SameBytes(together[i], alone[i]));
      }
    }
  }
}

}  // namespace
}  // namespace coxswain::testing
