// Vectors of words on parameter servers: a row is looked up where it lies, and so is the nearest
// one, by closures on the workers. No process reads the table.
//
// Thread model: that of the strategy.
#pragma once

#include <functional>

#include "absl/status/statusor.h"
#include "coordinator/model/word_eval.h"
#include "coxswain/strategy.h"

namespace coxswain::model {

// `table` is no hash table; `strategy` outlives what is returned. What is asked ends with Cancelled
// when `stopped` says so. Errors, also of what is asked: those of the cluster.
absl::StatusOr<WordTable> WordsOnCluster(ParameterServerStrategy* strategy,
                                         const EmbeddingTable& table,
                                         std::function<bool()> stopped);

}  // namespace coxswain::model
