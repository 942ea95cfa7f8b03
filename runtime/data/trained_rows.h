// Whether a data set still has the rows that a model was trained on. Parts are drawn by the number
// of a row: where other rows have these numbers, what was trained on is in any part.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "protos/dataset.pb.h"
#include "runtime/data/row_chain.h"

namespace coxswain::data {

enum class SinceTraining : uint8_t {
  kUnknown,    // no model, or one that does not know its rows
  kSame,       // the same rows
  kGrown,      // the same rows, and others behind them
  kOtherRows,  // fewer rows, or others in their places
  kOtherDraw,  // the same rows, grown or not; the split or its seed is another
};

// What a model that is trained on these rows keeps. `rows`: those of spec.paths.
proto::TrainedRows RowsToKeep(const proto::DatasetSpec& spec, const RowChain& rows);

// Holds rows against spec.trained; their chain has its mark there.
SinceTraining CompareWithTraining(const proto::DatasetSpec& spec, const RowChain& rows);

// The same for a text, by the chain of its words, with a number for each (HashText). `numbers`: the
// chain of a text in memory that earlier versions kept; null: it is streamed.
SinceTraining CompareTextWithTraining(const proto::DatasetSpec& spec, const RowChain& words,
                                      const RowChain* numbers);

// What of `spec` draws parts otherwise than in training: "split.test was 0.1 and is 0.2"; empty
// where nothing does.
std::string DrawChange(const proto::DatasetSpec& spec);

// So many rows keep the parts that they had in training.
inline int64_t RowsThatKeepParts(SinceTraining since, const proto::DatasetSpec& spec) {
  return since == SinceTraining::kSame || since == SinceTraining::kGrown ? spec.trained().rows()
                                                                         : 0;
}

}  // namespace coxswain::data
