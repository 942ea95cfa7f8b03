// How fast the heavy kernels are, one thread, against floors that any machine of the last ten years
// should pass: a kernel below its floor has lost its vector code or its cache. Prints a table;
// exits with 1 when one is below.

#include <chrono>
#include <cmath>
#include <cstdio>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "kernels/register.h"
#include "runtime/base/logging.h"
#include "runtime/graph/kernel.h"

namespace coxswain {
namespace {

struct Result {
  std::string name;
  double rate;  // of the unit, in seconds
  std::string unit;
  double scale, floor;  // in scaled units
};

// One kernel with inputs that stay; `owned` inputs are handed over anew each time, so that the
// kernel may write in place.
class Bench {
 public:
  Bench(const graph::OpRegistry& registry, const std::string& op, Attrs attrs,
        std::vector<Tensor> inputs, int outputs)
      : inputs_(std::move(inputs)), outputs_(outputs), pool_(env::NewInlinePool()) {
    graph::Node node;
    node.op = op;
    node.name = op;
    node.attrs = std::move(attrs);
    auto kernel = registry.CreateKernel(node);
    COX_CHECK(kernel.ok(), kernel.status().message());
    kernel_ = *std::move(kernel);
  }

  // Each run takes another one of these as its first input: what a processor learns of one of them
  // does not help with the next, as it would not in training.
  void Rotate(std::vector<Tensor> first_inputs) { first_inputs_ = std::move(first_inputs); }

  // Seconds of one run: the best of several rounds, so that what else runs here counts little.
  double Seconds() {
    using Clock = std::chrono::steady_clock;
    double best = 1e30;
    for (int round = 0; round < 8; ++round) {
      int runs = 0;
      const auto start = Clock::now();
      double passed = 0;
      while (passed < 0.03) {
        Run();
        ++runs;
        passed = std::chrono::duration<double>(Clock::now() - start).count();
      }
      best = std::min(best, passed / runs);
    }
    return best;
  }

 private:
  void Run() {
    std::vector<Tensor> inputs = inputs_, outputs(outputs_);
    if (!first_inputs_.empty()) inputs[0] = first_inputs_[runs_++ % first_inputs_.size()];
    const graph::StepInfo step;
    graph::KernelContext context(absl::MakeSpan(inputs), absl::MakeSpan(outputs), step, pool_.get(),
                                 nullptr);
    const absl::Status status = kernel_->Compute(&context);
    COX_CHECK(status.ok(), status.message());
  }

