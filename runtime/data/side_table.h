// Small tables beside the files of a data set: columns that each row gets by a key.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "protos/dataset.pb.h"
#include "runtime/data/csv_reader.h"

namespace coxswain::data {

// The file of one. Errors: those of CsvReader; of a Parquet file also that a side table is none.
absl::StatusOr<std::unique_ptr<CsvReader>> OpenSideTable(const proto::JoinSpec& spec);

// One of them, by its key. Of its columns it has those that somebody wants.
// Thread model: immutable.
class SideTable {
 public:
  // `wanted`: names with the prefix. Errors: those of CsvReader; InvalidArgument for a key that
  // comes twice, by file and line; NotFound when the file lacks the key's column; ResourceExhausted
  // for a table that takes more than `most_bytes`.
  static absl::StatusOr<SideTable> Read(const proto::JoinSpec& spec,
                                        const std::vector<std::string>& wanted, int64_t most_bytes);

  const proto::JoinSpec& spec() const { return spec_; }
  // -1 for a column that it has not, or that nobody wants.
  int Column(absl::string_view name) const;
  // -1 for a key that it has not.
  int64_t Row(absl::string_view key) const;
  int64_t line(int64_t row) const { return lines_[static_cast<size_t>(row)]; }
  absl::string_view Field(int64_t row, int column) const;
  // The field stands for a missing value.
  bool IsMissing(absl::string_view field) const;

  int64_t bytes() const { return bytes_; }  // that it takes
  uint64_t content_hash() const { return content_hash_; }

 private:
  friend class SideTableReader;

  proto::JoinSpec spec_;
  std::vector<std::string> columns_;  // names with the prefix
  absl::flat_hash_map<std::string, int64_t> rows_;
  std::string text_;           // of all fields, row by row
  std::vector<int64_t> ends_;  // of each field
  std::vector<int64_t> lines_;
  int64_t bytes_ = 0;
  uint64_t content_hash_ = 0;
};

// All of a data set. Thread model: immutable.
class SideTables {
 public:
  // Of a spec that CheckSpec returned. Errors: those of SideTable; InvalidArgument for a column
  // that several of the tables have, or that is the key of a table before. `most_bytes`: of all.
  static absl::StatusOr<std::shared_ptr<const SideTables>> Read(
      const proto::DatasetSpec& spec, int64_t most_bytes = std::numeric_limits<int64_t>::max());

  // The table that has a column; -1: the data set's files have it.
  int Find(absl::string_view column) const;
  const SideTable& table(int index) const { return tables_[static_cast<size_t>(index)]; }
  int size() const { return static_cast<int>(tables_.size()); }
  int64_t bytes() const;
  uint64_t content_hash() const;

 private:
  std::vector<SideTable> tables_;
};

// Whether the files of its tables may become others without it being another data set: what a job
// that follows has before its files. Each epoch of these reads the tables as they are then.
bool MayReplaceTables(const proto::DatasetSpec& spec);

// What these take of the memory of a data set; 0 for null.
int64_t BytesOf(const std::shared_ptr<const SideTables>& tables);

// The columns that a data set reads, of its files and of side tables; each once.
std::vector<std::string> ColumnsRead(const proto::DatasetSpec& spec);

}  // namespace coxswain::data
