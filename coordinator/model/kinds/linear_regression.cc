// Linear regression: the sum of a weight for each value, and of weight times number, as a number.
#include "coordinator/job/model_features.h"
#include "coordinator/model/kinds/kind_list.h"
#include "coordinator/model/kinds/own_names.h"
#include "coordinator/model/kinds/shared_keys.h"
#include "coordinator/model/labelled_model.h"
#include "coordinator/model/model_parts.h"

namespace coxswain::model {
namespace {

struct LinearRegressionOptions {
  std::vector<std::string> features;
};

constexpr job::SchemaKey kKeys[] = {
    FeaturesKey<&LinearRegressionOptions::features>(),
};

class LinearRegression : public LabelledModel {
 public:
  LinearRegressionOptions options;

  std::string Options() const override { return job::ShowKeys(kKeys, options); }

  void Complete(const job::JobReader& reader) override {
    job::CompleteFeatures(reader, "model", &options.features);
    CheckLinearNames(reader, options.features);
  }

  std::vector<job::TableUse> Tables() const override {
    std::vector<job::TableUse> tables;
    for (const std::string& name : options.features) {
      tables.push_back({name, job::TableSpec::Role::kLinear});
    }
    return tables;
  }

  absl::Status CreateVariables(ModelParts* parts) const override {
    return parts->CreateLinear(options.features);
  }

  Output Logits(FunctionBuilder& f, const ModelParts& parts) const override {
    return parts.Linear(f, options.features);
  }
};

}  // namespace

const job::ModelKind& LinearRegressionKind() {
  static constexpr job::PredictionKind kSays[] = {job::PredictionKind::kNumber,
                                                  job::PredictionKind::kOrder};
  static constexpr job::ModelKind kKind = {.name = "linear_regression",
                                           .score = "a linear part, as a number",
                                           .says = kSays,
                                           .keys = kKeys,
                                           .read = job::ReadModelKeys<LinearRegression, kKeys>};
  return kKind;
}

}  // namespace coxswain::model
