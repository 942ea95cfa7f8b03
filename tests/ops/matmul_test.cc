// What the cases of matmul_cases.cc are too small to show: products that are split over threads,
// and more shapes than are kept.
#include <signal.h>
#include <sys/time.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <cstring>
#include <thread>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "kernels/compute.h"
#include "kernels/cpu/bf16.h"
#include "kernels/cpu/onednn_matmul.h"
#include "runtime/graph/builder.h"
#include "tests/ops/op_case.h"
#include "tests/ops/op_run.h"

namespace coxswain::testing {
namespace {

// The definition, in double.
std::vector<float> PlainProduct(const kernels::MatMulProblem& p, const float* a, const float* b,
                                const float* bias) {
  std::vector<float> c(p.batch * p.m * p.n);
  for (int64_t i = 0; i < p.batch; ++i, a += p.m * p.k, b += p.k * p.n) {
    for (int64_t r = 0; r < p.m; ++r) {
      for (int64_t s = 0; s < p.n; ++s) {
        double sum = bias == nullptr ? 0.0 : bias[s];
        for (int64_t t = 0; t < p.k; ++t) {
          sum += static_cast<double>(a[p.transpose_a ? t * p.m + r : r * p.k + t]) *
                 b[p.transpose_b ? s * p.k + t : t * p.n + s];
        }
        c[(i * p.m + r) * p.n + s] = static_cast<float>(p.relu ? std::max(sum, 0.0) : sum);
      }
    }
  }
  return c;
}

// The largest difference between oneDNN's product and the plain one, relative to the length of a
// sum.
double Error(const kernels::MatMulProblem& p, bool biased, env::ComputePool* pool) {
  const Tensor a = RandomF32({p.batch, p.m, p.k}, 1), b = RandomF32({p.batch, p.k, p.n}, 2);
  const Tensor bias = RandomF32({p.n}, 3);
  const float* pbias = biased ? bias.data<float>() : nullptr;
  Tensor c =
      F32({p.batch, p.m, p.n}, std::vector<float>(static_cast<size_t>(p.batch * p.m * p.n), 1e30f));
  const absl::Status status =
      kernels::MatMulF32(p, a.data<float>(), b.data<float>(), pbias, c.mutable_data<float>(), pool);
  INFO(status.message());
  REQUIRE(status.ok());
  const std::vector<float> wanted = PlainProduct(p, a.data<float>(), b.data<float>(), pbias);
  double worst = 0;
  for (size_t i = 0; i < wanted.size(); ++i) {
    worst = std::max(worst, std::fabs(static_cast<double>(c.data<float>()[i]) - wanted[i]));
  }
  return worst / std::sqrt(static_cast<double>(std::max<int64_t>(p.k, 1)));
}

std::atomic<int> g_signals{0};

TEST_CASE("signals that arrive during products of matrices disturb nothing") {
  struct sigaction handler = {}, before = {};
  handler.sa_handler = [](int) { g_signals.fetch_add(1); };
  handler.sa_flags = SA_RESTART;
  REQUIRE(sigaction(SIGALRM, &handler, &before) == 0);
  auto pool = env::NewComputePool(2);
  const std::vector<kernels::MatMulProblem> problems = {
      {.m = 512, .n = 256, .k = 415},
      {.m = 512, .n = 415, .k = 256, .transpose_b = true},
      {.m = 415, .n = 256, .k = 512, .transpose_a = true},
      {.batch = 128, .m = 27, .n = 27, .k = 64, .transpose_b = true}};
  const auto multiply = [&](const kernels::MatMulProblem& p, env::ComputePool* on) {
    const Tensor a = RandomF32({p.batch, p.m, p.k}, 1), b = RandomF32({p.batch, p.k, p.n}, 2);
    Tensor c(DType::kF32, Shape{p.batch, p.m, p.n});
    REQUIRE(kernels::MatMulF32(p, a.data<float>(), b.data<float>(), nullptr,
                               c.mutable_data<float>(), on)
                .ok());
    return c;
  };
  const auto multiply_all = [&] {
    std::vector<Tensor> products;
    for (const kernels::MatMulProblem& p : problems) {
      products.push_back(multiply(p, nullptr));
      products.push_back(multiply(p, pool.get()));
    }
    return products;
  };
  const std::vector<Tensor> wanted = multiply_all();
  const itimerval often = {{0, 200}, {0, 200}}, never = {};
  REQUIRE(setitimer(ITIMER_REAL, &often, nullptr) == 0);
  bool same = true;
  for (int i = 0; i < 5'000 && g_signals < 1000; ++i) {
    const std::vector<Tensor> found = multiply_all();
    for (size_t k = 0; k < wanted.size(); ++k) same = same && SameBytes(found[k], wanted[k]);
  }
  setitimer(ITIMER_REAL, &never, nullptr);
  sigaction(SIGALRM, &before, nullptr);
  CHECK(same);
  CHECK(g_signals >= 100);
}

TEST_CASE("a product split over threads is the plain product") {
  auto pool = env::NewComputePool(3);
  for (const bool ta : {false, true}) {
    for (const bool tb : {false, true}) {
      CAPTURE(ta, tb);
      kernels::MatMulProblem p;
      p.transpose_a = ta;
      p.transpose_b = tb;
      SECTION("by rows") {
        p.m = 403, p.n = 131, p.k = 170;
        CHECK(Error(p, false, pool.get()) < 1e-5);
        p.relu = true;
        CHECK(Error(p, true, pool.get()) < 1e-5);
      }
      SECTION("by columns, when there are few rows") {
        p.m = 7, p.n = 1501, p.k = 700;
        CHECK(Error(p, false, pool.get()) < 1e-5);
        p.relu = true;
        CHECK(Error(p, true, pool.get()) < 1e-5);
      }
      SECTION("by batch") {
        p.batch = 100, p.m = 27, p.n = 33, p.k = 64;
        CHECK(Error(p, false, pool.get()) < 1e-5);
        p.relu = true;
        CHECK(Error(p, true, pool.get()) < 1e-5);
      }
    }
  }
}

// bf16 has 8 bits: each factor is off by up to 2^-9 of itself, and errors add up like the sum.
TEST_CASE("a product in bf16 is off by the rounding of its factors, and by no more") {
  auto pool = env::NewComputePool(3);
  for (const bool ta : {false, true}) {
    for (const bool tb : {false, true}) {
      CAPTURE(ta, tb);
      kernels::MatMulProblem p;
      p.bf16 = true;
      p.transpose_a = ta;
      p.transpose_b = tb;
      const double least = kernels::Bf16IsFast() ? 1e-4 : 0;  // else it is computed in f32
      SECTION("split by rows") {
        p.m = 403, p.n = 131, p.k = 170;
        CHECK(Error(p, false, pool.get()) < 0.02);
        p.relu = true;
        CHECK(Error(p, true, pool.get()) < 0.02);
        CHECK(Error(p, true, pool.get()) >= least);
      }
      SECTION("split by columns") {
        p.m = 17, p.n = 1501, p.k = 700;
        CHECK(Error(p, true, pool.get()) < 0.02);
        CHECK(Error(p, true, pool.get()) >= least);
      }
      SECTION("split by batch") {
        p.batch = 100, p.m = 27, p.n = 33, p.k = 64;
        CHECK(Error(p, true, pool.get()) < 0.02);
        CHECK(Error(p, true, pool.get()) >= least);
      }
      SECTION("in one thread, larger and smaller by turns") {
        for (const int64_t m : {20, 300, 16}) {
          p.m = m, p.n = 40, p.k = 50;
          CHECK(Error(p, true, nullptr) < 0.02);
          CHECK(Error(p, true, nullptr) >= least);
        }
      }
      SECTION("too small for it") {
        p.m = 403, p.n = kernels::kLeastBf16Dim - 1, p.k = 170;
        CHECK(Error(p, true, pool.get()) < 1e-5);
      }
    }
  }
}

TEST_CASE("the loop that rounds to bf16 does as the definition, for every kind of number") {
  std::vector<float> in;
  for (uint64_t i = 0; i < (uint64_t{1} << 20); ++i) {
    // Every exponent and sign, NaN and infinity too, and the bits around the one that decides.
    const uint32_t raw = static_cast<uint32_t>(i << 12 | (i * 2654435761u & 0xfffu));
    float value;
    std::memcpy(&value, &raw, sizeof(value));
    in.push_back(value);
  }
  in.push_back(1.00390625f);  // a tie, to even
  in.push_back(1.01171875f);
  std::vector<BFloat16> out(in.size());
  kernels::ToBf16(in.data(), static_cast<int64_t>(in.size()), out.data());
  int64_t wrong = 0;
  for (size_t i = 0; i < in.size(); ++i) wrong += out[i].bits != BFloat16::FromFloat(in[i]).bits;
  CHECK(wrong == 0);
}

TEST_CASE("SetCompute reaches all products of a function, those of its gradients included") {
  graph::GraphBuilder builder("f", &AllOps());
  const Output x = builder.Constant(RandomF32({20, 30}, 1));
  const Output w = builder.Constant(RandomF32({30, 40}, 2));
  const Output bias = builder.Constant(RandomF32({40}, 3));
  const Output y = builder.Op("FusedDense", {x, w, bias}, {{"activation", "relu"}});
  const Output z = builder.Op("MatMul", {y, y}, {{"transpose_b", true}});
  const Output loss = builder.Op("ReduceSum", {z});
  int results = 0;
  for (const Output g : builder.Gradients({loss}, {x, w, bias})) {
    builder.Result(absl::StrCat("gradient ", results++), g);
  }
  auto function = builder.Finish();
  INFO(function.status().message());
  REQUIRE(function.ok());
  kernels::SetCompute(ComputeType::kF32, false, &function->graph);
  const auto count = [&] {
    std::pair<int, int> products{0, 0};  // all, in bf16
    for (const graph::Node& node : function->graph.nodes()) {
      const bool product = node.op == "MatMul" || node.op == "FusedDense";
      const bool bf16 = graph::AttrOr<std::string>(node.attrs, kernels::kComputeAttr, "") == "bf16";
      CHECK(graph::AttrOr<bool>(node.attrs, kernels::kSameOnAnyThreadsAttr, false) == bf16);
      CHECK((product || !bf16));
      products.first += product;
      products.second += bf16;
    }
    return products;
  };
  CHECK(count() == std::pair{6, 0});
  kernels::SetCompute(ComputeType::kBf16, true, &function->graph);
  CHECK(count() == std::pair{6, 6});
}

TEST_CASE("tf32 is for GPUs: a CPU computes in f32, and a word that there is not is refused") {
  OpCase product{.op = "MatMul", .inputs = {RandomF32({20, 30}, 1), RandomF32({30, 40}, 2)}};
  const auto wanted = RunOp(product, AllOps());
  REQUIRE(wanted.ok());
  product.attrs = {{kernels::kComputeAttr, "tf32"}};
  const auto found = RunOp(product, AllOps());
  REQUIRE(found.ok());
  CHECK(SameBytes((*found)[0], (*wanted)[0]));
  product.attrs = {{kernels::kComputeAttr, "f16"}};
  CHECK(absl::StrContains(ErrorOf(product, AllOps()), "wanted '', 'bf16' or 'tf32', found 'f16'"));
}

TEST_CASE("the gradient of a product computes as the product does") {
  for (const char* op : {"MatMul", "FusedDense"}) {
    graph::GraphBuilder builder("f", &AllOps());
    const Output x = builder.Constant(RandomF32({20, 30}, 1));
    const Output w = builder.Constant(RandomF32({30, 40}, 2));
    std::vector<Output> inputs = {x, w};
    if (op == std::string("FusedDense")) inputs.push_back(builder.Constant(RandomF32({40}, 3)));
    const Output y = builder.Op(op, inputs, {{kernels::kComputeAttr, "bf16"}});
    int results = 0;
    for (const Output g : builder.Gradients({builder.Op("ReduceSum", {y})}, {x, w})) {
      builder.Result(absl::StrCat("gradient ", results++), g);
    }
    auto function = builder.Finish();
    REQUIRE(function.ok());
    int products = 0;
    for (const graph::Node& node : function->graph.nodes()) {
      if (node.op != "MatMul" && node.op != "FusedDense") continue;
      ++products;
      CHECK(graph::AttrOr<std::string>(node.attrs, kernels::kComputeAttr, "") == "bf16");
    }
    CHECK(products >= 2);
  }
}

TEST_CASE("a product that is told to compute in an unknown way is refused") {
  const OpCase wrong{.op = "MatMul",
                     .label = "",
                     .inputs = {RandomF32({2, 3}, 1), RandomF32({3, 5}, 2)},
                     .attrs = {{"compute", "fp8"}}};
  CHECK_THAT(ErrorOf(wrong, AllOps()), Catch::Contains("'bf16'") && Catch::Contains("'fp8'"));
}

TEST_CASE("more shapes than a thread keeps stay right, in any order") {
  auto pool = env::NewInlinePool();
  double worst = 0;
  for (int round = 0; round < 2; ++round) {
    for (int64_t m = 1; m <= 300; ++m) {
      kernels::MatMulProblem p;
      p.m = m, p.n = 3, p.k = 4;
      worst = std::max(worst, Error(p, false, pool.get()));
    }
  }
  CHECK(worst < 1e-5);
}

TEST_CASE("matrices of one row, one column or one term") {
  auto pool = env::NewInlinePool();
  for (const bool ta : {false, true}) {
    for (const bool tb : {false, true}) {
      for (const auto& [m, n, k] :
           {std::tuple{1, 40, 30}, std::tuple{40, 1, 30}, std::tuple{40, 30, 1},
            std::tuple{1, 1, 40}, std::tuple{1, 40, 1}, std::tuple{1, 1, 1}}) {
        CAPTURE(m, n, k, ta, tb);
        kernels::MatMulProblem p;
        p.m = m, p.n = n, p.k = k, p.transpose_a = ta, p.transpose_b = tb;
        CHECK(Error(p, false, pool.get()) < 1e-5);
        CHECK(Error(p, true, pool.get()) < 1e-5);
      }
    }
  }
}

TEST_CASE("several threads multiply at the same time") {
  auto pool = env::NewComputePool(2);
  const Tensor a = RandomF32({64, 48}, 1), b = RandomF32({48, 32}, 2);
  kernels::MatMulProblem p;
  p.m = 64, p.n = 32, p.k = 48;
  const std::vector<float> wanted = PlainProduct(p, a.data<float>(), b.data<float>(), nullptr);
  std::vector<double> worst(4, 1e30);
  std::vector<std::thread> threads;
  for (size_t t = 0; t < worst.size(); ++t) {
    threads.emplace_back([&, t] {
      double error = 0;
      std::vector<float> c(64 * 32);
      for (int i = 0; i < 50; ++i) {
        kernels::MatMulProblem part = p;
        part.m = 1 + (i * 7) % 64;
        if (!kernels::MatMulF32(part, a.data<float>(), b.data<float>(), nullptr, c.data(),
                                pool.get())
                 .ok()) {
          return;
        }
        for (int64_t j = 0; j < part.m * part.n; ++j) {
          error = std::max(error, std::fabs(static_cast<double>(c[j]) - wanted[j]));
        }
      }
      worst[t] = error;
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (double w : worst) CHECK(w < 1e-4);
}

TEST_CASE("a product that does not fit says which matrices it is of") {
  using Catch::Contains;
  const OpCase wrong{.op = "MatMul",
                     .label = "",
                     .inputs = {RandomF32({2, 3}, 1), RandomF32({4, 5}, 2)},
                     .attrs = {}};
  CHECK_THAT(ErrorOf(wrong, AllOps()),
             Contains("MatMul") && Contains("[2,3]") && Contains("[4,5]"));
  OpCase dense{.op = "FusedDense",
               .label = "",
               .inputs = {RandomF32({2, 3}, 1), RandomF32({3, 4}, 2), RandomF32({5}, 3)},
               .attrs = {}};
  CHECK_THAT(ErrorOf(dense, AllOps()), Contains("4") && Contains("5") && Contains("bias"));
  dense.attrs = {{"activation", "gelu"}};
  CHECK_THAT(ErrorOf(dense, AllOps()), Contains("'relu'") && Contains("'gelu'"));
  const OpCase rank{.op = "BatchMatMul",
                    .label = "",
                    .inputs = {RandomF32({2, 3}, 1), RandomF32({3, 4}, 2)},
                    .attrs = {}};
  CHECK_THAT(ErrorOf(rank, AllOps()), Contains("wanted rank 3") && Contains("[2,3]"));
}

}  // namespace
}  // namespace coxswain::testing
