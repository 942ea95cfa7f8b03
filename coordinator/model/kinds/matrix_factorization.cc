// Matrix factorization (Koren et al., 2009): the product of the user's and the item's vector, and a
// bias for each of them and for all.
#include <algorithm>
#include <cmath>

#include "coordinator/job/loss_kind.h"
#include "coordinator/job/model_features.h"
#include "coordinator/model/kinds/kind_list.h"
#include "coordinator/model/labelled_model.h"
#include "coordinator/model/model_parts.h"

namespace coxswain {
namespace {

struct Side {
  std::string feature;
};
struct FactorizationOptions {
  Side user, item;
  int64_t dim = 0;
  bool biases = false;
};

constexpr SchemaKey kUserKeys[] = {
    Key<&Side::feature>("feature", nullptr, "the user"),
};
constexpr SchemaSection kUser = {"model.user", "", kUserKeys};

constexpr SchemaKey kItemKeys[] = {
    Key<&Side::feature>("feature", nullptr,
                        "the item; a categorical feature, and for two_tower with a vocabulary"),
};
constexpr SchemaSection kItem = {"model.item", "", kItemKeys};

constexpr SchemaKey kKeys[] = {
    Key<&FactorizationOptions::user>("user", nullptr, "the side that asks").Of(&kUser),
    Key<&FactorizationOptions::item>("item", nullptr, "the side that is chosen").Of(&kItem),
    Key<&FactorizationOptions::dim>("dim", "32", "width of the user's and the item's vector")
        .Min(1),
    Key<&FactorizationOptions::biases>(
        "biases", "true", "a number for each user, each item and all ratings is added"),
};

class MatrixFactorization : public LabelledModel {
 public:
  FactorizationOptions options;

  std::string Options() const override { return ShowKeys(kKeys, options); }

  void Complete(const JobReader& reader) override {
    CheckSingle(reader, "model.user.feature", user());
    CheckSingle(reader, "model.item.feature", chosen());
    if (user() == chosen()) {
      reader.Error("model.item.feature", "the user and the item are the same");
    }
    SetDim(reader, user(), options.dim, kWithoutLayers);
    SetDim(reader, chosen(), options.dim, kWithoutLayers);
  }

  std::vector<TableUse> Tables() const override {
    std::vector<TableUse> tables = {{user(), TableSpec::Role::kEmbedding, kEmbeddingStddev},
                                    {chosen(), TableSpec::Role::kEmbedding, kEmbeddingStddev}};
    if (options.biases) {
      tables.push_back({user(), TableSpec::Role::kBias});
      tables.push_back({chosen(), TableSpec::Role::kBias});
    }
    return tables;
  }

  absl::Status CreateVariables(ModelParts* parts) const override {
    if (!options.biases) return absl::OkStatus();
    double mean = parts->data().label_summary(Part::kTraining).mean();
    if (KindOf(*parts->job().loss).prediction == PredictionKind::kProbability) {
      mean = std::log(std::max(mean, 1e-6) / std::max(1 - mean, 1e-6));
    }
    proto::InitializerSpec constant;
    constant.set_kind("constant");
    constant.set_value(mean);
    return parts->CreateDense("mean", {1}, constant);
  }

  Output Logits(FunctionBuilder& f, const ModelParts& parts) const override {
    const proto::FeatureSpec &u = *parts.job().FindFeature(user()),
                             &i = *parts.job().FindFeature(chosen());
    const ModelParts::FeatureInput users = parts.Input(f, u), items = parts.Input(f, i);
    Output score = f.RowDot(parts.Embed(f, user(), u, users), parts.Embed(f, chosen(), i, items));
    if (!options.biases) return score;
    const auto bias = [&](const proto::FeatureSpec& feature, const ModelParts::FeatureInput& in) {
      return f.Reshape(parts.Embed(f, absl::StrCat(feature.name(), "_bias"), feature, in), {-1});
    };
    score = f.Add(score, bias(u, users));
    score = f.Add(score, bias(i, items));
    return f.Add(score, parts.DenseValue(f, "mean"));
  }

 private:
  const std::string& user() const { return options.user.feature; }
  const std::string& chosen() const { return options.item.feature; }
};

}  // namespace

const ModelKind& MatrixFactorizationKind() {
  static constexpr PredictionKind kSays[] = {PredictionKind::kNumber, PredictionKind::kProbability};
  static constexpr ModelKind kKind = {.name = "matrix_factorization",
                                      .score = "the same, of one embedding each",
                                      .says = kSays,
                                      .keys = kKeys,
                                      .read = ReadModelKeys<MatrixFactorization, kKeys>};
  return kKind;
}

}  // namespace coxswain
