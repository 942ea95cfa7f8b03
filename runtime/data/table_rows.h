// The destination of rows while files are read into a table.
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
#include "runtime/data/bad_rows.h"
#include "runtime/data/columns.h"
#include "runtime/data/data_file.h"
#include "runtime/data/input_file.h"
#include "runtime/data/row_chain.h"
#include "runtime/data/sinks.h"
#include "runtime/data/table.h"

namespace coxswain::data {

class RowProbe;  // runtime/data/row_probe.h

// A row group of a file of columns.
struct RowGroup {
  std::string path;
  int64_t group = 0;  // its number
  int64_t rows = 0;
  int64_t first_line = 1;  // the number of its first row in the file
  uint64_t hash = 0;       // of the columns that are read
  int64_t bytes = 0;       // its share of the file
};

// Observes rows as they are read, and the positions in the file between them. Thread model: as
// TableRows.
class RowListener {
 public:
  virtual ~RowListener() = default;
  // A file was opened, and its first row comes next; `columns` are the names of its columns, if it
  // has any.
  virtual absl::Status OnFile(InputFile* input, absl::Span<const std::string> columns,
                              int64_t next_line) = 0;
  // A row was added. The reader has consumed exactly the bytes up to its end.
  virtual absl::Status OnRow(InputFile* input, int64_t next_line) = 0;
  // The file has no more rows, and all of its bytes were consumed.
  virtual absl::Status OnEnd(InputFile* input) = 0;

  // These bytes of the input are a row that is passed over, and were consumed.
  virtual void OnBadRow(InputFile* input, const ByteRange& bytes, const absl::Status& wrong) {
    (void)input, (void)bytes, (void)wrong;
  }

  // For files of columns, instead of the calls above: the rows of a group come next; some rows of
  // it were added.
  virtual absl::Status OnGroup(const RowGroup& group) = 0;
  virtual absl::Status OnGroupRows(int64_t rows) = 0;
  // For files of lines: the number of bytes for which the listener need not see rows.
  virtual int64_t bytes_left(const InputFile& input) const = 0;
  // The most rows that it may be told of at a time.
  virtual int64_t piece_rows() const = 0;
  // The most bytes that the columns of a group may have in the file: they are read as a whole.
  virtual int64_t most_group_bytes() const { return std::numeric_limits<int64_t>::max(); }
};

// For readers of files: a reader gives each row to all sinks and lists, and adds the used columns
// to the chain; then it ends the row. Thread model: one thread.
class TableRows {
 public:
  struct Binding {
    std::string column;
    std::unique_ptr<FieldSink> sink;
  };

  // `table` must outlive it. `mark`: the chain's mark.
  TableRows(Table* table, int64_t mark) : table_(table), chain_(mark) {}

  // Bind: a text column is read into the sink. BindIndices: the indices of each row are appended to
  // the list.
  void Bind(const std::string& column, std::unique_ptr<FieldSink> sink) {
    bindings_.push_back({column, std::move(sink)});
  }
  void BindIndices(RaggedIds* list) { index_lists_.push_back(list); }
  // A column of a side table, which is bound through its key; no file may also have it.
  void AddJoined(const std::string& column, const std::string& path) {
    joined_.emplace_back(column, path);
  }

  void set_listener(RowListener* listener) { listener_ = listener; }
  // From now on so many rows that cannot be read may be passed over. The table has its side tables.
  absl::Status PassOverBadRows(const proto::DatasetSpec& spec, int64_t most);
  // What tries rows before they are added; null: none is passed over.
  RowProbe* probe() { return probe_.get(); }
  // A row is passed over, whose bytes the reader has consumed. The probe is new afterwards. Errors:
  // InvalidArgument where there are too many.
  absl::Status AddBadRow(InputFile* input, const ByteRange& bytes, const absl::Status& wrong);
  const BadRows& bad_rows() const { return bad_rows_; }

