// What is drawn and what it is held against; then training, and the scores of all items.
#include "coordinator/model/item_model.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "absl/strings/str_cat.h"
#include "coordinator/api/nearest_rows.h"
#include "coordinator/model/model_parts.h"
#include "coordinator/model/sampling.h"
#include "runtime/graph/builder.h"

namespace coxswain::model {
namespace {

// 1 for each item that training rows have, and 0 for the others.
std::vector<int64_t> Met(const ModelParts& parts, const std::string& item) {
  std::vector<int64_t> met = parts.data().training_counts(item);
  for (int64_t& count : met) count = std::min<int64_t>(count, 1);
  return met;
}

}  // namespace

std::string ItemModel::BiasTable() const { return absl::StrCat(item(), "_bias"); }

// Ids of this step's negatives, i64 [N]; what is added to their logits so that the sum over them
// estimates the sum over all names: log(1 / (N p(id))), f32 [N], or one number.
Output ItemModel::Negatives(FunctionBuilder& f, const ModelParts& parts,
                            const job::SamplingSpec& sampling, Output* corrections) const {
  const int64_t n = sampling.negatives;
  const int64_t items = parts.data().vocabulary_size(item());
  const uint64_t seed = parts.job().train.seed;
  const bool uniform = sampling.distribution == job::Distribution::kUniform;
  // New items, which features describe, are nobody's choice yet: being held against those that
  // people chose would only teach that they are bad.
  if (uniform && has_item_features()) {
    Output expected;
    const Output ids = SampleByCount(f, Met(parts, item()), n, /*distortion=*/1, seed, &expected);
    *corrections = f.Neg(f.Log(expected));
    return ids;
  }
  if (uniform) {
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

Output ItemModel::Known(FunctionBuilder& f, const ModelParts& parts, Output ids) const {
  for (const proto::FeatureSpec& feature : parts.job().dataset.features()) {
    if (feature.history_of() != item()) continue;
    const ModelParts::FeatureInput history = parts.Input(f, feature);
    return f.Op("InBags", {history.values, history.offsets, ids});
  }
  return {};
}

// How often each of the items is in the training data, as logarithms of shares, f32 like `ids`.
Output ItemModel::LogShares(FunctionBuilder& f, const ModelParts& parts, Output ids) const {
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

ItemModel::Choices ItemModel::Chosen(FunctionBuilder& f, const ModelParts& parts) const {
  return {User(f, parts), f.Column(item()), parts.Weights(f)};
}

Output ItemModel::Train(FunctionBuilder& f, const ModelParts& parts) const {
  const job::LossSpec& loss = *parts.job().loss;
  const Choices chosen = Chosen(f, parts);
  const job::Ranking ranking = loss.against() == job::Against::kAll ? AgainstAll(f, parts, chosen)
                                                                    : AgainstSome(f, parts, chosen);
  const Output mean = ModelParts::MeanOf(f, loss.PerRanking(f, ranking), chosen.weights);
  parts.Minimize(f, mean);
  return mean;
}

// Against items that are drawn, or those of the batch.
job::Ranking ItemModel::AgainstSome(FunctionBuilder& f, const ModelParts& parts,
                                    const Choices& chosen) const {
  const job::LossSpec& loss = *parts.job().loss;
  const bool drawn = loss.against() == job::Against::kDrawn;
  job::Ranking ranking;
  ranking.own_ids = ranking.other_ids = chosen.items;
  std::vector<Output> ids = {chosen.items};
  if (drawn) {
    ranking.other_ids = Negatives(f, parts, *loss.sampling(), &ranking.correction);
    ids.push_back(ranking.other_ids);
  }
  const auto rows = f.Lookup(parts.table(item()), ids);
  std::vector<ItemRows> lists;
  for (size_t i = 0; i < ids.size(); ++i) lists.push_back({rows[i], ids[i]});
  const std::vector<Output> items = Items(f, parts, lists);
  ranking.own = f.RowDot(chosen.users, items[0]);
  ranking.others = f.MatMul(chosen.users, items.back(), false, true);
  if (loss.temperature() != 1) {
    const Output scale = f.Scalar(static_cast<float>(1 / loss.temperature()));
    ranking.own = f.Mul(ranking.own, scale);
    ranking.others = f.Mul(ranking.others, scale);
  }
  if (has_bias()) {
    const auto biases = f.Lookup(parts.table(BiasTable()), ids);
    ranking.own = f.Add(ranking.own, f.Reshape(biases[0], {-1}));
    ranking.biases = f.Reshape(biases.back(), {-1});
  }
  if (!drawn) ranking.own_log_q = ranking.log_q = LogShares(f, parts, chosen.items);
  if (loss.rejects_known()) ranking.known = Known(f, parts, ranking.other_ids);
  return ranking;
}

job::Ranking ItemModel::AgainstAll(FunctionBuilder& f, const ModelParts& parts,
                                   const Choices& chosen) const {
  job::Ranking ranking;
  ranking.own_ids = chosen.items;
  ranking.others = AllScores(f, parts, chosen.users);
  if (!has_item_features()) return ranking;
  // As in Negatives: new items are left out.
  constexpr float kNever = -1e9f;
  std::vector<float> left_out;
  for (const int64_t met : Met(parts, item())) left_out.push_back(met > 0 ? 0 : kNever);
  ranking.others = f.Add(ranking.others, f.Constant(Tensor::FromVector(left_out)));
  return ranking;
}

Output ItemModel::AllItems(FunctionBuilder& f, const ModelParts& parts) const {
  return Items(f, parts, {{f.Read(parts.table(item())), {}}})[0];
}

Output ItemModel::ItemsOf(FunctionBuilder& f, const ModelParts& parts, Output ids) const {
  return Items(f, parts, {{ExactRows(f, parts.table(item()), ids), ids}})[0];
}

Output ItemModel::AllBiases(FunctionBuilder& f, const ModelParts& parts) const {
  return f.Reshape(f.Read(parts.table(BiasTable())), {-1});
}

Output ItemModel::AllScores(FunctionBuilder& f, const ModelParts& parts, Output user) const {
  return ScoresOfVectors(f, parts, user, AllItems(f, parts),
                         has_bias() ? AllBiases(f, parts) : Output());
}

Output ItemModel::ScoresOfVectors(FunctionBuilder& f, const ModelParts& parts, Output users,
                                  Output items, Output biases) {
  const Output scores = f.MatMul(Scaled(f, parts, users), items, false, true);
  return biases.valid() ? f.Add(scores, biases) : scores;
}

Output ItemModel::Scaled(FunctionBuilder& f, const ModelParts& parts, Output user) {
  const double temperature = parts.job().loss->temperature();
  return temperature == 1 ? user : f.Mul(user, f.Scalar(static_cast<float>(1 / temperature)));
}

CandidateOptions ItemModel::Scored(const ModelParts& parts) const {
  CandidateOptions scored;
  scored.count = parts.Candidates(item());
  scored.normalize = normalizes();
  if (has_bias()) scored.bias = &parts.table(BiasTable());
  return scored;
}

void ItemModel::Evaluate(FunctionBuilder& f, const ModelParts& parts) const {
  const Output user = Scaled(f, parts, User(f, parts));
  if (rows_are_items()) {
    f.Result("rank", parts.FactorizedRank(f, item(), user, Scored(parts)));
  } else {
    f.Result("user", user);
    f.Result("own", f.Column(item()));
    f.Result("known_values", f.Column("known.values"));
    f.Result("known_offsets", f.Column("known.offsets"));
  }
  parts.ResultExamples(f);
}

Output ItemModel::ScaledUserOf(FunctionBuilder& f, const ModelParts& parts, Output values,
                               Output offsets) const {
  return Scaled(f, parts, UserOf(f, parts, values, offsets));
}

Output ItemModel::ScoresOf(FunctionBuilder& f, const ModelParts& parts, Output users,
                           Output ids) const {
  const Output scores = f.MatMul(users, ItemsOf(f, parts, ids), false, true);
  if (!has_bias()) return scores;
  return f.Add(scores, f.Reshape(ExactRows(f, parts.table(BiasTable()), ids), {-1}));
}

FunctionBuilder::TopCandidates ItemModel::BestRows(FunctionBuilder& f, const ModelParts& parts,
                                                   Output users, int64_t k) const {
  return f.FactorizedTopK(users, parts.table(item()), k, Scored(parts));
}

void ItemModel::TopItems(FunctionBuilder& f, const ModelParts& parts, Output values, Output offsets,
                         int64_t k) const {
  if (in_pieces()) {
    f.Fail(absl::FailedPreconditionError("items whose vectors are no rows are searched in pieces"));
    return;
  }
  const FunctionBuilder::TopCandidates top =
      BestRows(f, parts, ScaledUserOf(f, parts, values, offsets), k);
  f.Result("scores", top.scores);
  f.Result("ids", top.ids);
}

void ItemModel::Predict(FunctionBuilder& f, const ModelParts& parts) const {
  f.Result("score", AllScores(f, parts, User(f, parts)));
}

void ItemModel::PredictUser(FunctionBuilder& f, const ModelParts& parts) const {
  f.Result("user", Scaled(f, parts, User(f, parts)));
}

void ItemModel::PredictItems(FunctionBuilder& f, const ModelParts& parts) const {
  f.Result("items", AllItems(f, parts));
  if (has_bias()) f.Result("bias", AllBiases(f, parts));
}

}  // namespace coxswain::model
