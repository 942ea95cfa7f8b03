// A format of data files: what a DatasetSpec of it leaves out and must not say, and how a file
// becomes rows. Each is one file of runtime/data/formats, and a line in the list there. The keys by
// which a job describes it are in coordinator/job/formats.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "protos/dataset.pb.h"
#include "runtime/data/sinks.h"

namespace coxswain::data {

class TableRows;  // runtime/data/table_rows.h

// Whole rows from somewhere in a file, unpacked.
struct FileBlock {
  std::string path;
  std::vector<char> bytes;           // none where has_groups()
  int64_t first_line = 1;            // the number of its first line
  std::vector<std::string> columns;  // of the file, in its order; none where lines have no columns

  // Where has_groups(): rows from `group_row` on of a group whose content has the hash, in a file
  // of this size; else the error is changed(). Without `changed` the file was not looked at before:
  // whatever it holds is read, and errors are what is wrong with it.
  int64_t group = 0, group_row = 0, rows = 0, file_bytes = 0;
  uint64_t hash = 0;
  std::function<absl::Status()> changed = nullptr;
};

// Thread model: const methods from any thread.
class DataFormat {
 public:
  virtual ~DataFormat() = default;
  // As DatasetSpec.format has it: "csv".
  virtual const char* name() const = 0;

  // Before a feature has its other name where it has but one (name and column).
  virtual void FillDefaults(proto::DatasetSpec* spec) const { (void)spec; }
  // What holds of this format's specs only; after FillDefaults. Errors: InvalidArgument.
  virtual absl::Status Check(const proto::DatasetSpec& spec) const {
    (void)spec;
    return absl::OkStatus();
  }
  // Whether the feature's values are indices with weights: they become ids without a vocabulary.
  virtual bool HasIndices(const proto::FeatureSpec& feature) const {
    (void)feature;
    return false;
  }
  // False: a file is one long text, whose places are examples; ReadText reads it.
  virtual bool has_rows() const { return true; }
  // False: its files are read from begin to end only.
  virtual bool has_blocks() const { return has_rows(); }

  // Its rows end where lines do; all files that pipes bring are such.
  virtual bool has_lines() const { return has_blocks() && !has_groups(); }

  // A file has columns, and its rows are in groups: it is read by these, not by ranges of bytes.
  virtual bool has_groups() const { return false; }
  // Of such a file: the names of its columns. Errors: those of Read.
  virtual absl::StatusOr<std::vector<std::string>> GroupColumns(const std::string& path) const {
    return absl::UnimplementedError(path + ": it has lines");
  }
  // How many rows each of its groups has. Errors: those of Read.
  virtual absl::StatusOr<std::vector<int64_t>> GroupSizes(const std::string& path) const {
    return absl::UnimplementedError(path + ": it has lines");
  }

  // The sink of a column of text; one that first makes sure that the field is what the format has
  // there.
  virtual std::unique_ptr<FieldSink> Checked(const std::string& column,
                                             std::unique_ptr<FieldSink> sink) const {
    (void)column;
    return sink;
  }
  // Reads one file. Errors: those of ReadTable.
  virtual absl::Status Read(const proto::DatasetSpec& spec, const std::string& path,
                            TableRows* rows) const = 0;
  // Reads a part of one, of which RowListener knows the place. Errors: those of Read; Unimplemented
  // for a format that has no rows.
  virtual absl::Status ReadBlock(const proto::DatasetSpec& spec, FileBlock block,
                                 TableRows* rows) const = 0;
};

// In the order of the list: runtime/data/formats/format_list.h.
const std::vector<const DataFormat*>& AllDataFormats();
// Null when there is none of that name.
const DataFormat* FindDataFormat(absl::string_view name);
// Of a spec that CheckSpec knows the format of.
const DataFormat& FormatOf(const proto::DatasetSpec& spec);

}  // namespace coxswain::data