  // For formats whose rows name their columns: records names of columns for messages, and whether
  // each bound column has occurred so far.
  bool wants_names() const { return names_.empty(); }
  void SetNames(std::vector<std::string> names) { names_ = std::move(names); }
  void SetFound(const std::string& column, bool found) {
    bool& any = found_[column];
    any = any || found;
  }
  const std::vector<std::string>& names() const { return names_; }
  const std::map<std::string, bool>& found() const { return found_; }
  // Errors: NotFound for a column that no row had.
  absl::Status CheckFound(const std::string& path) const;

  const std::vector<Binding>& bindings() const { return bindings_; }
  const std::vector<RaggedIds*>& index_lists() const { return index_lists_; }
  RowChain& chain() { return chain_; }
  const RowChain& chain() const { return chain_; }
  // The chain of these rows is not needed, so readers need not add to it.
  void LeaveOutChain() { chained_ = false; }
  bool chained() const { return chained_; }
  // Call it before the first row of a file. Errors: InvalidArgument for a column that a side table
  // also has; those of the listener.
  absl::Status StartFile(InputFile* input, absl::Span<const std::string> columns,
                         int64_t next_line);
  // The row that began on line `line` of the file is complete; the next one begins on `next_line`
  // at the earliest. Errors: ResourceExhausted when a data set cannot have more rows; those of the
  // listener.
  absl::Status EndRow(InputFile* input, int64_t line, int64_t next_line);
  // As EndRow, for `rows` rows, each on its own line; the reader has ended the rows of the chain.
  absl::Status EndLines(InputFile* input, int64_t line, int64_t rows);
  // As EndLines, for `lines` lines of which these, ascending from 0, were passed over.
  absl::Status EndLinesBut(InputFile* input, int64_t line, int64_t lines,
                           absl::Span<const int64_t> bad);
  // As EndLines, for the words of a text, which have no places of their own.
  absl::Status EndWords(InputFile* input, int64_t words, int64_t next_line);
  // After this many further bytes of input, the reader must end its rows.
  int64_t bytes_left(const InputFile& input) const {
    return listener_ == nullptr ? std::numeric_limits<int64_t>::max()
                                : listener_->bytes_left(input);
  }
  // Call it after the last row of a file.
  absl::Status EndFile(InputFile* input) {
    return listener_ == nullptr ? absl::OkStatus() : listener_->OnEnd(input);
  }
  // For readers of columns, which add several rows at a time: the counterparts of StartFile, EndRow
  // and EndFile. Here the reader ends the rows of the chain. `line`: the number of the first row in
  // the file.
  absl::Status StartGroup(const RowGroup& group) {
    return listener_ == nullptr ? absl::OkStatus() : listener_->OnGroup(group);
  }
  // Errors: ResourceExhausted for a group whose columns have more bytes in the file than the
  // listener has room for; call it before they are read.
  absl::Status CheckGroup(const std::string& path, int64_t group, int64_t bytes) const;
  // The most that they may have.
  int64_t most_group_bytes() const {
    return listener_ == nullptr ? std::numeric_limits<int64_t>::max()
                                : listener_->most_group_bytes();
  }
  absl::Status EndRows(const std::string& path, int64_t line, int64_t rows);
  // The most rows that may be added between two calls of EndRows.
  int64_t piece_rows() const {
    return listener_ == nullptr ? std::numeric_limits<int64_t>::max() : listener_->piece_rows();
  }
  // A new number for a batch of columns.
  uint64_t NewBatch() { return ++batches_; }
  // Adds the hash of a file, or of other content that the rows depend on.
  void AddContent(uint64_t hash) {
    table_->content_hash = HashPair(table_->content_hash, hash);
    contents_.push_back(hash);
  }
  // All that was added, one after the other.
  const std::vector<uint64_t>& contents() const { return contents_; }

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
  std::vector<uint64_t> contents_;
  std::vector<std::pair<std::string, std::string>> joined_;  // columns, and the tables' paths
  std::shared_ptr<RowProbe> probe_;
  int64_t most_bad_ = 0;
  BadRows bad_rows_;
};

}  // namespace coxswain::data
