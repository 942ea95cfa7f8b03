// Wide and deep (Cheng et al., 2016): a linear part, and one with hidden layers.
#include "coordinator/job/model_features.h"
#include "coordinator/job/size_limits.h"
#include "coordinator/model/kinds/kind_list.h"
#include "coordinator/model/kinds/own_names.h"
#include "coordinator/model/kinds/shared_keys.h"
#include "coordinator/model/labelled_model.h"
#include "coordinator/model/model_parts.h"
#include "runtime/base/status.h"

namespace coxswain::model {
namespace {

struct WideOptions {
  std::vector<std::string> features;
};
struct DeepOptions {
  std::vector<std::string> features;
  std::vector<int64_t> hidden;
};
struct WideDeepOptions {
  WideOptions wide;
  DeepOptions deep;
  LayerStyle style;
};

constexpr job::SchemaKey kWideKeys[] = {
    job::Key<&WideOptions::features>("features", "=all features",
                                     "the input features of the linear part"),
};
constexpr job::SchemaSection kWide = {"model.wide", "", kWideKeys};

constexpr job::SchemaKey kDeepKeys[] = {
    job::Key<&DeepOptions::features>(
        "features", "=all features",
        "the input features of the hidden layers, as embeddings and numbers, concatenated"),
    job::Key<&DeepOptions::hidden>("hidden", "[128, 64]", "widths of the hidden layers")
        .Min(1)
        .Max(job::kMostWidth),
};
constexpr job::SchemaSection kDeep = {"model.deep", "", kDeepKeys};

constexpr auto kKeys = job::KeyList(
    job::Key<&WideDeepOptions::wide>("wide", "{}", "the linear part").Of(&kWide),
    job::Key<&WideDeepOptions::deep>("deep", "{}", "the deep part, with hidden layers").Of(&kDeep),
    StyleKeys<&WideDeepOptions::style>());

class WideDeep : public LabelledModel {
 public:
  WideDeepOptions options;

  std::string Options() const override { return job::ShowKeys(kKeys, options); }

  void Complete(const job::JobReader& reader) override {
    CheckNorms(reader, options.style);
    job::CompleteFeatures(reader, "model.wide", &options.wide.features);
    CheckLinearNames(reader, options.wide.features);
    job::CompleteFeatures(reader, "model.deep", &options.deep.features);
    for (const std::string& name : options.deep.features) job::SetDefaultDim(reader, name);
  }

  std::vector<job::TableUse> Tables() const override {
    std::vector<job::TableUse> tables = EmbeddingTables(options.deep.features);
    for (const std::string& name : options.wide.features) {
      tables.push_back({name, job::TableSpec::Role::kLinear});
    }
    return tables;
  }

  job::InputsByVariable Inputs(const job::JobSpec& job) const override {
    return {{KernelName("deep"), {job::SideBySide(job, options.deep.features), {}}}};
  }

  absl::Status CreateVariables(ModelParts* parts) const override {
    RETURN_IF_ERROR(parts->CreateLayers("deep", parts->InputWidth(options.deep.features),
                                        options.deep.hidden, 1, options.style));
    return parts->CreateLinear(options.wide.features);
  }

  Output Logits(FunctionBuilder& f, const ModelParts& parts) const override {
    const Output deep = parts.Layers(f, "deep", parts.SideBySide(f, options.deep.features),
                                     options.deep.hidden.size(), options.style);
    return f.Add(f.Reshape(deep, {-1}), parts.Linear(f, options.wide.features));
  }
};

}  // namespace

const job::ModelKind& WideDeepKind() {
  static constexpr job::ModelKind kKind = {
      .name = "wide_deep",
      .score = "sum of a linear part and a part with hidden layers",
      .says = job::kChanceNumberOrOrder,
      .keys = kKeys,
      .read = job::ReadModelKeys<WideDeep, kKeys>};
  return kKind;
}

}  // namespace coxswain::model
