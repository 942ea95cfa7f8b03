// DeepFM (Guo et al., 2017): a linear part, the sum of the products of all pairs of vectors, and
// layers on the same vectors. A number's vector is one of its own times the number.
#include "coordinator/job/model_features.h"
#include "coordinator/job/size_limits.h"
#include "coordinator/model/kinds/kind_list.h"
#include "coordinator/model/kinds/own_names.h"
#include "coordinator/model/kinds/product_features.h"
#include "coordinator/model/kinds/shared_keys.h"
#include "coordinator/model/labelled_model.h"
#include "coordinator/model/model_parts.h"
#include "coxswain/optimizers.h"
#include "runtime/base/status.h"

namespace coxswain::model {
namespace {

constexpr char kNumberVectors[] = "numbers/vectors";

struct DeepFmOptions {
  int64_t dim = 0;
  std::vector<std::string> features;
  std::vector<int64_t> hidden;
  LayerStyle style;
};

constexpr auto kKeys = job::KeyList(
    job::Key<&DeepFmOptions::dim>(
        "dim", "16",
        "dimension of all embeddings, and of the vector that each number is multiplied by")
        .Min(1)
        .Max(job::kMostWidth),
    FeaturesKey<&DeepFmOptions::features>(), HiddenKey<&DeepFmOptions::hidden>(),
    StyleKeys<&DeepFmOptions::style>());

class DeepFm : public LabelledModel {
 public:
  DeepFmOptions options;

  std::string Options() const override { return job::ShowKeys(kKeys, options); }

  void Complete(const job::JobReader& reader) override {
    CheckNorms(reader, options.style);
    CompleteProductFeatures(reader, options.dim, /*numbers_are_one=*/false, &options.features);
    CheckLinearNames(reader, options.features);
  }

  std::vector<job::TableUse> Tables() const override {
    std::vector<job::TableUse> tables = EmbeddingTables(options.features);
    for (const std::string& name : options.features) {
      tables.push_back({name, job::TableSpec::Role::kLinear});
    }
    return tables;
  }

  job::InputsByVariable Inputs(const job::JobSpec& job) const override {
    const std::vector<job::VariablePart> numbers = job::NumbersSideBySide(job, options.features);
    std::vector<job::VariablePart> vectors;
    for (const std::string& name : options.features) {
      if (!job::IsNumeric(job, name)) vectors.push_back({{name}, "", options.dim});
    }
    for (const job::VariablePart& number : numbers) {
      vectors.push_back({number.of, "times its vector", options.dim});
    }
    return {{kNumberVectors, {numbers, {}}}, {KernelName("deep"), {std::move(vectors), {}}}};
  }

  absl::Status CreateVariables(ModelParts* parts) const override {
    const auto numbers = static_cast<int64_t>(parts->NumericNames(options.features).size());
    if (numbers > 0) {
      RETURN_IF_ERROR(
          parts->CreateDense(kNumberVectors, {numbers, options.dim},
                             NormalInit(job::kEmbeddingStddev, parts->job().train.seed)));
    }
    RETURN_IF_ERROR(
        parts->CreateLayers("deep", count() * options.dim, options.hidden, 1, options.style));
    return parts->CreateLinear(options.features);
  }

  Output Logits(FunctionBuilder& f, const ModelParts& parts) const override {
    const int64_t dim = options.dim;
    std::vector<Output> vectors = parts.Vectors(f, options.features);
    const Output numbers = parts.Numbers(f, options.features);
    if (numbers.valid()) {
      const int64_t n = count() - static_cast<int64_t>(vectors.size());
      const Output scaled =
          f.Mul(f.Reshape(numbers, {-1, n, 1}), parts.DenseValue(f, kNumberVectors));
      vectors.push_back(f.Reshape(scaled, {-1, n * dim}));
    }
    const Output joined = vectors.size() == 1 ? vectors[0] : f.Concat(vectors, 1);
    // sum_{i<j} v_i v_j = ((sum_i v_i)^2 - sum_i v_i^2) / 2
    const Output apart = f.Reshape(joined, {-1, count(), dim});
    const Output squares = f.Sub(f.Square(f.Sum(apart, {1})), f.Sum(f.Square(apart), {1}));
    const Output second = f.Mul(f.Sum(squares, {1}), f.Scalar(0.5f));
    const Output deep =
        f.Reshape(parts.Layers(f, "deep", joined, options.hidden.size(), options.style), {-1});
    return f.Add(f.Add(parts.Linear(f, options.features), second), deep);
  }

 private:
  int64_t count() const { return static_cast<int64_t>(options.features.size()); }
};

}  // namespace

const job::ModelKind& DeepFmKind() {
  static constexpr job::ModelKind kKind = {
      .name = "deepfm",
      .score =
          "sum of a linear part, the dot products of all pairs of vectors, and hidden layers on "
          "the same vectors; each number has a vector, which is multiplied by the number (Guo et "
          "al., 2017)",
      .says = job::kChanceNumberOrOrder,
      .keys = kKeys,
      .read = job::ReadModelKeys<DeepFm, kKeys>};
  return kKind;
}

}  // namespace coxswain::model
