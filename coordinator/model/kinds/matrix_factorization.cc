// Matrix factorization (Koren et al., 2009): the product of the user's and the item's vector, and a
// bias for each of them and for all.

#include "coordinator/job/loss_kind.h"
#include "coordinator/job/model_features.h"
#include "coordinator/job/size_limits.h"
#include "coordinator/model/kinds/kind_list.h"
#include "coordinator/model/kinds/own_names.h"
#include "coordinator/model/labelled_model.h"
#include "coordinator/model/model_parts.h"
#include "coordinator/model/product_model.h"
#include "coxswain/optimizers.h"

namespace coxswain::model {
namespace {

constexpr char kMean[] = "mean";

struct Side {
  std::string feature;
};
struct FactorizationOptions {
  Side user, item;
  int64_t dim = 0;
  bool biases = false;
};

constexpr job::SchemaKey kUserKeys[] = {
    job::Key<&Side::feature>("feature", nullptr, "the user, a single-valued categorical feature"),
};
constexpr job::SchemaSection kUser = {"model.user", "", kUserKeys};

constexpr job::SchemaKey kItemKeys[] = {
    job::Key<&Side::feature>(
        "feature", nullptr,
        "the item, a categorical feature; for two_tower, one with a vocabulary"),
};
constexpr job::SchemaSection kItem = {"model.item", "", kItemKeys};

constexpr job::SchemaKey kKeys[] = {
    job::Key<&FactorizationOptions::user>("user", nullptr, "the user side").Of(&kUser),
    job::Key<&FactorizationOptions::item>("item", nullptr, "the item side").Of(&kItem),
    job::Key<&FactorizationOptions::dim>("dim", "32", "dimension of the user and item vectors")
        .Min(1)
        .Max(job::kMostWidth),
    job::Key<&FactorizationOptions::biases>(
        "biases", "true", "add a bias for each user, one for each item, and a global one"),
};

class MatrixFactorization : public LabelledModel, public ProductModel {
 public:
  FactorizationOptions options;

  std::string Options() const override { return job::ShowKeys(kKeys, options); }

  Sides ranks() const override { return {user(), chosen()}; }

  void Complete(const job::JobReader& reader) override {
    job::CheckSingle(reader, "model.user.feature", user());
    job::CheckSingle(reader, "model.item.feature", chosen());
    if (user() == chosen()) {
      reader.Error("model.item.feature", "the user and the item are the same");
    }
    for (const std::string& feature : {user(), chosen()}) {
      if (options.biases) CheckTableName(reader, feature, kMean);
    }
    job::SetDim(reader, user(), options.dim, job::kWithoutLayers);
    job::SetDim(reader, chosen(), options.dim, job::kWithoutLayers);
  }

  std::vector<job::TableUse> Tables() const override {
    std::vector<job::TableUse> tables = {
        {user(), job::TableSpec::Role::kEmbedding, job::kEmbeddingStddev},
        {chosen(), job::TableSpec::Role::kEmbedding, job::kEmbeddingStddev}};
    if (options.biases) {
      tables.push_back({user(), job::TableSpec::Role::kBias});
      tables.push_back({chosen(), job::TableSpec::Role::kBias});
    }
    return tables;
  }

  absl::Status CreateVariables(ModelParts* parts) const override {
    if (!options.biases) return absl::OkStatus();
    return parts->CreateDense(kMean, {1}, ConstantInit(parts->FirstScore()));
  }

  Output Logits(FunctionBuilder& f, const ModelParts& parts) const override {
    const Output users = Vectors(f, parts, user()), items = Vectors(f, parts, chosen());
    Output score = f.RowDot(users, items);
    if (!options.biases) return score;
    score = f.Add(score, Biases(f, parts, user()));
    score = f.Add(score, Biases(f, parts, chosen()));
    return f.Add(score, parts.DenseValue(f, kMean));
  }

  // Without what is the same for all items: the user's bias and the mean.
  Output ItemRanks(FunctionBuilder& f, const ModelParts& parts) const override {
    return parts.FactorizedRank(f, chosen(), Vectors(f, parts, user()), Scored(parts));
  }

  std::string product_item() const override { return chosen(); }
  int64_t width() const override { return options.dim; }

  void PredictUser(FunctionBuilder& f, const ModelParts& parts) const override {
    f.Result("user", Vectors(f, parts, user()));
    if (options.biases) f.Result("offset", OfUsers(f, parts));
  }
  void PredictItems(FunctionBuilder& f, const ModelParts& parts) const override {
    f.Result("items", f.Read(parts.table(chosen())));
    if (options.biases) f.Result("bias", AllBiases(f, parts));
  }
  void PredictScores(FunctionBuilder& f, const ModelParts& parts) const override {
    Output scores = f.MatMul(Vectors(f, parts, user()), f.Read(parts.table(chosen())), false, true);
    if (options.biases) {
      scores = f.Add(scores, AllBiases(f, parts));
      scores = f.Add(scores, f.Reshape(OfUsers(f, parts), {-1, 1}));
    }
    f.Result("score", scores);
  }
  FunctionBuilder::TopCandidates BestRows(FunctionBuilder& f, const ModelParts& parts, Output users,
                                          int64_t k) const override {
    return f.FactorizedTopK(users, parts.table(chosen()), k, Scored(parts));
  }

 private:
  // Of the batch's examples, f32 [B, dim] and [B].
  static Output Vectors(FunctionBuilder& f, const ModelParts& parts, const std::string& feature) {
    return parts.Embed(f, feature, feature);
  }
  static Output Biases(FunctionBuilder& f, const ModelParts& parts, const std::string& feature) {
    return f.Reshape(parts.Embed(f, BiasOf(feature), feature), {-1});
  }
  // What all scores of a user have in common, f32 [B].
  Output OfUsers(FunctionBuilder& f, const ModelParts& parts) const {
    return f.Add(Biases(f, parts, user()), parts.DenseValue(f, kMean));
  }
  Output AllBiases(FunctionBuilder& f, const ModelParts& parts) const {
    return f.Reshape(f.Read(parts.table(BiasOf(chosen()))), {-1});
  }
  CandidateOptions Scored(const ModelParts& parts) const {
    CandidateOptions scored;
    scored.count = parts.Candidates(chosen());
    if (options.biases) scored.bias = &parts.table(BiasOf(chosen()));
    return scored;
  }
  static std::string BiasOf(const std::string& feature) { return absl::StrCat(feature, "_bias"); }
  const std::string& user() const { return options.user.feature; }
  const std::string& chosen() const { return options.item.feature; }
};

}  // namespace

const job::ModelKind& MatrixFactorizationKind() {
  static constexpr job::PredictionKind kSays[] = {job::PredictionKind::kNumber,
                                                  job::PredictionKind::kProbability};
  static constexpr job::ModelKind kKind = {.name = "matrix_factorization",
                                           .score = "the same, with one embedding each",
                                           .says = kSays,
                                           .keys = kKeys,
                                           .read = job::ReadModelKeys<MatrixFactorization, kKeys>};
  return kKind;
}

}  // namespace coxswain::model
