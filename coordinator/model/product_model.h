// Models whose score of a user and an item is the product of their vectors, plus a number of the
// item and one of the user where they have these: such a model can be asked for the items that
// score highest for a user, whether it learned to rank items or to predict a label of the pair.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "coxswain/function_builder.h"

namespace coxswain::model {

class ModelParts;

class ProductModel {
 public:
  virtual ~ProductModel() = default;

  // The feature whose values are the items.
  virtual std::string product_item() const = 0;
  // Width of the vectors of users and items.
  virtual int64_t width() const = 0;

  // The results "user", f32 [B, dim], of the batch's users; and "offset", f32 [B], where a user's
  // scores all have a number in common.
  virtual void PredictUser(FunctionBuilder& f, const ModelParts& parts) const = 0;
  // The results "items", f32 [N, dim], of all items; and "bias", f32 [N], where each has a number.
  virtual void PredictItems(FunctionBuilder& f, const ModelParts& parts) const = 0;
  // The result "score", f32 [B, N], of the batch's users and all items.
  virtual void PredictScores(FunctionBuilder& f, const ModelParts& parts) const = 0;

  // ---- For searches, see item_search.h. Users are as PredictUser has them, scores without the
  // offset.

  // Whether an item's vector is made of more than its row: then the parameter servers do not score
  // the items, but workers do, piece by piece.
  virtual bool in_pieces() const { return false; }
  // Where in_pieces(): of the items of these ids, i64 [N]: f32 [B, N].
  virtual Output ScoresOf(FunctionBuilder& f, const ModelParts& parts, Output users,
                          Output ids) const {
    (void)parts, (void)users, (void)ids;
    f.Fail(absl::UnimplementedError("the items are rows of a table"));
    return {};
  }
  // Else the k best.
  virtual FunctionBuilder::TopCandidates BestRows(FunctionBuilder& f, const ModelParts& parts,
                                                  Output users, int64_t k) const = 0;
};

}  // namespace coxswain::model
