// Models of clicks, whose vectors meet in products of pairs: dlrm (Naumov et al., 2019) and deepfm
// (Guo et al., 2017).
#include "coxswain/optimizers.h"
#include "coordinator/model/model.h"
#include "runtime/base/status.h"

namespace coxswain {
namespace {

constexpr double kVectorStddev = 0.1;  // as of the embeddings
constexpr char kNumberVectors[] = "numbers/vectors";

}  // namespace

std::vector<std::string> Model::NumericNames() const {
  std::vector<std::string> names;
  for (const std::string& name : job_.model.deep.features) {
    if (job_.FindFeature(name)->kind() == proto::FeatureSpec::NUMERIC) names.push_back(name);
  }
  return names;
}

// [B, n], or invalid where the model sees no numbers.
Output Model::Numbers(FunctionBuilder& f) const {
  std::vector<Output> columns;
  for (const std::string& name : NumericNames()) {
    columns.push_back(f.Reshape(f.Column(name), {-1, 1}));
  }
  if (columns.empty()) return {};
  return columns.size() == 1 ? columns[0] : f.Concat(columns, 1);
}

// [B, dim] of each categorical feature.
std::vector<Output> Model::Vectors(FunctionBuilder& f) const {
  std::vector<Output> vectors;
  for (const std::string& name : job_.model.deep.features) {
    const proto::FeatureSpec& spec = *job_.FindFeature(name);
    if (spec.kind() == proto::FeatureSpec::NUMERIC) continue;
    vectors.push_back(Embed(f, name, spec, Input(f, spec)));
  }
  return vectors;
}

absl::Status Model::CreateDlrm() {
  const ModelSpec& m = job_.model;
  const int64_t numbers = static_cast<int64_t>(NumericNames().size());
  int64_t vectors = static_cast<int64_t>(m.deep.features.size()) - numbers, width = 0;
  if (numbers > 0) {
    RETURN_IF_ERROR(CreateLayers("bottom", numbers, m.bottom, m.dim));
    width = m.dim;
    ++vectors;
  }
  return CreateLayers("top", width + vectors * (vectors - 1) / 2, m.deep.hidden, 1);
}

// The numbers become one vector; beside it stand its products and those of the embeddings.
Output Model::Dlrm(FunctionBuilder& f) const {
  const ModelSpec& m = job_.model;
  std::vector<Output> vectors = Vectors(f);
  const Output numbers = Numbers(f);
  if (numbers.valid()) {
    vectors.insert(vectors.begin(), Layers(f, "bottom", numbers, m.bottom.size(), true));
  }
  const Output products = f.Op("PairwiseDots", vectors, {{"with_first", numbers.valid()}});
  return f.Reshape(Layers(f, "top", products, m.deep.hidden.size()), {-1});
}

absl::Status Model::CreateDeepFm() {
  const ModelSpec& m = job_.model;
  const int64_t numbers = static_cast<int64_t>(NumericNames().size());
  if (numbers > 0) {
    RETURN_IF_ERROR(
        CreateDense(kNumberVectors, {numbers, m.dim}, NormalInit(kVectorStddev, job_.train.seed)));
  }
  const int64_t vectors = static_cast<int64_t>(m.deep.features.size());
  return CreateLayers("deep", vectors * m.dim, m.deep.hidden, 1);
}

// A linear part, the sum of the products of all pairs of vectors, and layers on the same vectors. A
// number's vector is one of its own times the number.
Output Model::DeepFm(FunctionBuilder& f) const {
  const ModelSpec& m = job_.model;
  const int64_t count = static_cast<int64_t>(m.deep.features.size());
  std::vector<Output> vectors = Vectors(f);
  const Output numbers = Numbers(f);
  if (numbers.valid()) {
    const int64_t n = count - static_cast<int64_t>(vectors.size());
    const Output scaled = f.Mul(f.Reshape(numbers, {-1, n, 1}), DenseValue(f, kNumberVectors));
    vectors.push_back(f.Reshape(scaled, {-1, n * m.dim}));
  }
  const Output joined = vectors.size() == 1 ? vectors[0] : f.Concat(vectors, 1);
  // sum_{i<j} v_i v_j = ((sum_i v_i)^2 - sum_i v_i^2) / 2
  const Output apart = f.Reshape(joined, {-1, count, m.dim});
  const Output squares = f.Sub(f.Square(f.Sum(apart, {1})), f.Sum(f.Square(apart), {1}));
  const Output second = f.Mul(f.Sum(squares, {1}), f.Scalar(0.5f));
  const Output deep = f.Reshape(Layers(f, "deep", joined, m.deep.hidden.size()), {-1});
  return f.Add(f.Add(Linear(f, m.wide), second), deep);
}

}  // namespace coxswain
