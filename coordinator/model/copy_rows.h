// Saved rows onto parameter servers, in pieces, so that a table may be larger than memory. What is
// saved has the width of the variable, which is the strategy's, and its dtype, or where it is no
// hash table that of its values.
//
// Errors: those of reading (saved_reader.h) and of the cluster.
#pragma once

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "coordinator/api/variable_info.h"
#include "coordinator/model/saved_reader.h"
#include "coxswain/strategy.h"

namespace coxswain::model {

// A dense variable of the same shape.
absl::Status CopyDense(const SavedRows& rows, const std::shared_ptr<const VariableInfo>& info,
                       ParameterServerStrategy* strategy);

// The ids that are in use, with their rows; what the hash table has beside them stays. Returns how
// many there are.
absl::StatusOr<int64_t> CopyIds(const SavedRows& rows, const VariableInfo& info,
                                ParameterServerStrategy* strategy);

// Rows [0, count) of a table become rows [0, count) of the strategy's, which is not one by "hash".
absl::Status CopyFirstRows(const SavedRows& rows, const VariableInfo& info, int64_t count,
                           ParameterServerStrategy* strategy);

// Rows [begin, end) of such a table get what is in memory.
absl::Status WriteSpan(const VariableInfo& info, int64_t begin, int64_t end, DType dtype,
                       const char* rows, ParameterServerStrategy* strategy);

// All rows of a table, whatever its strategy; of one by "hash" they are in memory at once.
absl::Status CopyTable(const SavedRows& rows, const std::shared_ptr<const VariableInfo>& info,
                       ParameterServerStrategy* strategy);

}  // namespace coxswain::model
