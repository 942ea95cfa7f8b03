// Where the rows of files go while a table is read.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "runtime/data/columns.h"
#include "runtime/data/row_chain.h"
#include "runtime/data/sinks.h"
#include "runtime/data/table.h"

namespace coxswain::data {

// For a reader of files: each row goes to all sinks and lists and, as far as it is used, to the
// chain; then it ends. Thread model: one thread.
class TableRows {
 public:
  struct Binding {
    std::string column;
    std::unique_ptr<FieldSink> sink;
  };

  // `table` outlives it. `mark`: of the chain.
  TableRows(Table* table, int64_t mark) : table_(table), chain_(mark) {}

  // A column of text is read into the sink; the indices of each row are appended to the list.
  void Bind(const std::string& column, std::unique_ptr<FieldSink> sink) {
    bindings_.push_back({column, std::move(sink)});
  }
  void BindIndices(RaggedIds* list) { index_lists_.push_back(list); }

  const std::vector<Binding>& bindings() const { return bindings_; }
  const std::vector<RaggedIds*>& index_lists() const { return index_lists_; }
  RowChain& chain() { return chain_; }
  // The row is complete, which began on this line of the file. Errors: ResourceExhausted where a
  // data set cannot have any more.
  absl::Status EndRow(const std::string& path, int64_t line);
  // The file's, or what else the rows depend on.
  void AddContent(uint64_t hash) { table_->content_hash = HashPair(table_->content_hash, hash); }

 private:
  Table* const table_;
  RowChain chain_;
  std::vector<Binding> bindings_;
  std::vector<RaggedIds*> index_lists_;
};

}  // namespace coxswain::data
