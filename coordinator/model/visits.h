// Counts how often each training example was used, where it cannot be talked away: in a table of a
// row per example that is kept, updated, lost and restored like the model's own. A training step
// adds 1 to the rows of its examples.
#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "coordinator/api/variable_info.h"
#include "coxswain/strategy.h"

namespace coxswain::model {

// Tables of this name and below it are no part of the model: they are not saved with it, not shown
// and not put back to the best values.
inline constexpr char kInternalPrefix[] = "coxswain/";
bool IsInternal(const VariableInfo& info);
bool IsInternalName(absl::string_view variable);

// [training examples, 1], f32: exact up to 2^24 visits. The data set must give "example_id".
absl::StatusOr<EmbeddingTable> CreateVisits(ParameterServerStrategy* strategy,
                                            const PerWorkerDataset& dataset);
// Adds 1 to the rows of the batch's examples, the first of which has the row `first`.
void CountVisits(FunctionBuilder& f, const EmbeddingTable& visits, int64_t first = 0);
// Of data sets that follow one another (dataset.follow), the row of the n-th one's first example.
// The table is a hash table then.
inline int64_t FirstVisitOf(int64_t dataset) { return dataset << 32; }

struct Visitation {
  int64_t examples = 0;  // of the training part
  int64_t missing = 0;   // used less often than planned
  int64_t repeated = 0;  // used more often
};

// Holds the table against `trained`, the number of examples that the job's tickets had, which go
// through the epochs from the first one on. Errors: NotFound when visits were not counted; those of
// reading.
// Where examples come while the job runs, `trained` says how many of them were to be used, each
// once.
absl::StatusOr<Visitation> CheckVisits(ParameterServerStrategy* strategy,
                                       const PerWorkerDataset& dataset, int64_t trained);

}  // namespace coxswain::model
