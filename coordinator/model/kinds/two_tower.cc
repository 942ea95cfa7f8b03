// Two towers (Covington et al., 2016; Yi et al., 2019): the score of a user and an item is the
// product of their vectors, and the item that a user chose is learned against others: some that are
// drawn, those of the batch, or all (the loss says which).
#include <algorithm>
#include <cmath>

#include "coordinator/job/loss_kind.h"
#include "coordinator/job/model_features.h"
#include "coordinator/model/kinds/kind_list.h"
#include "coordinator/model/kinds/shared_keys.h"
#include "coordinator/model/model_parts.h"
#include "coordinator/model/sampling.h"
#include "runtime/base/status.h"
#include "runtime/graph/builder.h"

namespace coxswain::model {
namespace {

// Without hidden layers a side is the sum of its features' vectors; with them these go side by side
// through the hidden layers and a last linear one.
struct UserOptions {
  std::vector<std::string> features;
  std::vector<int64_t> hidden;
};
struct ItemOptions {
  std::string feature;
  std::vector<int64_t> hidden;
  bool bias = false;
};
struct TwoTowerOptions {
  UserOptions user;
  ItemOptions item;
  int64_t dim = 0;
  bool normalize = false;
  Activation activation = Activation::kRelu;
  bool layer_norm = false;
  double dropout = 0;

  LayerStyle style() const { return {activation, layer_norm, dropout}; }
};

constexpr job::SchemaKey kUserKeys[] = {
    job::Key<&UserOptions::features>("features", nullptr, "what describes the user"),
    job::Key<&UserOptions::hidden>(
        "hidden", "[]",
        "widths of layers on the features' vectors, put side by side; a linear layer to "
        "`model.dim` follows. None: the vectors are added up")
        .Min(1),
};
constexpr job::SchemaSection kUser = {"model.user", "", kUserKeys};

constexpr job::SchemaKey kItemKeys[] = {
    job::Key<&ItemOptions::feature>(
        "feature", nullptr, "the item; a categorical feature, and for two_tower with a vocabulary"),
    job::Key<&ItemOptions::hidden>("hidden", "[]", "as in `model.user`").Min(1),
    job::Key<&ItemOptions::bias>("bias", "true", "a number for each item is added to its score"),
};
constexpr job::SchemaSection kItem = {"model.item", "", kItemKeys};

constexpr job::SchemaKey kKeys[] = {
    job::Key<&TwoTowerOptions::user>("user", nullptr, "the side that asks").Of(&kUser),
    job::Key<&TwoTowerOptions::item>("item", nullptr, "the side that is chosen").Of(&kItem),
    job::Key<&TwoTowerOptions::dim>("dim", "32", "width of the user's and the item's vector")
        .Min(1),
    job::Key<&TwoTowerOptions::normalize>("normalize", "false",
                                          "both vectors are scaled to length 1"),
    ActivationKey<&TwoTowerOptions::activation>(),
    LayerNormKey<&TwoTowerOptions::layer_norm>(),
    DropoutKey<&TwoTowerOptions::dropout>(),
};

class TwoTower : public job::ModelSpec {
 public:
  TwoTowerOptions options;

  std::string Options() const override { return job::ShowKeys(kKeys, options); }
  std::string item() const override { return options.item.feature; }
  std::vector<std::string> user_features() const override { return options.user.features; }

  void Complete(const job::JobReader& reader) override {
    job::CompleteFeatures(reader, "model.user", &options.user.features);
    CheckItem(reader);
    for (size_t i = 0; i < options.user.features.size(); ++i) {
      const std::string& name = options.user.features[i];
      const std::string path = absl::StrCat("model.user.features.", i);
      if (name == item()) {
        reader.Error(path, absl::StrCat("'", name, "' is what is to be predicted"));
      }
      if (job::IsNumeric(*reader.job, name) && options.user.hidden.empty()) {
        reader.Error(
            path, absl::StrCat("'", name, "' is a number, which needs layers (model.user.hidden)"));
      }
      job::SetDim(reader, name, options.dim,
                  options.user.hidden.empty() ? job::kWithoutLayers : nullptr);
    }
    job::SetDim(reader, item(), options.dim,
                options.item.hidden.empty() ? job::kWithoutLayers : nullptr);
  }

