// A multi-layer perceptron: hidden layers on all features, side by side.
#include "coordinator/model/kinds/kind_list.h"
#include "coordinator/model/kinds/shared_keys.h"
#include "coordinator/model/labelled_model.h"
#include "coordinator/model/model_parts.h"
#include "runtime/base/status.h"

namespace coxswain::model {
namespace {

struct MlpOptions {
  std::vector<std::string> features;
  std::vector<int64_t> hidden;
  LayerStyle style;
  int64_t classes = 1;
};

constexpr auto kKeys =
    job::KeyList(FeaturesKey<&MlpOptions::features>(), HiddenKey<&MlpOptions::hidden>(),
                 StyleKeys<&MlpOptions::style>(), ClassesKey<&MlpOptions::classes>());

class Mlp : public LabelledModel {
 public:
  MlpOptions options;

  std::string Options() const override { return job::ShowKeys(kKeys, options); }
  int64_t classes() const override { return options.classes; }

  void Complete(const job::JobReader& reader) override {
    CheckNorms(reader, options.style);
    CompleteSideBySide(reader, &options.features);
  }

  std::vector<job::TableUse> Tables() const override { return EmbeddingTables(options.features); }

  job::InputsByVariable Inputs(const job::JobSpec& job) const override {
    job::InputsByVariable inputs;
    inputs[KernelName("deep")].rows = job::SideBySide(job, options.features);
    if (options.classes > 1) {
      const size_t last = options.hidden.size();
      for (const std::string& name : {KernelName("deep", last), BiasName("deep", last)}) {
        inputs[name].classes = true;
      }
    }
    return inputs;
  }

  absl::Status CreateVariables(ModelParts* parts) const override {
    const int64_t inputs = parts->InputWidth(options.features);
    if (options.classes <= 1) {
      return parts->CreateScore("deep", inputs, options.hidden, options.style);
    }
    return parts->CreateLayers("deep", inputs, options.hidden, options.classes, options.style);
  }

  Output Logits(FunctionBuilder& f, const ModelParts& parts) const override {
    const Output logits = parts.Layers(f, "deep", parts.SideBySide(f, options.features),
                                       options.hidden.size(), options.style);
    return options.classes > 1 ? logits : f.Reshape(logits, {-1});
  }
};

}  // namespace

const job::ModelKind& MlpKind() {
  static constexpr job::PredictionKind kClassChances[] = {job::PredictionKind::kClasses};
  static constexpr job::ModelKind kKind = {.name = "mlp",
                                           .score = "hidden layers",
                                           .says = job::kChanceNumberOrOrder,
                                           .says_of_classes = kClassChances,
                                           .keys = kKeys,
                                           .read = job::ReadModelKeys<Mlp, kKeys>};
  return kKind;
}

}  // namespace coxswain::model
