// Saved rows onto parameter servers, in pieces, so that a table may be larger than memory. What is
// saved has the width of the variable, which is the strategy's, and its dtype, or that of its
// values. It becomes the weights, or another part of the same rows.
//
// Errors: those of reading (saved_reader.h) and of the cluster.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "coordinator/api/variable_info.h"
#include "coordinator/model/saved_reader.h"
#include "coxswain/strategy.h"

namespace coxswain::model {

// Where rows go.
struct PartOfRows {
  int slot = 0;          // see coordinator/api/slot_rows.h
  bool per_row = false;  // one value a row
};

// A dense variable of the same shape.
absl::Status CopyDense(const SavedRows& rows, const std::shared_ptr<const VariableInfo>& info,
                       ParameterServerStrategy* strategy, const PartOfRows& part = {});

// The ids that are in use, with their rows; what the hash table has beside them stays. Returns how
// many there are. A part other than the weights is of ids that have been copied before.
absl::StatusOr<int64_t> CopyIds(const SavedRows& rows, const VariableInfo& info,
                                ParameterServerStrategy* strategy, const PartOfRows& part = {});

// How rows that have been copied were used (cluster::RowUse), for a hash table that evicts rows and
// that nothing has trained yet. `rows` has uses.
absl::Status CopyUses(const SavedRows& rows, const VariableInfo& info,
                      ParameterServerStrategy* strategy);

// Which row of what is saved each row of a table begins with; -1: none.
struct RowMap {
  int64_t same = 0;             // rows [0, same) are the same ones
  std::vector<int64_t> behind;  // of the others

  int64_t taken() const;
};
// The rows of a table that the map has; others stay.
absl::Status CopyMapped(const SavedRows& rows, const VariableInfo& info, const RowMap& map,
                        ParameterServerStrategy* strategy, const PartOfRows& part = {});

// Which element of what is saved each element of a dense variable begins with: that of the saved
// row and column; -1: none. Of a variable of one axis only `rows` count; without `columns`, all are
// the same ones.
struct ElementMap {
  std::vector<int64_t> rows, columns;
};
// The elements of a dense variable that the map has; others stay. What is saved is in memory.
absl::Status CopyElements(const SavedRows& rows, const VariableInfo& info, const ElementMap& map,
                          ParameterServerStrategy* strategy, const PartOfRows& part = {});

// Rows [begin, end) of a table, which is not one by "hash", get what is in memory.
absl::Status WriteSpan(const VariableInfo& info, int64_t begin, int64_t end, DType dtype,
                       const char* rows, ParameterServerStrategy* strategy,
                       const PartOfRows& part = {});

// All rows of a table, whatever its strategy; of one by "hash" they are in memory at once.
absl::Status CopyTable(const SavedRows& rows, const std::shared_ptr<const VariableInfo>& info,
                       ParameterServerStrategy* strategy);

}  // namespace coxswain::model
