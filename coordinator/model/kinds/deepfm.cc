// DeepFM (Guo et al., 2017): a linear part, the sum of the products of all pairs of vectors, and
// layers on the same vectors. A number's vector is one of its own times the number.
#include "coordinator/job/model_features.h"
#include "coordinator/model/kinds/kind_list.h"
#include "coordinator/model/kinds/own_names.h"
#include "coordinator/model/kinds/product_features.h"
#include "coordinator/model/kinds/shared_keys.h"
#include "coordinator/model/labelled_model.h"
#include "coordinator/model/model_parts.h"
#include "runtime/base/status.h"

namespace coxswain::model {
namespace {

struct DeepFmOptions {
  int64_t dim = 0;
  std::vector<std::string> features;
  std::vector<int64_t> hidden;
  LayerStyle style;
};

constexpr auto kKeys =
    job::KeyList(VectorDimKey<&DeepFmOptions::dim>(), FeaturesKey<&DeepFmOptions::features>(),
                 HiddenKey<&DeepFmOptions::hidden>(), StyleKeys<&DeepFmOptions::style>());

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
    return EmbeddingAndLinearTables(options.features);
  }

  job::InputsByVariable Inputs(const job::JobSpec& job) const override {
    return {{kNumberVectors, NumberVectorInputs(job, options.features)},
            {KernelName("deep"), {FieldParts(job, options.features, options.dim), {}}}};
  }

  absl::Status CreateVariables(ModelParts* parts) const override {
    RETURN_IF_ERROR(CreateNumberVectors(parts, options.features, options.dim));
    RETURN_IF_ERROR(
        parts->CreateLayers("deep", count() * options.dim, options.hidden, 1, options.style));
    return parts->CreateLinear(options.features);
  }

  Output Logits(FunctionBuilder& f, const ModelParts& parts) const override {
    const Output joined = FieldVectors(f, parts, options.features, options.dim);
    const Output pairs = PairProducts(f, f.Reshape(joined, {-1, count(), options.dim}));
    const Output deep =
        f.Reshape(parts.Layers(f, "deep", joined, options.hidden.size(), options.style), {-1});
    return f.Add(f.Add(parts.Linear(f, options.features), pairs), deep);
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
