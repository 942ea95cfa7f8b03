// Wide and deep (Cheng et al., 2016): a linear part, and one with hidden layers.
#include "coordinator/job/model_features.h"
#include "coordinator/model/kinds/kind_list.h"
#include "coordinator/model/kinds/shared_keys.h"
#include "coordinator/model/labelled_model.h"
#include "coordinator/model/model_parts.h"
#include "runtime/base/status.h"

namespace coxswain {
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
  Activation activation = Activation::kRelu;
};

constexpr SchemaKey kWideKeys[] = {
    Key<&WideOptions::features>("features", "=all features", "what the linear part sees"),
};
constexpr SchemaSection kWide = {"model.wide", "", kWideKeys};

constexpr SchemaKey kDeepKeys[] = {
    Key<&DeepOptions::features>("features", "=all features",
                                "what the layers see: embeddings and numbers, side by side"),
    Key<&DeepOptions::hidden>("hidden", "[128, 64]", "widths of the layers").Min(1),
};
constexpr SchemaSection kDeep = {"model.deep", "", kDeepKeys};

constexpr SchemaKey kKeys[] = {
    Key<&WideDeepOptions::wide>("wide", "{}", "the linear part").Of(&kWide),
    Key<&WideDeepOptions::deep>("deep", "{}", "the part with hidden layers").Of(&kDeep),
    ActivationKey<&WideDeepOptions::activation>(),
};

class WideDeep : public LabelledModel {
 public:
  WideDeepOptions options;

  std::string Options() const override { return ShowKeys(kKeys, options); }

  void Complete(const JobReader& reader) override {
    CompleteFeatures(reader, "model.wide", &options.wide.features);
    CompleteFeatures(reader, "model.deep", &options.deep.features);
    for (const std::string& name : options.deep.features) SetDefaultDim(reader, name);
  }

  std::vector<TableUse> Tables() const override {
    std::vector<TableUse> tables;
    for (const std::string& name : options.deep.features) {
      tables.push_back({name, TableSpec::Role::kEmbedding, kEmbeddingStddev});
    }
    for (const std::string& name : options.wide.features) {
      tables.push_back({name, TableSpec::Role::kLinear});
    }
    return tables;
  }

  absl::Status CreateVariables(ModelParts* parts) const override {
    RETURN_IF_ERROR(parts->CreateLayers("deep", parts->InputWidth(options.deep.features),
                                        options.deep.hidden, 1));
    return parts->CreateLinear(options.wide.features);
  }

  Output Logits(FunctionBuilder& f, const ModelParts& parts) const override {
    const Output deep = parts.Layers(f, "deep", parts.SideBySide(f, options.deep.features),
                                     options.deep.hidden.size(), options.activation);
    return f.Add(f.Reshape(deep, {-1}), parts.Linear(f, options.wide.features));
  }
};

}  // namespace

const ModelKind& WideDeepKind() {
  static constexpr ModelKind kKind = {.name = "wide_deep",
                                      .score = "a linear part and one with hidden layers",
                                      .says = kChanceOrNumber,
                                      .keys = kKeys,
                                      .read = ReadModelKeys<WideDeep, kKeys>};
  return kKind;
}

}  // namespace coxswain
