// DLRM (Naumov et al., 2019): layers make one vector of all numbers; beside it stand the products
// of all pairs of vectors, its own and the embeddings', and layers on them make the score.
#include <algorithm>

#include "coordinator/job/model_features.h"
#include "coordinator/job/size_limits.h"
#include "coordinator/model/kinds/kind_list.h"
#include "coordinator/model/kinds/product_features.h"
#include "coordinator/model/kinds/shared_keys.h"
#include "coordinator/model/labelled_model.h"
#include "coordinator/model/model_parts.h"
#include "runtime/base/status.h"

namespace coxswain::model {
namespace {

struct DlrmOptions {
  int64_t dim = 0;
  std::vector<std::string> features;
  std::vector<int64_t> bottom, top;
  LayerStyle style;
};

constexpr auto kKeys = job::KeyList(
    job::Key<&DlrmOptions::dim>("dim", "16",
                                "dimension of all embeddings, and of the vector that the bottom "
                                "layers compute from the numeric features")
        .Min(1)
        .Max(job::kMostWidth),
    FeaturesKey<&DlrmOptions::features>(),
    job::Key<&DlrmOptions::bottom>(
        "bottom", "[512, 256]",
        "widths of the hidden layers on the numeric features; a layer of width `dim` follows")
        .Min(1)
        .Max(job::kMostWidth),
    job::Key<&DlrmOptions::top>(
        "top", "[512, 256]",
        "widths of the hidden layers on the dot products of all pairs of vectors")
        .Min(1)
        .Max(job::kMostWidth),
    StyleKeys<&DlrmOptions::style>());

class Dlrm : public LabelledModel {
 public:
  DlrmOptions options;

  std::string Options() const override { return job::ShowKeys(kKeys, options); }

  void Complete(const job::JobReader& reader) override {
    CheckNorms(reader, options.style);
    CompleteProductFeatures(reader, options.dim, /*numbers_are_one=*/true, &options.features);
  }

  std::vector<job::TableUse> Tables() const override { return EmbeddingTables(options.features); }

  job::InputsByVariable Inputs(const job::JobSpec& job) const override {
    job::InputsByVariable inputs;
    const std::vector<job::VariablePart> numbers = job::NumbersSideBySide(job, options.features);
    // As PairwiseDots has them; what is made of the numbers is a vector without a feature.
    std::vector<job::VariablePart> products;
    std::vector<std::vector<std::string>> vectors;
    if (!numbers.empty()) {
      inputs[KernelName("bottom")] = {numbers, {}};
      products.push_back({{}, "what is made of the numbers", options.dim});
      vectors.emplace_back();
    }
    for (const std::string& name : options.features) {
      if (job::IsNumeric(job, name)) continue;
      for (const std::vector<std::string>& other : vectors) {
        std::vector<std::string> both = other;
        both.push_back(name);
        products.push_back({std::move(both), "product", 1});
      }
      vectors.push_back({name});
    }
    inputs[KernelName("top")] = {std::move(products), {}};
    return inputs;
  }

  absl::Status CreateVariables(ModelParts* parts) const override {
    const auto numbers = static_cast<int64_t>(parts->NumericNames(options.features).size());
    int64_t vectors = static_cast<int64_t>(options.features.size()) - numbers, width = 0;
    if (numbers > 0) {
      RETURN_IF_ERROR(parts->CreateLayers("bottom", parts->NumbersWidth(options.features),
                                          options.bottom, options.dim, options.style));
      width = options.dim;
      ++vectors;
    }
    return parts->CreateScore("top", width + vectors * (vectors - 1) / 2, options.top,
                              options.style);
  }

  Output Logits(FunctionBuilder& f, const ModelParts& parts) const override {
    std::vector<Output> vectors = parts.Vectors(f, options.features);
    const Output numbers = parts.Numbers(f, options.features);
    if (numbers.valid()) {
      vectors.insert(vectors.begin(), parts.Layers(f, "bottom", numbers, options.bottom.size(),
                                                   options.style, /*last_active=*/true));
    }
    const Output products = f.Op("PairwiseDots", vectors, {{"with_first", numbers.valid()}});
    return f.Reshape(parts.Layers(f, "top", products, options.top.size(), options.style), {-1});
  }
};

}  // namespace

const job::ModelKind& DlrmKind() {
  static constexpr job::ModelKind kKind = {
      .name = "dlrm",
      .score =
          "hidden layers on the dot products of all pairs of embeddings, with one more vector that "
          "bottom layers compute from all numbers (Naumov et al., 2019)",
      .says = job::kChanceNumberOrOrder,
      .keys = kKeys,
      .read = job::ReadModelKeys<Dlrm, kKeys>};
  return kKind;
}

}  // namespace coxswain::model
