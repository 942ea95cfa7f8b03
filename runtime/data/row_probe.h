// Finds out whether a row can be read before anything of it is added to the rows of a data set.
//
// That depends on its own text and on the spec: not on other rows, nor on a vocabulary that is
// learned from them, so that each process and each pass finds the same.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "protos/dataset.pb.h"
#include "runtime/data/table.h"
#include "runtime/data/table_rows.h"

namespace coxswain::data {

// Thread model: one thread.
class RowProbe {
 public:
  // `tables`: the side tables of the spec; null: they are read. Errors: those of BindColumns.
  static absl::StatusOr<std::unique_ptr<RowProbe>> Create(const proto::DatasetSpec& spec,
                                                          std::shared_ptr<const SideTables> tables);

  // Sinks for the columns that rows are read of. Good until Renew, which is to be called when a row
  // was not good: then sinks have parts of it. They keep what they get, so it is to be called after
  // some thousand rows, too.
  const std::vector<TableRows::Binding>& bindings() const { return rows_->bindings(); }
  absl::Status Renew();

 private:
  explicit RowProbe(proto::DatasetSpec spec) : spec_(std::move(spec)) {}

  const proto::DatasetSpec spec_;
  std::shared_ptr<const SideTables> side_tables_;
  std::unique_ptr<Table> table_;
  std::unique_ptr<TableRows> rows_;
};

}  // namespace coxswain::data