  std::unique_ptr<graph::Kernel> kernel_;
  std::vector<Tensor> inputs_, first_inputs_;
  int outputs_;
  size_t runs_ = 0;
  std::unique_ptr<env::ComputePool> pool_;
};

Tensor Floats(Shape shape, std::mt19937_64* random) {
  Tensor t(DType::kF32, std::move(shape));
  std::uniform_real_distribution<float> values(-1, 1);
  for (int64_t i = 0; i < t.num_elements(); ++i) t.mutable_data<float>()[i] = values(*random);
  return t;
}

template <typename T>
Tensor Ids(int64_t n, int64_t bound, std::mt19937_64* random) {
  Tensor t(DTypeOf<T>::value, Shape{n});
  for (int64_t i = 0; i < n; ++i) {
    t.mutable_data<T>()[i] = static_cast<T>((*random)() % static_cast<uint64_t>(bound));
  }
  return t;
}

// Few of the ids have most of the places: rank r has a share of about 1 / r.
Tensor SkewedIds(int64_t n, int64_t bound, std::mt19937_64* random) {
  Tensor t(DType::kI64, Shape{n});
  std::uniform_real_distribution<double> exponent(0, std::log(static_cast<double>(bound)));
  for (int64_t i = 0; i < n; ++i) {
    const auto rank = static_cast<uint64_t>(std::exp(exponent(*random))) - 1;
    t.mutable_data<int64_t>()[i] =
        static_cast<int64_t>(rank * 0x9E3779B97F4A7C15u % static_cast<uint64_t>(bound));
  }
  return t;
}

// Offsets of bags of `size` entries each.
Tensor Offsets(int64_t bags, int64_t size) {
  Tensor t(DType::kI32, Shape{bags + 1});
  for (int64_t b = 0; b <= bags; ++b) t.mutable_data<int32_t>()[b] = static_cast<int32_t>(b * size);
  return t;
}

void BenchProducts(const graph::OpRegistry& registry, std::mt19937_64* random,
                   std::vector<Result>* out) {
  const int64_t m = 512, n = 1024, k = 64;
  for (const bool ta : {false, true}) {
    for (const bool tb : {false, true}) {
      Bench bench(registry, "MatMul", {{"transpose_a", ta}, {"transpose_b", tb}},
                  {Floats(ta ? Shape{k, m} : Shape{m, k}, random),
                   Floats(tb ? Shape{n, k} : Shape{k, n}, random)},
                  1);
      out->push_back({std::string("MatMul 512x1024x64 ") + (ta ? "A'" : "A") + (tb ? "B'" : "B"),
                      2.0 * m * n * k / bench.Seconds(), "GFLOP", 1e9, 30});
    }
  }
  Bench weights(registry, "MatMul", {{"transpose_a", true}},
                {Floats({m, n}, random), Floats({m, k}, random)}, 1);
  out->push_back({"MatMul 1024x64x512 A'B", 2.0 * m * n * k / weights.Seconds(), "GFLOP", 1e9, 30});
  Bench dense(registry, "FusedDense", {{"activation", "relu"}},
              {Floats({m, 256}, random), Floats({256, 256}, random), Floats({256}, random)}, 1);
  out->push_back(
      {"FusedDense 512x256x256 relu", 2.0 * m * 256 * 256 / dense.Seconds(), "GFLOP", 1e9, 30});
  Bench batched(registry, "BatchMatMul", {{"transpose_b", true}},
                {Floats({512, 27, 64}, random), Floats({512, 27, 64}, random)}, 1);
  out->push_back({"BatchMatMul 512 of 27x27x64", 2.0 * 512 * 27 * 27 * 64 / batched.Seconds(),
                  "GFLOP", 1e9, 15});
  // DLRM's interaction; counted are the products that are wanted, and in the gradient two for each.
  std::vector<Tensor> vectors;
  for (int i = 0; i < 27; ++i) vectors.push_back(Floats({512, 64}, random));
  Bench pairs(registry, "PairwiseDots", {}, vectors, 1);
  const double pair_flops = 2.0 * 512 * 351 * 64;
  out->push_back({"PairwiseDots 512 of 27x64", pair_flops / pairs.Seconds(), "GFLOP", 1e9, 15});
  vectors.insert(vectors.begin(), Floats({512, 351}, random));
  Bench pairs_grad(registry, "PairwiseDotsGrad", {}, vectors, 27);
  out->push_back(
      {"PairwiseDotsGrad 512 of 27x64", 2 * pair_flops / pairs_grad.Seconds(), "GFLOP", 1e9, 15});
  Bench small(registry, "MatMul", {}, {Floats({4, 4}, random), Floats({4, 4}, random)}, 1);
  out->push_back({"MatMul 4x4x4, calls", 1 / small.Seconds(), "M", 1e6, 0.3});
}

void BenchEmbedding(const graph::OpRegistry& registry, std::mt19937_64* random,
                    std::vector<Result>* out) {
  for (const int64_t rows : {int64_t{10000}, int64_t{100000000}}) {
    for (const auto& [shards, strategy] : std::vector<std::pair<int64_t, std::string>>{
             {1, "div"}, {4, "div"}, {4, "mod"}, {4, "hash"}}) {
      const int64_t n = 26 * 512;
      std::vector<Tensor> batches;
      for (int i = 0; i < 16; ++i) batches.push_back(SkewedIds(n, rows, random));
      Bench unique(registry, "UniqueShards",
                   {{"shards", shards}, {"rows", rows}, {"strategy", strategy}}, {batches[0]},
                   static_cast<int>(shards) + 1);
      unique.Rotate(batches);
      out->push_back({"UniqueShards 13312 of " + std::to_string(rows) + ", " +
                          std::to_string(shards) + " shards by " + strategy,
                      static_cast<double>(n) / unique.Seconds(), "M ids", 1e6, 25});
    }
  }
  const int64_t n = 20 * 512, rows = 8192, width = 64;
  const Tensor inverse = Ids<int32_t>(n, rows, random), offsets = Offsets(512, 20);
  const Attrs mean = {{"combiner", "mean"}};
  Bench bag(registry, "EmbeddingBag", mean, {Floats({rows, width}, random), inverse, offsets}, 1);
  out->push_back({"EmbeddingBag 512x20, width 64", n / bag.Seconds(), "M rows", 1e6, 30});
  Bench grad(registry, "EmbeddingBagGrad", mean,
             {Floats({512, width}, random), Floats({rows, width}, random), inverse, offsets}, 1);
  out->push_back({"EmbeddingBagGrad 512x20, width 64", n / grad.Seconds(), "M rows", 1e6, 20});
}

void BenchLosses(const graph::OpRegistry& registry, std::mt19937_64* random,
                 std::vector<Result>* out) {
  const int64_t b = 512, n = 1024;
  const Tensor logits = Floats({b, n}, random);
  Bench sampled(
      registry, "SampledSoftmaxCrossEntropy", {{"negative_offset", 2.0}},
      {Floats({b}, random), logits, Ids<int64_t>(b, 9724, random), Ids<int64_t>(n, 9724, random)},
      3);
  out->push_back({"SampledSoftmaxCrossEntropy 512x1024", b * n / sampled.Seconds(), "M", 1e6, 250});
  Bench sparse(registry, "SparseSoftmaxCrossEntropy", {}, {logits, Ids<int64_t>(b, n, random)}, 2);
  out->push_back({"SparseSoftmaxCrossEntropy 512x1024", b * n / sparse.Seconds(), "M", 1e6, 250});
  Bench softmax(registry, "Softmax", {}, {logits}, 1);
  out->push_back({"Softmax 512x1024", b * n / softmax.Seconds(), "M", 1e6, 250});
  Bench sigmoid(registry, "SigmoidCrossEntropy", {}, {logits, Floats({b, n}, random)}, 1);
  out->push_back({"SigmoidCrossEntropy 512x1024", b * n / sigmoid.Seconds(), "M", 1e6, 100});
  Bench rank(registry, "MaskedRank", {},
             {logits, Ids<int64_t>(b, n, random), Ids<int64_t>(b * 20, n, random), Offsets(b, 20)},
             1);
  out->push_back({"MaskedRank 512x1024, 20 excluded", b * n / rank.Seconds(), "M", 1e6, 1000});
}

int Main() {
  graph::OpRegistry registry;
  kernels::RegisterAllOps(&registry);
  std::mt19937_64 random(1);
  std::vector<Result> results;
  BenchProducts(registry, &random, &results);
  BenchEmbedding(registry, &random, &results);
  BenchLosses(registry, &random, &results);
  bool passed = true;
  std::printf("%-44s %12s %9s\n", "kernel", "rate", "floor");
  for (const Result& r : results) {
    const bool slow = r.rate / r.scale < r.floor;
    passed = passed && !slow;
    std::printf("%-44s %12.1f %9.1f %s/s%s\n", r.name.c_str(), r.rate / r.scale, r.floor,
                r.unit.c_str(), slow ? "  BELOW THE FLOOR" : "");
  }
  return passed ? 0 : 1;
}

}  // namespace
}  // namespace coxswain

int main() { return coxswain::Main(); }
