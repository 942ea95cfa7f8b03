// A format of data files: its defaults for and restrictions on a DatasetSpec, and how a file is
// read into rows. Each format is one file in runtime/data/formats, and a line in the list there.
// The keys with which a job describes it are in coordinator/job/formats.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "protos/dataset.pb.h"
#include "runtime/data/data_file.h"
#include "runtime/data/sinks.h"

namespace coxswain::env {
class RandomAccessFile;
}  // namespace coxswain::env

namespace coxswain::data {

class OpenArrowFiles;  // runtime/data/arrow/open_arrow_files.h
class TableRows;       // runtime/data/table_rows.h

// Whole rows from any position in a file, decompressed.
struct FileBlock {
  std::string path;
  std::vector<char> bytes;           // empty if has_groups()
  int64_t first_line = 1;            // the number of its first line
  int64_t first_column = 1;          // of a text, whose blocks may begin within a line
  std::vector<std::string> columns;  // of the file, in its order; empty if lines have no columns
  int64_t rows = 0;                  // where it is known
  std::string beside;                // what these rows have in the file beside theirs

  // Where has_groups(): rows from `group_row` on of a group whose content has the hash, in a file
  // of this size; else the error is changed(). Without `changed` the file was not looked at before:
  // whatever it holds is read, and errors are what is wrong with it.
  int64_t group = 0, group_row = 0, file_bytes = 0;
  uint64_t hash = 0;
  std::function<absl::Status()> changed = nullptr;
  OpenArrowFiles* open_files = nullptr;  // which it is read from; null: it is opened for this block
};

// Thread model: const methods may be called from any thread.
class DataFormat {
 public:
  virtual ~DataFormat() = default;
  // The name in DatasetSpec.format: "csv".
  virtual const char* name() const = 0;

  // Called before features that have only one of name and column get the other.
  virtual void FillDefaults(proto::DatasetSpec* spec) const { (void)spec; }
  // Checks that are specific to this format; called after FillDefaults. Errors: InvalidArgument.
  virtual absl::Status Check(const proto::DatasetSpec& spec) const {
    (void)spec;
    return absl::OkStatus();
  }
  // Whether the feature's values are indices with weights: they become ids without a vocabulary.
  virtual bool HasIndices(const proto::FeatureSpec& feature) const {
    (void)feature;
    return false;
  }
  // False: a file is one long text, whose positions are examples. ReadText reads it into memory; as
  // rows it has its words, of which an index is made.
  virtual bool has_rows() const { return true; }
  // Whether its columns have names by which rows in another format could be read in their place.
  virtual bool names_columns() const { return true; }
  // Whether a row is an object, which may lack columns, and have lists of any texts.
  virtual bool has_objects() const { return false; }
  // Whether its reader tells which texts stand for missing values (DatasetSpec.csv). Where it does
  // not, the sinks of its columns do.
  virtual bool tells_missing_values() const { return false; }
  // Whether a label stands in each row, whoever wants to know it.
  virtual bool has_labels() const { return false; }
  // The columns of a file whose first row this is, if the format alone says which; else none.
  virtual std::vector<std::string> FixedColumns(absl::string_view first_row) const {
    (void)first_row;
    return {};
  }
  // Makes `spec`, whose format is this one, fit rows that are asked for in it to be predicted.
  // `other`: the data set that the model was trained on was of another format.
  virtual void UseForRows(bool other, proto::DatasetSpec* spec) const { (void)other, (void)spec; }
  // Why the files of this data set cannot be read in blocks, as an error says it; empty: they can.
  virtual std::string WhyNoBlocks(const proto::DatasetSpec& spec) const {
    (void)spec;
    return "";
  }
  // False: its files can be read only from beginning to end.
  virtual bool has_blocks() const { return has_rows(); }

  // Its readers can pass over rows that they cannot read, see DatasetSpec.max_bad_rows.
  virtual bool passes_over_rows() const { return false; }

