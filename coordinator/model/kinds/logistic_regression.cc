// Logistic regression: the sum of a weight for each value, and of weight times number. Of several
// classes each has weights of its own (multinomial logistic regression).
#include "coordinator/job/model_features.h"
#include "coordinator/model/kinds/kind_list.h"
#include "coordinator/model/kinds/own_names.h"
#include "coordinator/model/kinds/shared_keys.h"
#include "coordinator/model/labelled_model.h"
#include "coordinator/model/model_parts.h"

namespace coxswain::model {
namespace {

struct LogisticRegressionOptions {
  std::vector<std::string> features;
  int64_t classes = 1;
};

constexpr job::SchemaKey kKeys[] = {
    FeaturesKey<&LogisticRegressionOptions::features>(),
    ClassesKey<&LogisticRegressionOptions::classes>(),
};

class LogisticRegression : public LabelledModel {
 public:
  LogisticRegressionOptions options;

  std::string Options() const override { return job::ShowKeys(kKeys, options); }
  int64_t classes() const override { return options.classes; }

  void Complete(const job::JobReader& reader) override {
    job::CompleteFeatures(reader, "model", &options.features);
    CheckLinearNames(reader, options.features);
  }

  std::vector<job::TableUse> Tables() const override {
    std::vector<job::TableUse> tables;
    for (const std::string& name : options.features) {
      tables.push_back({name, job::TableSpec::Role::kLinear, 0, options.classes});
    }
    return tables;
  }

  job::InputsByVariable Inputs(const job::JobSpec& job) const override {
    job::InputsByVariable inputs;
    if (options.classes == 1) return inputs;
    inputs[kWideBias].classes = true;
    for (const std::string& name : options.features) {
      if (job::IsNumeric(job, name)) inputs[WideName(name)].classes = true;
    }
    return inputs;
  }

  absl::Status CreateVariables(ModelParts* parts) const override {
    return parts->CreateLinear(options.features, options.classes);
  }

  Output Logits(FunctionBuilder& f, const ModelParts& parts) const override {
    return parts.Linear(f, options.features, options.classes);
  }
};

}  // namespace

const job::ModelKind& LogisticRegressionKind() {
  static constexpr job::PredictionKind kSays[] = {job::PredictionKind::kProbability};
  static constexpr job::PredictionKind kClassChances[] = {job::PredictionKind::kClasses};
  static constexpr job::ModelKind kKind = {.name = "logistic_regression",
                                           .score = "a linear part",
                                           .says = kSays,
                                           .says_of_classes = kClassChances,
                                           .keys = kKeys,
                                           .read = job::ReadModelKeys<LogisticRegression, kKeys>};
  return kKind;
}

}  // namespace coxswain::model
