// score = relu([u, v, u * v] W + b) w + c, with vectors u and v of the user and the item.
#include "tests/bench/convergence/click_model.h"

#include <algorithm>

#include "coxswain/function_builder.h"
#include "coxswain/optimizers.h"
#include "runtime/graph/builder.h"
#include "tests/sim/workload_parts.h"

namespace coxswain {
namespace {

constexpr int64_t kDim = 8, kHidden = 16, kPs = 2;

// A row is in few examples of a batch, and the loss is the mean over all of them.
constexpr double kRowRate = 10;

// The order of the shards.
enum Part : size_t { kUserRows, kItemRows, kMatrix, kBias, kWeights, kOffset };

}  // namespace

ClickModel::ClickModel(double learning_rate, uint64_t seed) {
  const OptimizerSpec sgd = Sgd{.learning_rate = learning_rate};
  const OptimizerSpec of_rows = Sgd{.learning_rate = kRowRate * learning_rate};
  uint32_t last_id = 0;
  const auto add = [&](const char* name, Shape shape, bool table, proto::InitializerSpec initial) {
    variables_.push_back(sim::NewVariable({.name = name,
                                           .shape = std::move(shape),
                                           .table = table,
                                           .optimizer = table ? of_rows : sgd,
                                           .initializer = std::move(initial)},
                                          &last_id));
  };
  add("users", {PlantedClicks::kUsers, kDim}, true, NormalInit(0.3, seed));
  add("items", {PlantedClicks::kItems, kDim}, true, NormalInit(0.3, seed + 1));
  add("matrix", {3 * kDim, kHidden}, false, GlorotUniform(seed));
  add("bias", {kHidden}, false, Zeros());
  add("weights", {kHidden, 1}, false, GlorotUniform(seed));
  add("offset", {1}, false, Zeros());
  shards_ = sim::Spread(variables_, kPs);

  FunctionBuilder f("clicks", sim::SimRegistry());
  const Output u = f.Lookup(EmbeddingTable(variables_[kUserRows]),
                            f.Argument("users", DType::kI64, Shape{kUnknownDim}));
  const Output v = f.Lookup(EmbeddingTable(variables_[kItemRows]),
                            f.Argument("items", DType::kI64, Shape{kUnknownDim}));
  const auto read = [&](size_t at) { return f.Read(Variable(variables_[at])); };
  const Output hidden =
      f.Dense(f.Concat({u, v, f.Mul(u, v)}, 1), read(kMatrix), read(kBias), DenseActivation::kRelu);
  const Output score = f.Reshape(f.Dense(hidden, read(kWeights), read(kOffset)), {-1});
  const Output label = f.Argument("labels", DType::kF32, Shape{kUnknownDim});
  const Output loss = f.Mean(f.SigmoidCrossEntropy(score, label));
  f.Minimize(loss);
  f.Result("loss", loss);
  step_ = std::make_shared<const graph::Function>(sim::Must(f.graph().Finish()));
}

std::vector<Tensor> ClickModel::Arguments(const Clicks& batch) {
  return {Tensor::FromVector(batch.users), Tensor::FromVector(batch.items),
          Tensor::FromVector(batch.labels)};
}

namespace {

// Of each row: its product with `rows` of the matrix from `from` on.
std::vector<float> Products(const Tensor& table, const float* matrix, int64_t from) {
  std::vector<float> products(static_cast<size_t>(table.dim(0) * kHidden));
  for (int64_t r = 0; r < table.dim(0); ++r) {
    for (int64_t d = 0; d < kDim; ++d) {
      const float value = table.data<float>()[r * kDim + d];
      for (int64_t h = 0; h < kHidden; ++h) {
        products[static_cast<size_t>(r * kHidden + h)] += value * matrix[(from + d) * kHidden + h];
      }
    }
  }
  return products;
}

}  // namespace

std::vector<double> ClickModel::Scores(const std::vector<Tensor>& rows, const Clicks& examples) {
  const float* const matrix = rows[kMatrix].data<float>();
  const std::vector<float> of_users = Products(rows[kUserRows], matrix, 0);
  const std::vector<float> of_items = Products(rows[kItemRows], matrix, kDim);
  std::vector<double> scores;
  for (size_t e = 0; e < examples.labels.size(); ++e) {
    const int64_t user = examples.users[e], item = examples.items[e];
    float hidden[kHidden];
    for (int64_t h = 0; h < kHidden; ++h) {
      hidden[h] = rows[kBias].data<float>()[h] + of_users[static_cast<size_t>(user * kHidden + h)] +
                  of_items[static_cast<size_t>(item * kHidden + h)];
    }
    for (int64_t d = 0; d < kDim; ++d) {
      const float product = rows[kUserRows].data<float>()[user * kDim + d] *
                            rows[kItemRows].data<float>()[item * kDim + d];
      for (int64_t h = 0; h < kHidden; ++h) {
        hidden[h] += product * matrix[(2 * kDim + d) * kHidden + h];
      }
    }
    double score = rows[kOffset].data<float>()[0];
    for (int64_t h = 0; h < kHidden; ++h) {
      score += std::max(hidden[h], 0.0f) * rows[kWeights].data<float>()[h];
    }
    scores.push_back(score);
  }
  return scores;
}

}  // namespace coxswain