  std::vector<job::TableUse> Tables() const override {
    std::vector<job::TableUse> tables = EmbeddingTables(options.user.features);
    tables.push_back({item(), job::TableSpec::Role::kEmbedding, job::kEmbeddingStddev});
    if (options.item.bias) tables.push_back({item(), job::TableSpec::Role::kBias});
    return tables;
  }

  absl::Status CreateVariables(ModelParts* parts) const override {
    if (!options.user.hidden.empty()) {
      RETURN_IF_ERROR(parts->CreateLayers("user", parts->InputWidth(options.user.features),
                                          options.user.hidden, options.dim, options.style()));
    }
    if (options.item.hidden.empty()) return absl::OkStatus();
    return parts->CreateLayers("item", parts->InputWidth({item()}), options.item.hidden,
                               options.dim, options.style());
  }

  Output Train(FunctionBuilder& f, const ModelParts& parts) const override;
  void Evaluate(FunctionBuilder& f, const ModelParts& parts) const override;
  void Predict(FunctionBuilder& f, const ModelParts& parts) const override {
    f.Result("score", AllScores(f, parts, User(f, parts)));
  }
  void TopItems(FunctionBuilder& f, const ModelParts& parts, Output values, Output offsets,
                int64_t k) const override;

 private:
  void CheckItem(const job::JobReader& reader) const;
  std::string BiasTable() const { return absl::StrCat(item(), "_bias"); }

