// Factorization machine (Rendle, 2010): a linear part, and the sum of the products of all pairs of
// vectors. A number's vector is one of its own times the number.
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

struct FmOptions {
  int64_t dim = 0;
  std::vector<std::string> features;
};

constexpr job::SchemaKey kKeys[] = {VectorDimKey<&FmOptions::dim>(),
                                    FeaturesKey<&FmOptions::features>()};

class Fm : public LabelledModel {
 public:
  FmOptions options;

  std::string Options() const override { return job::ShowKeys(kKeys, options); }

  void Complete(const job::JobReader& reader) override {
    CompleteProductFeatures(reader, options.dim, /*numbers_are_one=*/false, &options.features);
    CheckLinearNames(reader, options.features);
  }

  std::vector<job::TableUse> Tables() const override {
    return EmbeddingAndLinearTables(options.features);
  }

  job::InputsByVariable Inputs(const job::JobSpec& job) const override {
    return {{kNumberVectors, NumberVectorInputs(job, options.features)}};
  }

  absl::Status CreateVariables(ModelParts* parts) const override {
    RETURN_IF_ERROR(CreateNumberVectors(parts, options.features, options.dim));
    return parts->CreateLinear(options.features);
  }

  Output Logits(FunctionBuilder& f, const ModelParts& parts) const override {
    const auto count = static_cast<int64_t>(options.features.size());
    const Output joined = FieldVectors(f, parts, options.features, options.dim);
    const Output pairs = PairProducts(f, f.Reshape(joined, {-1, count, options.dim}));
    return f.Add(parts.Linear(f, options.features), pairs);
  }
};

}  // namespace

const job::ModelKind& FmKind() {
  static constexpr job::ModelKind kKind = {
      .name = "fm",
      .score =
          "factorization machine: sum of a linear part and the dot products of all pairs of "
          "vectors; each number has a vector, which is multiplied by the number (Rendle, 2010)",
      .says = job::kChanceNumberOrOrder,
      .keys = kKeys,
      .read = job::ReadModelKeys<Fm, kKeys>};
  return kKind;
}

}  // namespace coxswain::model