  // Its rows end at line ends; required of input from pipes.
  virtual bool has_lines() const { return has_blocks() && !has_groups(); }

  // A large file can be read in ranges of its bytes, of whole rows each.
  virtual bool has_ranges() const { return has_lines(); }
  // Where such a range may end: at the first begin of a row at `at` or behind it, or where the file
  // ends. A guess: who reads the rows in front finds out. `known`: in front of `at`, where a row
  // begins. Errors: those of RandomAccessFile.
  virtual absl::StatusOr<int64_t> FindRow(const proto::DatasetSpec& spec,
                                          absl::Span<const std::string> columns,
                                          const env::RandomAccessFile& file, int64_t known,
                                          int64_t at) const;

  // True: files store columns in groups of rows, and are read by group instead of by ranges of
  // bytes.
  virtual bool has_groups() const { return false; }
  // The names of the columns of such a file. Errors: those of Read.
  virtual absl::StatusOr<std::vector<std::string>> GroupColumns(const std::string& path) const {
    return absl::UnimplementedError(path + ": it has lines");
  }
  // How many rows each of its groups has. Errors: those of Read.
  virtual absl::StatusOr<std::vector<int64_t>> GroupSizes(const std::string& path) const {
    return absl::UnimplementedError(path + ": it has lines");
  }

  // By group, what an object store is asked for to read the columns that `rows` are bound to.
  // Errors: those of Read.
  virtual absl::StatusOr<std::vector<std::vector<ByteRange>>> GroupRanges(
      const std::string& path, OpenArrowFiles* open_files, TableRows* rows) const {
    (void)open_files, (void)rows;
    return absl::UnimplementedError(path + ": it has lines");
  }

  // Reads groups [first, end) of such a file; Read reads all. Errors: those of Read.
  virtual absl::Status ReadGroups(const std::string& path, int64_t first, int64_t end,
                                  TableRows* rows) const {
    (void)first, (void)end, (void)rows;
    return absl::UnimplementedError(path + ": it has lines");
  }
  // True: each row has a byte in another file, too, which is small enough to be held in memory.
  virtual bool has_files_beside() const { return false; }
  // Its path; empty where nobody reads that column. Errors: those of Read.
  virtual absl::StatusOr<std::string> PathBeside(const proto::DatasetSpec& spec,
                                                 const std::string& path) const {
    (void)spec, (void)path;
    return std::string();
  }
  // These bytes, of the rows one after the other: at most so many. Errors: those of Read;
  // ResourceExhausted.
  virtual absl::StatusOr<std::string> ReadBeside(const std::string& beside,
                                                 int64_t most_bytes) const {
    (void)most_bytes;
    return absl::UnimplementedError(beside + ": it has rows of its own");
  }

  // What Read adds to the content of the data set for a file whose unpacked bytes have this hash.
  virtual uint64_t ContentOf(const std::string& path, uint64_t hash) const {
    (void)path;
    return hash;
  }

  // Wraps the sink of a text column in one that first checks that the field is valid in this
  // format.
  virtual std::unique_ptr<FieldSink> Checked(const std::string& column,
                                             std::unique_ptr<FieldSink> sink) const {
    (void)column;
    return sink;
  }
  // Reads one file. Errors: those of ReadTable.
  virtual absl::Status Read(const proto::DatasetSpec& spec, const std::string& path,
                            TableRows* rows) const = 0;
  // Reads a block of a file, as reported to a RowListener. Errors: those of Read; Unimplemented for
  // a format that has no rows.
  virtual absl::Status ReadBlock(const proto::DatasetSpec& spec, FileBlock block,
                                 TableRows* rows) const = 0;
};

// In the order of the list: runtime/data/formats/format_list.h.
const std::vector<const DataFormat*>& AllDataFormats();
// Null when no format has this name.
const DataFormat* FindDataFormat(absl::string_view name);
// The format of a spec that passed CheckSpec.
const DataFormat& FormatOf(const proto::DatasetSpec& spec);

}  // namespace coxswain::data
