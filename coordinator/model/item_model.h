// Models that predict an item: the score of a user and an item is the product of their vectors, and
// the item that a user chose is learned against others: some that are drawn, those of the batch, or
// all (the loss says which).
#pragma once

#include <string>
#include <vector>

#include "absl/types/span.h"
#include "coordinator/job/loss_kind.h"
#include "coordinator/job/model_kind.h"
#include "coordinator/model/product_model.h"
#include "coxswain/function_builder.h"

namespace coxswain::model {

inline constexpr job::PredictionKind kRanks[] = {job::PredictionKind::kRank};

class ItemModel : public job::ModelSpec, public ProductModel {
 public:
  std::string product_item() const override { return item(); }
  // Of the item's vectors and biases, where the loss looks at all of them.
  bool UpdatesAllRows(const job::JobSpec& job, const job::TableSpec& table) const override {
    return job.loss->against() == job::Against::kAll && table.feature == item();
  }
  // The vectors of the batch's users, f32 [B, dim].
  virtual Output User(FunctionBuilder& f, const ModelParts& parts) const = 0;
  // What training learns from: what users chose.
  struct Choices {
    Output users;    // their vectors when they chose, f32 [T, dim]
    Output items;    // i64 [T]
    Output weights;  // f32 [T]; invalid: all are 1
  };
  // One of each example: its item.
  virtual Choices Chosen(FunctionBuilder& f, const ModelParts& parts) const;
  // Items by their rows of the item's table, f32 [N, ...], and by the ids of these, i64 [N]; an
  // invalid Output for the ids of all rows.
  struct ItemRows {
    Output rows, ids;
  };
  // The vectors of the items of each list, f32 [N, dim].
  virtual std::vector<Output> Items(FunctionBuilder& f, const ModelParts& parts,
                                    absl::Span<const ItemRows> lists) const = 0;
  // Whether an item's score has a number of its own, of the table BiasTable().
  virtual bool has_bias() const = 0;
  // The vectors of users whose features all have these values: i64 [n], cut at offsets, i32
  // [B + 1].
  virtual Output UserOf(FunctionBuilder& f, const ModelParts& parts, Output values,
                        Output offsets) const = 0;
  // Whether more than an item's id says what its vector is.
  virtual bool has_item_features() const { return false; }
  // Whether an item's vector is its row, over its norm where `normalizes`: then the parameter
  // servers score all items. Else they are scored in pieces, see item_search.h.
  virtual bool rows_are_items() const = 0;
  bool in_pieces() const override { return !rows_are_items(); }
  virtual bool normalizes() const { return false; }

  Output Train(FunctionBuilder& f, const ModelParts& parts) const override;
  // Where in_pieces(): "user", f32 [B, dim], "own", i64 [B], the examples' items, and
  // "known_values" and "known_offsets", what is left out of the ranking.
  void Evaluate(FunctionBuilder& f, const ModelParts& parts) const override;
  void Predict(FunctionBuilder& f, const ModelParts& parts) const override;
  // Where rows are items; of others a search finds them.
  void TopItems(FunctionBuilder& f, const ModelParts& parts, Output values, Output offsets,
                int64_t k) const override;
  // What Predict's scores are products of.
  void PredictUser(FunctionBuilder& f, const ModelParts& parts) const override;
  void PredictItems(FunctionBuilder& f, const ModelParts& parts) const override;
  void PredictScores(FunctionBuilder& f, const ModelParts& parts) const override {
    Predict(f, parts);
  }

  // ---- For searches, see item_search.h. Users are scaled: scores are products with them.
  Output ScaledUserOf(FunctionBuilder& f, const ModelParts& parts, Output values,
                      Output offsets) const;
  Output ScoresOf(FunctionBuilder& f, const ModelParts& parts, Output users,
                  Output ids) const override;
  // Of users and items by their vectors, and the items' biases, f32 [N], where they have any; by
  // the loss's temperature: f32 [B, N].
  static Output ScoresOfVectors(FunctionBuilder& f, const ModelParts& parts, Output users,
                                Output items, Output biases);
  FunctionBuilder::TopCandidates BestRows(FunctionBuilder& f, const ModelParts& parts, Output users,
                                          int64_t k) const override;

 protected:
  // Of each choice, f32 [T, N]: 1 where its example's history has the item; invalid where examples
  // have no history of items.
  virtual Output Known(FunctionBuilder& f, const ModelParts& parts, Output ids) const;
  std::string BiasTable() const;
  // Scores of all items, f32 [B, items], for users by their vectors.
  Output AllScores(FunctionBuilder& f, const ModelParts& parts, Output user) const;
  Output AllItems(FunctionBuilder& f, const ModelParts& parts) const;
  // Those of one list, by ids alone.
  Output ItemsOf(FunctionBuilder& f, const ModelParts& parts, Output ids) const;
  Output AllBiases(FunctionBuilder& f, const ModelParts& parts) const;

 private:
  static Output Scaled(FunctionBuilder& f, const ModelParts& parts, Output user);
  CandidateOptions Scored(const ModelParts& parts) const;
  Output Negatives(FunctionBuilder& f, const ModelParts& parts, const job::SamplingSpec& sampling,
                   Output* corrections) const;
  job::Ranking AgainstSome(FunctionBuilder& f, const ModelParts& parts,
                           const Choices& chosen) const;
  job::Ranking AgainstAll(FunctionBuilder& f, const ModelParts& parts, const Choices& chosen) const;
  Output LogShares(FunctionBuilder& f, const ModelParts& parts, Output ids) const;
};

}  // namespace coxswain::model
