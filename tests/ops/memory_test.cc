// Kernels that cannot have the memory that they want, or that are asked for more than there can be.
#include <catch2/catch.hpp>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "coordinator/api/variable_info.h"
#include "runtime/function/executor.h"
#include "runtime/tensor/limits.h"
#include "tests/ops/op_case.h"
#include "tests/ops/op_run.h"

namespace coxswain::testing {
namespace {

// While it lives, no buffer may be larger.
class Scarcity {
 public:
  explicit Scarcity(size_t bytes) : before_(MaxBufferBytes()) { SetMaxBufferBytes(bytes); }
  ~Scarcity() { SetMaxBufferBytes(before_); }

 private:
  const size_t before_;
};

// `most`: of a buffer, once inputs and shards are there.
absl::Status RunOnce(const OpCase& op_case, bool known, size_t most = MaxBufferBytes()) {
  const auto pool = env::NewComputePool(2);
  auto function = BuildForward(op_case, AllOps(), known);
  if (!function.ok()) return function.status();
  auto compiled = function::CompiledFunction::Compile(*std::move(function));
  if (!compiled.ok()) return compiled.status();
  function::RunOptions options;
  options.pool = pool.get();
  options.variables = op_case.variables ? op_case.variables() : nullptr;
  const Scarcity scarcity(most);
  return (*compiled)->Run(op_case.inputs, options).status();
}

OpCase Of(const std::string& op, std::vector<Tensor> inputs, Attrs attrs = {}) {
  OpCase op_case;
  op_case.op = op;
  op_case.inputs = std::move(inputs);
  op_case.attrs = std::move(attrs);
  return op_case;
}

Tensor Empty(Shape shape, DType dtype = DType::kF32) { return Tensor(dtype, std::move(shape)); }

TEST_CASE("a kernel that cannot have its memory returns an error", "[memory]") {
  int refused = 0;
  for (const OpCase& op_case : AllOpCases()) {
    if (!Builds(op_case, AllOps())) continue;
    INFO(op_case.op << " " << op_case.label);
    // The inputs are there, nothing more is to be had; some ops need nothing.
    const absl::Status status = RunOnce(op_case, true, 0);
    if (status.code() == absl::StatusCode::kResourceExhausted) ++refused;
    const bool expected = status.ok() || status.code() == absl::StatusCode::kResourceExhausted ||
                          status.code() == absl::StatusCode::kFailedPrecondition;
    INFO(status.ToString());
    CHECK(expected);
  }
  CHECK(refused > 60);
}

TEST_CASE("results that no machine holds are errors, not the end of the process", "[memory]") {
  constexpr int64_t kMany = int64_t{1} << 20, kMost = kMaxElementsBesideNone;
  const std::vector<OpCase> cases = {
      Of("MatMul", {Empty({kMany, 0}), Empty({0, kMany})}),
      Of("MatMul", {Empty({kMany, 0}, DType::kF64), Empty({0, kMany}, DType::kF64)}),
      Of("Add", {Empty({kMany, 0, 1}), Empty({1, 0, 2 * kMany})}),
      Of("Add", {Empty({kMost, 0, 1}), Empty({1, 0, kMost})}),
      Of("BroadcastLike", {Empty({1, 0}), Empty({kMost, 0})}),
      Of("Concat", {Empty({0, kMost}), Empty({0, kMost})}, {{"axis", 1}}),
      Of("Gather", {Empty({0, kMost}), Empty({0, kMost}, DType::kI64)}),
      Of("OneHot", {Empty({0, kMost}, DType::kI64)}, {{"depth", kMost}}),
      Of("Reshape", {Empty({0})}, {{"shape", Shape{0, kMost, kMost}}}),
      Of("RandomUniform", {}, {{"shape", Shape{kMaxElements}}}),
  };
  for (const OpCase& op_case : cases) {
    for (const bool known : {true, false}) {
      INFO(op_case.op << (known ? ", known shapes" : ""));
      const absl::Status status = RunOnce(op_case, known);
      INFO(status.ToString());
      CHECK((!status.ok() || op_case.op == "BroadcastLike"));  // the shape of `like`
      CHECK(status.code() != absl::StatusCode::kInternal);
    }
  }
}

TEST_CASE("many rows of nothing take no time", "[memory]") {
  constexpr int64_t kMost = kMaxElementsBesideNone;
  const Tensor rows = Empty({kMost, 0}), ids = Empty({kMost, 0}, DType::kI64);
  CHECK(RunOnce(Of("TakeAlongLast", {rows, ids}), false).ok());
  CHECK(RunOnce(Of("PutAlongLast", {rows, ids, rows}), false).ok());
  CHECK(RunOnce(Of("Softmax", {rows}), false).ok());
  CHECK(RunOnce(Of("PairwiseDots", {rows}, {{"with_first", false}}), false).ok());
  CHECK(RunOnce(Of("MatMul", {Empty({kMost, 0}, DType::kF64), Empty({0, 0}, DType::kF64)}), false)
            .ok());
  CHECK(RunOnce(
            Of("EmbeddingBagGrad", {Empty({2, 0}), rows, I32({3}, {0, 1, 2}), I32({3}, {0, 1, 3})},
               {{"combiner", "sum"}}),
            false)
            .ok());
}

TEST_CASE("counts whose powers a double cannot tell are an error of the sampler", "[memory]") {
  for (const double distortion : {1e4, -1e4}) {
    const absl::Status status = RunOnce(Of("FixedUnigramSampler", {},
                                           {{"unigrams", F32({2}, {1e30f, 2e30f})},
                                            {"num_sampled", 2},
                                            {"distortion", distortion}}),
                                        true);
    CHECK(status.code() == absl::StatusCode::kInvalidArgument);
  }
}

}  // namespace
}  // namespace coxswain::testing