  // The user tower over the batch's examples.
  Output User(FunctionBuilder& f, const ModelParts& parts) const;
  // The item tower over given rows of its table.
  Output Item(FunctionBuilder& f, const ModelParts& parts, Output rows) const;
  Output Normalized(FunctionBuilder& f, Output rows) const;
  Output Negatives(FunctionBuilder& f, const ModelParts& parts, const job::SamplingSpec& sampling,
                   Output* corrections) const;
  job::Ranking AgainstSome(FunctionBuilder& f, const ModelParts& parts, Output user) const;
  job::Ranking AgainstAll(FunctionBuilder& f, const ModelParts& parts, Output user) const;
  Output Known(FunctionBuilder& f, const ModelParts& parts, Output ids) const;
  Output LogShares(FunctionBuilder& f, const ModelParts& parts, Output ids) const;
  Output AllScores(FunctionBuilder& f, const ModelParts& parts, Output user) const;
  // Whether an item's vector is its row, so that parameter servers can score items by themselves.
  bool rows_are_items() const { return options.item.hidden.empty(); }
  Output Scaled(FunctionBuilder& f, const ModelParts& parts, Output user) const;
  CandidateOptions Scored(const ModelParts& parts) const;
};

void TwoTower::CheckItem(const job::JobReader& reader) const {
  const std::string& name = options.item.feature;
  const proto::FeatureSpec* feature = job::CheckSingle(reader, "model.item.feature", name);
  if (feature != nullptr && feature->hash_buckets() > 0) {
    reader.Error(absl::StrCat("features.", name, ".hash_buckets"),
                 "the item of a two_tower needs a vocabulary");
  }
  if (feature != nullptr && !feature->id().empty()) {
    reader.Error(absl::StrCat("features.", name, ".id"),
                 "the item of a two_tower needs a vocabulary: all of it is ranked");
  }
}

Output TwoTower::Normalized(FunctionBuilder& f, Output rows) const {
  if (!options.normalize) return rows;
  constexpr float kTiny = 1e-12f;  // an empty bag is a zero vector
  const Output norm =
      f.Op("ReduceSum", {f.Square(rows)}, {{"axes", std::vector<int64_t>{1}}, {"keep_dims", true}});
  return f.Mul(rows, f.Op("Rsqrt", {f.Add(norm, f.Scalar(kTiny))}));
}

Output TwoTower::User(FunctionBuilder& f, const ModelParts& parts) const {
  const UserOptions& tower = options.user;
  if (tower.hidden.empty()) return Normalized(f, parts.Sum(f, tower.features));
  return Normalized(f, parts.Layers(f, "user", parts.SideBySide(f, tower.features),
                                    tower.hidden.size(), options.style()));
}

Output TwoTower::Item(FunctionBuilder& f, const ModelParts& parts, Output rows) const {
  const size_t hidden = options.item.hidden.size();
  if (hidden > 0) rows = parts.Layers(f, "item", rows, hidden, options.style());
  return Normalized(f, rows);
}

// Ids of this step's negatives, i64 [N]; what is added to their logits so that the sum over them
// estimates the sum over all names: log(1 / (N p(id))), f32 [N], or one number.
Output TwoTower::Negatives(FunctionBuilder& f, const ModelParts& parts,
                           const job::SamplingSpec& sampling, Output* corrections) const {
  const int64_t n = sampling.negatives;
  const int64_t items = parts.data().vocabulary_size(item());
  const uint64_t seed = parts.job().train.seed;
  if (sampling.distribution == job::Distribution::kUniform) {
    *corrections =
        f.Scalar(static_cast<float>(std::log(static_cast<double>(items) / static_cast<double>(n))));
    return f.Op(
        "RandomInt", {},
        {{"shape", Shape{n}}, {"low", 0}, {"high", items}, {"seed", static_cast<int64_t>(seed)}});
  }
  Output expected;
  const Output ids = SampleByCount(f, parts.data().training_counts(item()), n, sampling.distortion,
                                   seed, &expected);
  *corrections = f.Neg(f.Log(expected));
  return ids;
}

// 1 where an example's history has the item, f32 [B, N]; invalid where it has no history of items.
Output TwoTower::Known(FunctionBuilder& f, const ModelParts& parts, Output ids) const {
  for (const proto::FeatureSpec& feature : parts.job().dataset.features()) {
    if (feature.history_of() != item()) continue;
    const ModelParts::FeatureInput history = parts.Input(f, feature);
    return f.Op("InBags", {history.values, history.offsets, ids});
  }
  return {};
}

// How often each of the items is in the training data, as logarithms of shares, f32 like `ids`.
Output TwoTower::LogShares(FunctionBuilder& f, const ModelParts& parts, Output ids) const {
  std::vector<float> logs;
  double all = 0;
  const std::vector<int64_t> counts = parts.data().training_counts(item());
  for (const int64_t count : counts) all += static_cast<double>(count);
  for (const int64_t count : counts) {
    const double share = static_cast<double>(std::max<int64_t>(count, 1)) / std::max(all, 1.0);
    logs.push_back(static_cast<float>(std::log(share)));
  }
  return f.Gather(f.Constant(Tensor::FromVector(logs)), ids);
}

Output TwoTower::Train(FunctionBuilder& f, const ModelParts& parts) const {
  const job::LossSpec& loss = *parts.job().loss;
  const Output user = User(f, parts);
  const job::Ranking ranking = loss.against() == job::Against::kAll ? AgainstAll(f, parts, user)
                                                                    : AgainstSome(f, parts, user);
  const Output mean = parts.MeanLoss(f, loss.PerRanking(f, ranking));
  parts.Minimize(f, mean);
  return mean;
}

// Against items that are drawn, or those of the batch.
job::Ranking TwoTower::AgainstSome(FunctionBuilder& f, const ModelParts& parts, Output user) const {
  const job::LossSpec& loss = *parts.job().loss;
  const bool drawn = loss.against() == job::Against::kDrawn;
  const Output labels = f.Column(item());
  job::Ranking ranking;
  ranking.own_ids = ranking.other_ids = labels;
  std::vector<Output> ids = {labels};
  if (drawn) {
    ranking.other_ids = Negatives(f, parts, *loss.sampling(), &ranking.correction);
    ids.push_back(ranking.other_ids);
  }
  const auto rows = f.Lookup(parts.table(item()), ids);
  const Output own = Item(f, parts, rows[0]);
  ranking.own = f.RowDot(user, own);
  ranking.others = f.MatMul(user, drawn ? Item(f, parts, rows[1]) : own, false, true);
  if (loss.temperature() != 1) {
    const Output scale = f.Scalar(static_cast<float>(1 / loss.temperature()));
    ranking.own = f.Mul(ranking.own, scale);
    ranking.others = f.Mul(ranking.others, scale);
  }
  if (options.item.bias) {
    const auto biases = f.Lookup(parts.table(BiasTable()), ids);
    ranking.own = f.Add(ranking.own, f.Reshape(biases[0], {-1}));
    ranking.biases = f.Reshape(biases.back(), {-1});
  }
  if (!drawn) ranking.own_log_q = ranking.log_q = LogShares(f, parts, labels);
  if (loss.rejects_known()) ranking.known = Known(f, parts, ranking.other_ids);
  return ranking;
}

job::Ranking TwoTower::AgainstAll(FunctionBuilder& f, const ModelParts& parts, Output user) const {
  job::Ranking ranking;
  ranking.own_ids = f.Column(item());
  ranking.others = AllScores(f, parts, user);
  return ranking;
}

Output TwoTower::AllScores(FunctionBuilder& f, const ModelParts& parts, Output user) const {
  const Output items = Item(f, parts, f.Read(parts.table(item())));
  const Output scores = f.MatMul(Scaled(f, parts, user), items, false, true);
  if (!options.item.bias) return scores;
  return f.Add(scores, f.Reshape(f.Read(parts.table(BiasTable())), {-1}));
}

Output TwoTower::Scaled(FunctionBuilder& f, const ModelParts& parts, Output user) const {
  const double temperature = parts.job().loss->temperature();
  return temperature == 1 ? user : f.Mul(user, f.Scalar(static_cast<float>(1 / temperature)));
}

CandidateOptions TwoTower::Scored(const ModelParts& parts) const {
  CandidateOptions scored;
  scored.count = parts.Candidates(item());
  scored.normalize = options.normalize;
  if (options.item.bias) scored.bias = &parts.table(BiasTable());
  return scored;
}

void TwoTower::Evaluate(FunctionBuilder& f, const ModelParts& parts) const {
  const Output user = User(f, parts);
  f.Result("rank", rows_are_items()
                       ? parts.FactorizedRank(f, item(), Scaled(f, parts, user), Scored(parts))
                       : parts.Rank(f, item(), AllScores(f, parts, user)));
  parts.ResultExamples(f);
}

void TwoTower::TopItems(FunctionBuilder& f, const ModelParts& parts, Output values, Output offsets,
                        int64_t k) const {
  std::vector<Output> vectors;
  for (const std::string& name : options.user.features) {
    vectors.push_back(parts.Embed(f, name, *parts.job().FindFeature(name), {values, offsets, {}}));
  }
  Output user = vectors[0];
  const size_t hidden = options.user.hidden.size();
  if (hidden > 0) {
    if (vectors.size() > 1) user = f.Concat(vectors, 1);
    user = parts.Layers(f, "user", user, hidden, options.style());
  } else if (vectors.size() > 1) {
    user = f.Op("AddN", vectors);
  }
  user = Normalized(f, user);
  FunctionBuilder::TopCandidates top;
  if (rows_are_items()) {
    top = f.FactorizedTopK(Scaled(f, parts, user), parts.table(item()), k, Scored(parts));
  } else {
    const Output scores = f.Op("Slice", {AllScores(f, parts, user)},
                               {{"begin", std::vector<int64_t>{0, 0}},
                                {"size", std::vector<int64_t>{-1, parts.Candidates(item())}}});
    const std::vector<Output> best = f.graph().OpN("TopK", {scores}, {{"k", k}}, 2);
    top = {best[0], best[1]};
  }
  f.Result("scores", top.scores);
  f.Result("ids", top.ids);
}

}  // namespace

const job::ModelKind& TwoTowerKind() {
  static constexpr job::PredictionKind kSays[] = {job::PredictionKind::kRank};
  static constexpr job::ModelKind kKind = {.name = "two_tower",
                                           .score = "product of the user's and the item's vector",
                                           .says = kSays,
                                           .predicts = job::Predicts::kItem,
                                           .keys = kKeys,
                                           .read = job::ReadModelKeys<TwoTower, kKeys>};
  return kKind;
}

}  // namespace coxswain::model
