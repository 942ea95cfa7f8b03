// Deep interest network (Zhou et al., 2018): hidden layers on all features, side by side, where the
// history is not one mean of its items' vectors v_j, but their sum weighted for the item q at hand:
//   sum_j a(v_j, q) v_j,   a: hidden layers on (v_j, q, v_j - q, v_j * q) and a last linear one
// The weights are not normalised (no softmax), as in the paper, so that their sum says how strong
// an interest is. The history's vectors are those of the item's table.
#include "absl/strings/str_cat.h"
#include "coordinator/job/model_features.h"
#include "coordinator/job/size_limits.h"
#include "coordinator/model/kinds/kind_list.h"
#include "coordinator/model/kinds/shared_keys.h"
#include "coordinator/model/labelled_model.h"
#include "coordinator/model/model_parts.h"
#include "runtime/base/status.h"

namespace coxswain::model {
namespace {

struct DinOptions {
  std::string target, history;
  std::vector<std::string> features;
  std::vector<int64_t> attention, hidden;
  LayerStyle style;
};

constexpr auto kKeys = job::KeyList(
    job::Key<&DinOptions::target>("target", nullptr,
                                  "the candidate item, a single-valued categorical feature"),
    job::Key<&DinOptions::history>(
        "history", nullptr,
        "the user's past items: a feature of kind `history` with `history_of` the target"),
    FeaturesKey<&DinOptions::features>(),
    job::Key<&DinOptions::attention>(
        "attention", "[36]",
        "widths of the hidden layers that compute the weights of the items in the history")
        .Min(1)
        .Max(job::kMostWidth),
    HiddenKey<&DinOptions::hidden>(), StyleKeys<&DinOptions::style>());

class Din : public LabelledModel {
 public:
  DinOptions options;

  std::string Options() const override { return job::ShowKeys(kKeys, options); }

  void Complete(const job::JobReader& reader) override {
    CheckNorms(reader, options.style);
    job::CheckSingle(reader, "model.target", options.target);
    const proto::FeatureSpec* history = job::CheckFeature(reader, "model.history", options.history);
    if (history != nullptr && history->history_of() != options.target) {
      reader.Error("model.history",
                   absl::StrCat("wanted a feature of kind history, of '", options.target, "'; '",
                                options.history, "' is not"));
    }
    CompleteSideBySide(reader, &options.features);
    for (const std::string& wanted : {options.target, options.history})
      job::SetDefaultDim(reader, wanted);
  }

  // The history has none of its own.
  std::vector<job::TableUse> Tables() const override {
    std::vector<std::string> features = Others();
    features.insert(features.begin(), options.target);
    return EmbeddingTables(features);
  }

  job::InputsByVariable Inputs(const job::JobSpec& job) const override {
    std::vector<job::VariablePart> inputs = job::SideBySide(job, {options.target});
    inputs.push_back({{options.history}, "weighed", inputs[0].width});
    for (job::VariablePart& other : job::SideBySide(job, Others())) {
      inputs.push_back(std::move(other));
    }
    return {{KernelName("deep"), {std::move(inputs), {}}}};
  }

  absl::Status CreateVariables(ModelParts* parts) const override {
    const int64_t dim = parts->InputWidth({options.target});
    RETURN_IF_ERROR(parts->CreateLayers("attention", 4 * dim, options.attention, 1));
    return parts->CreateScore("deep", 2 * dim + parts->InputWidth(Others()), options.hidden,
                              options.style);
  }

  Output Logits(FunctionBuilder& f, const ModelParts& parts) const override {
    const auto history = parts.Input(f, *parts.job().FindFeature(options.history));
    // A row that is the item of one example and in the history of another travels once.
    const auto rows =
        f.Lookup(parts.table(options.target), {f.Column(options.target), history.values});
    const Output item = rows[0], had = rows[1];  // [B, dim], [n, dim]
    const Output bag = f.Op("BagOf", {history.offsets, history.values});
    const Output at_hand = f.Gather(item, bag);
    const Output pairs = f.Concat({had, at_hand, f.Sub(had, at_hand), f.Mul(had, at_hand)}, 1);
    const Output weights = f.Reshape(
        parts.Layers(f, "attention", pairs, options.attention.size(), {options.style.activation}),
        {-1});
    const Output interest = f.Op("SegmentSumLike", {f.Op("ScaleRows", {had, weights}), bag, item});
    std::vector<Output> inputs = {item, interest};
    if (!Others().empty()) inputs.push_back(parts.SideBySide(f, Others()));
    return f.Reshape(
        parts.Layers(f, "deep", f.Concat(inputs, 1), options.hidden.size(), options.style), {-1});
  }

 private:
  // The features but the item and the history.
  std::vector<std::string> Others() const {
    std::vector<std::string> others;
    for (const std::string& name : options.features) {
      if (name != options.target && name != options.history) others.push_back(name);
    }
    return others;
  }
};

}  // namespace

const job::ModelKind& DinKind() {
  static constexpr job::ModelKind kKind = {
      .name = "din",
      .score =
          "hidden layers on all features; each item of the history is weighted by layers on it and "
          "the candidate item (Zhou et al., 2018)",
      .says = job::kChanceNumberOrOrder,
      .keys = kKeys,
      .read = job::ReadModelKeys<Din, kKeys>};
  return kKind;
}

}  // namespace coxswain::model
