// What describes each item of a model beside its id (model.item.features): the values of these
// features by the item's id. They come from tables that the data set joins by the item
// (dataset.join), and not from the rows: so an item that no row has is known, too, and a model
// directory, which keeps these tables, has all that its items need.
//
// It is held by each function that works on items, as constants: nothing has to be sent or looked
// up for an item that a step draws.
//
// Thread model: immutable; Vectors goes by FunctionBuilder.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "coordinator/job/job_spec.h"
#include "coxswain/function_builder.h"
#include "coxswain/tensor.h"
#include "runtime/data/dataset.h"

namespace coxswain::model {

class ModelParts;

class ItemCatalogue {
 public:
  // The values of one feature, for each id of the item.
  struct Values {
    Tensor numbers;  // of a number or a vector: f32 [ids, width]; of other features none
    // A list for each id, also of a feature of one value: i64 [n], cut at i32 [ids + 1], and
    // weights f32 [n] where the feature has them. Empty for ids of unknown items.
    Tensor values, offsets, weights;
  };

  // Bytes of all values: more than this many are refused, because a function that holds them is
  // one message.
  static constexpr int64_t kMostBytes = int64_t{256} << 20;

  // Of the data set's vocabulary of `item`, with the vocabularies and statistics of its features.
  // Errors: InvalidArgument for a feature that no table joined by the item has, or for a value that
  // it cannot have, by the table's file and line; ResourceExhausted above `most_bytes`; those of
  // SideTables::Read.
  static absl::StatusOr<ItemCatalogue> Read(const job::JobSpec& job, const data::Dataset& data,
                                            const std::string& item,
                                            const std::vector<std::string>& features,
                                            int64_t most_bytes = kMostBytes);

  // Null for a feature that was not read.
  const Values* Find(const std::string& feature) const;

  // For each list of ids, i64 [N], what `feature` says of its items: f32 [N, width], the rows of
  // the feature's table, combined, or its numbers. An invalid Output stands for all ids.
  std::vector<Output> Vectors(FunctionBuilder& f, const ModelParts& parts,
                              const std::string& feature, absl::Span<const Output> lists) const;

 private:
  std::map<std::string, Values> features_;
};

}  // namespace coxswain::model
