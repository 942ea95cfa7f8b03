// Where the rows of files go while a table is read.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "runtime/data/columns.h"
#include "runtime/data/input_file.h"
#include "runtime/data/row_chain.h"
#include "runtime/data/sinks.h"
#include "runtime/data/table.h"

namespace coxswain::data {

// A group of the rows of a file that has columns, not lines.
struct RowGroup {
  std::string path;
  int64_t group = 0;  // its number
  int64_t rows = 0;
  int64_t first_line = 1;  // the number of its first row in the file
  uint64_t hash = 0;       // of what is read of it
  int64_t bytes = 0;       // of the file, its share
};

// Sees rows as they are read, and what is between them in the file. Thread model: as TableRows.
class RowListener {
 public:
  virtual ~RowListener() = default;
  // A file is open, and its first row comes next; `columns` are its names, if it has any.
  virtual absl::Status OnFile(InputFile* input, absl::Span<const std::string> columns,
                              int64_t next_line) = 0;
  // A row was added. The reader has consumed all of it, and nothing behind it.
  virtual absl::Status OnRow(InputFile* input, int64_t next_line) = 0;
  // The file has no more rows, and all of it is consumed.
  virtual absl::Status OnEnd(InputFile* input) = 0;

  // Of files of columns, instead of these: the rows of a group come next; some of them were added.
  virtual absl::Status OnGroup(const RowGroup& group) = 0;
  virtual absl::Status OnGroupRows(int64_t rows) = 0;
  // Of files of text: it need see no row before the input has gone on by so many bytes.
  virtual int64_t bytes_left(const InputFile& input) const = 0;
  // How many it wants to see at a time, at most.
  virtual int64_t piece_rows() const = 0;
};

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
  // A column that is bound by its key, for a side table has it; no file may have it, too.
  void AddJoined(const std::string& column, const std::string& path) {
    joined_.emplace_back(column, path);
  }

  void set_listener(RowListener* listener) { listener_ = listener; }

  // For formats whose rows say which columns they have. Names that a row has, for messages; whether
  // a column that is bound was in any row so far.
  bool wants_names() const { return names_.empty(); }
  void SetNames(std::vector<std::string> names) { names_ = std::move(names); }
  void SetFound(const std::string& column, bool found) {
    bool& any = found_[column];
    any = any || found;
  }
  // Errors: NotFound for a column that no row had.
  absl::Status CheckFound(const std::string& path) const;

  const std::vector<Binding>& bindings() const { return bindings_; }
  const std::vector<RaggedIds*>& index_lists() const { return index_lists_; }
  RowChain& chain() { return chain_; }
  // Nobody asks for the chain of these rows: nothing need be added to it.
  void LeaveOutChain() { chained_ = false; }
  bool chained() const { return chained_; }
  // Before the first row of a file. Errors: InvalidArgument for a column that a side table has,
  // too; those of the listener.
  absl::Status StartFile(InputFile* input, absl::Span<const std::string> columns,
                         int64_t next_line);
  // The row is complete, which began on line `line` of the file; the next one begins on `next_line`
  // at the earliest. Errors: ResourceExhausted where a data set cannot have any more; those of the
  // listener.
  absl::Status EndRow(InputFile* input, int64_t line, int64_t next_line);
  // As EndRow, of `rows` rows, each on a line of its own; the reader has ended the rows of the
  // chain.
  absl::Status EndLines(InputFile* input, int64_t line, int64_t rows);
  // Where the input has gone on by so many bytes, rows have to be ended.
  int64_t bytes_left(const InputFile& input) const {
    return listener_ == nullptr ? std::numeric_limits<int64_t>::max()
                                : listener_->bytes_left(input);
  }
  // Behind the last row of a file.
  absl::Status EndFile(InputFile* input) {
    return listener_ == nullptr ? absl::OkStatus() : listener_->OnEnd(input);
  }
  // For readers of columns, which add some rows at a time: StartFile, EndRow and EndFile, but that
  // the reader ends the rows of the chain. `line`: the number of the first one in the file.
  absl::Status StartGroup(const RowGroup& group) {
    return listener_ == nullptr ? absl::OkStatus() : listener_->OnGroup(group);
  }
  absl::Status EndRows(const std::string& path, int64_t line, int64_t rows);
  // How many rows may be added between two calls of EndRows.
  int64_t piece_rows() const {
    return listener_ == nullptr ? std::numeric_limits<int64_t>::max() : listener_->piece_rows();
  }
  // A number for a batch of columns, another one each time.
  uint64_t NewBatch() { return ++batches_; }
  // The file's, or what else the rows depend on.
  void AddContent(uint64_t hash) { table_->content_hash = HashPair(table_->content_hash, hash); }

 private:
  Table* const table_;
  RowChain chain_;
  bool chained_ = true;
  uint64_t batches_ = 0;
  RowListener* listener_ = nullptr;
  std::vector<Binding> bindings_;
  std::vector<RaggedIds*> index_lists_;
  std::vector<std::string> names_;
  std::map<std::string, bool> found_;
  std::vector<std::pair<std::string, std::string>> joined_;  // columns, and the tables' paths
};

}  // namespace coxswain::data
