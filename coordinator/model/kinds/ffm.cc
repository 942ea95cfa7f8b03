// Field-aware factorization machine (Juan et al., 2016): as fm, but each feature has a vector for
// each feature that it meets; they are side by side in its table's rows. A number's vectors are its
// own times the number.
#include <algorithm>

#include "absl/strings/str_cat.h"
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

struct FfmOptions {
  int64_t dim = 0;
  std::vector<std::string> features;
};

constexpr job::SchemaKey kKeys[] = {
    job::Key<&FfmOptions::dim>("dim", "4",
                               "dimension of the vector that each feature has for each feature: a "
                               "table's rows have this many numbers times the number of features")
        .Min(1)
        .Max(1024),
    FeaturesKey<&FfmOptions::features>()};

class Ffm : public LabelledModel {
 public:
  FfmOptions options;

  std::string Options() const override { return job::ShowKeys(kKeys, options); }

  void Complete(const job::JobReader& reader) override {
    job::CompleteFeatures(reader, "model", &options.features);
    // What a row has for each feature lies in their order, whatever the job's list has.
    std::sort(options.features.begin(), options.features.end());
    CheckProductFeatures(reader, width(), nullptr, /*numbers_are_one=*/false, options.features);
    CheckLinearNames(reader, options.features);
    for (const std::string& name : options.features) {
      const proto::FeatureSpec* const feature = reader.job->FindFeature(name);
      if (feature == nullptr || job::IsNumeric(*reader.job, name)) continue;
      if (feature->dim() == width()) continue;
      reader.Error(absl::StrCat("features.", name, ".dim"),
                   absl::StrCat("a feature has a vector of model.dim for each of ", count(),
                                ": wanted ", width(), ", or nothing, found ", feature->dim()));
    }
  }

  std::vector<job::TableUse> Tables() const override {
    return EmbeddingAndLinearTables(options.features);
  }

  job::InputsByVariable Inputs(const job::JobSpec& job) const override {
    const std::vector<job::VariablePart> partners = FieldParts(job, options.features, options.dim);
    job::InputsByVariable inputs;
    inputs[kNumberVectors] = {job::NumbersSideBySide(job, options.features), partners};
    for (const std::string& name : options.features) {
      if (!job::IsNumeric(job, name)) inputs[name] = {{}, partners};
    }
    return inputs;
  }

  absl::Status CreateVariables(ModelParts* parts) const override {
    RETURN_IF_ERROR(CreateNumberVectors(parts, options.features, width()));
    return parts->CreateLinear(options.features);
  }

  // sum_{i<j} v_{i,j} v_{j,i}, where v_{i,j} is what feature i has for j. They lie in the order of
  // FieldVectors on both sides.
  Output Logits(FunctionBuilder& f, const ModelParts& parts) const override {
    const Output joined = FieldVectors(f, parts, options.features, width());
    const Output apart = f.Reshape(joined, {-1, count(), count(), options.dim});
    const Output products = f.Mul(apart, f.Transpose(apart, {0, 2, 1, 3}));
    const Output pairs = f.Sum(f.Mul(f.Sum(products, {3}), f.Constant(Below())), {1, 2});
    return f.Add(parts.Linear(f, options.features), pairs);
  }

 private:
  int64_t count() const { return static_cast<int64_t>(options.features.size()); }
  int64_t width() const { return count() * options.dim; }
  // 1 for i > j: each pair once, and no feature with itself.
  Tensor Below() const {
    Tensor below(DType::kF32, Shape{count(), count()});
    float* const at = below.mutable_data<float>();
    for (int64_t i = 0; i < count(); ++i) {
      for (int64_t j = 0; j < count(); ++j) at[i * count() + j] = i > j ? 1 : 0;
    }
    return below;
  }
};

}  // namespace

const job::ModelKind& FfmKind() {
  static constexpr job::ModelKind kKind = {
      .name = "ffm",
      .score =
          "field-aware factorization machine: as `fm`, with a vector of each feature for each "
          "other one (Juan et al., 2016)",
      .says = job::kChanceNumberOrOrder,
      .keys = kKeys,
      .read = job::ReadModelKeys<Ffm, kKeys>};
  return kKind;
}

}  // namespace coxswain::model
