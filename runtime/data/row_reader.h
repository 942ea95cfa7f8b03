// Rows that are to be predicted, of other files or of requests, read as a model's data set reads
// them: by its vocabularies and statistics, through the sinks and columns that training reads by.
// They need no label.
//
// A list longer than the feature's max_values is sampled by its values, as in evaluations.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "protos/dataset.pb.h"
#include "runtime/data/batch.h"
#include "runtime/data/data_format.h"
#include "runtime/data/dataset.h"
#include "runtime/data/side_table.h"
#include "runtime/data/table_rows.h"

namespace coxswain::data {

// Rows in memory. Thread model: immutable.
class InputRows {
 public:
  int64_t rows() const { return rows_; }
  // The line on which a row begins; of rows that came as cells their number, from 1.
  int64_t LineOf(int64_t row) const { return lines_[static_cast<size_t>(row)]; }
  // Rows [begin, end): tensors parallel to RowReader::columns. Errors: OutOfRange;
  // ResourceExhausted for 2^31 values or more.
  absl::StatusOr<Batch> Read(int64_t begin, int64_t end) const;

 private:
  friend class RowReader;
  std::vector<std::unique_ptr<Column>> columns_;
  std::vector<int64_t> lines_;
  int64_t rows_ = 0;
  uint64_t sample_key_ = 0;
};

// Thread model: immutable; all methods may be called from any thread.
class RowReader {
 public:
  // A column of text that rows must have.
  struct Input {
    enum class Kind : uint8_t { kNumber, kValue, kValues, kIndices };
    std::string column;
    Kind kind = Kind::kValue;
    std::string separator;  // kValues: between values; empty: white space
    bool any_text = false;  // kValues: a list may hold texts that no field of a file could
    bool optional = false;  // rows may lack it
  };
  // A row as the texts of columns.
  using Cells = std::vector<std::string>;
  // What such a column may have besides: nothing, or a list, in which a missing value is empty.
  using Value = std::variant<std::monostate, std::string, std::vector<std::string>>;

  // `data` is Dataset::WithoutRows of `spec`. Only features of which one of these columns of a
  // batch is made are read. Errors: InvalidArgument where one of them is a history.
  static absl::StatusOr<RowReader> Create(const proto::DatasetSpec& spec, const Dataset& data,
                                          absl::Span<const std::string> batch_columns);

  // For RowBlocks.
  const proto::DatasetSpec& spec() const { return spec_; }
  const std::vector<Input>& inputs() const { return inputs_; }
  const std::vector<ColumnSpec>& columns() const { return columns_; }

  // Errors: those of DataFormat::Read: "file:line:column: ...".
  absl::StatusOr<InputRows> ReadBlock(FileBlock block) const;
  // Rows of cells parallel to `names`. Errors: NotFound for a column that is missing;
  // InvalidArgument "rows[3]: column "age": wanted ..., found ...".
  absl::StatusOr<InputRows> ReadCells(absl::Span<const std::string> names,
                                      absl::Span<const Cells> rows) const;
  // The same of values.
  absl::StatusOr<InputRows> ReadValues(absl::Span<const std::string> names,
                                       absl::Span<const std::vector<Value>> rows) const;
  // The cell of an input that has these values. Errors: InvalidArgument where a cell cannot hold
  // them.
  absl::StatusOr<std::string> CellOf(const Input& input,
                                     absl::Span<const std::string> values) const;

 private:
  RowReader() = default;
  void ListInputs(const TableRows& rows);
  const Input& InputOfColumn(const std::string& column) const {
    return inputs_[input_of_column_.at(column)];
  }
  // Rows of a format of pairs, which has nothing but these.
  absl::StatusOr<InputRows> ReadPairs(size_t column,
                                      absl::Span<const std::vector<Value>> rows) const;
  // Errors, also of the next one: what is wrong with the value.
  absl::StatusOr<std::string> TextOf(const Input& input, const Value& value) const;
  absl::Status Append(const Input& input, const Value& value, FieldSink* sink) const;
  absl::StatusOr<InputRows> Finish(Table* table, std::vector<int64_t> lines) const;

  proto::DatasetSpec spec_;
  std::vector<std::shared_ptr<const Vocabulary>> vocabularies_;  // by feature
  std::vector<NumericTransform> transforms_;                     // by feature; of the numeric ones
  std::vector<int64_t> indices_;                                 // by feature; of libsvm's
  std::vector<uint64_t> sample_index_;                           // by feature
  std::shared_ptr<const SideTables> side_tables_;
  std::vector<Input> inputs_;
  absl::flat_hash_map<std::string, size_t> input_of_column_;
  std::vector<ColumnSpec> columns_;
};

}  // namespace coxswain::data
