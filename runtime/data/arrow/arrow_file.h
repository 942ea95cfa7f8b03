// A file of columns that Apache Arrow reads: the C table of the plugin as C++.
//
// The file's bytes are read here, not by Arrow: so a row group's can be hashed before they are
// used, and errors of the disk are ours.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "runtime/data/arrow/arrow_api.h"
#include "runtime/data/data_file.h"
#include "runtime/env/random_access_file.h"

namespace coxswain::data {

// The plugin's table, loaded once. Errors: NotFound, with what is to be installed;
// FailedPrecondition for a plugin that does not fit.
absl::StatusOr<const CoxArrowApi*> LoadArrowPlugin();

// Where the bytes of files come from. Thread model: thread-safe.
struct ArrowInput {
  // Errors: those of OpenDataFile.
  std::function<absl::StatusOr<std::shared_ptr<const env::RandomAccessFile>>(const std::string&)>
      open = OpenDataFile;
  // Gives a range that was asked for before; false: it is to be read. May be null.
  std::function<bool(const std::string& path, const ByteRange& range, void* out)> take = nullptr;
};

// Thread model: one thread.
class ArrowFile {
 public:
  // Errors: those of OpenDataFile, RandomAccessFile and LoadArrowPlugin, where nothing is known
  // of the content; InvalidArgument "clicks.parquet: ..." for what is no such file.
  static absl::StatusOr<std::unique_ptr<ArrowFile>> Open(const std::string& path,
                                                         CoxArrowFormat format,
                                                         const ArrowInput& input = {});
  ~ArrowFile();
  ArrowFile(const ArrowFile&) = delete;
  ArrowFile& operator=(const ArrowFile&) = delete;

  const std::string& path() const { return bytes_.file->path(); }
  int64_t bytes() const { return static_cast<int64_t>(bytes_.file->size()); }
  // What was read to open it.
  int64_t footer_bytes() const { return footer_bytes_; }
  int64_t groups() const { return api_->groups(file_); }
  absl::Span<const CoxArrowField> fields() const { return fields_; }
  // The number of the field of that name. Errors: NotFound with the nearest name; InvalidArgument
  // where two fields have it.
  absl::StatusOr<int32_t> FindField(const std::string& name) const;

  // Of a row group.
  absl::StatusOr<int64_t> Rows(int64_t group);
  // How many bytes LoadGroup reads.
  absl::StatusOr<int64_t> GroupBytes(int64_t group, absl::Span<const int32_t> fields);
  // What LoadGroup asks an object store for.
  absl::StatusOr<std::vector<ByteRange>> GroupRequests(int64_t group,
                                                       absl::Span<const int32_t> fields);
  // Reads the bytes of some fields of a group, and nothing else. The hash is of these bytes and of
  // the fields' types. Errors: InvalidArgument for ranges that the file does not have; those of
  // RandomAccessFile.
  struct Group {
    int64_t rows = 0;
    uint64_t hash = 0;
  };
  absl::StatusOr<Group> LoadGroup(int64_t group, absl::Span<const int32_t> fields);
  // Calls `use` with the columns of some rows, until the group ends, and forgets its bytes. `use`
  // gets the columns of LoadGroup, in its order. Errors: InvalidArgument, DataLoss for a group that
  // is broken, with its number and the column; those of `use`.
  absl::Status ReadGroup(
      int64_t group, absl::Span<const int32_t> fields, int64_t batch_rows,
      absl::FunctionRef<absl::Status(const CoxArrowColumn* columns, int64_t rows)> use);

 private:
  // What was read of the file and may be looked at.
  struct Bytes {
    struct Range {
      int64_t offset, bytes;
      std::unique_ptr<char[]> data;
    };
    std::shared_ptr<const env::RandomAccessFile> file;
    decltype(ArrowInput::take) take;
    std::vector<Range> ranges;

    absl::Status failed;  // of the file itself, in the call of the plugin that is going on

    // Null where the file has no such range, or cannot be read: then `status` says why.
    const char* Find(int64_t offset, int64_t bytes, absl::Status* status);
  };

  explicit ArrowFile(const CoxArrowApi* api) : api_(api) {}
  static int32_t ReadBytes(void* context, int64_t offset, int64_t bytes, const void** data,
                           CoxArrowError* error);
  // The status of a call's code: of a file that cannot be read the error of the file, of which the
  // plugin knows no more than words.
  // `place`: of the file, put in front of these, with what separates it from them.
  absl::Status StatusOf(int32_t code, const CoxArrowError& error, absl::string_view place = "");
  // ReadGroup, but for the bytes, which stay, and for errors: those of Arrow begin with `place`.
  absl::Status Decode(
      int64_t group, absl::Span<const int32_t> fields, int64_t batch_rows, absl::string_view place,
      absl::FunctionRef<absl::Status(const CoxArrowColumn* columns, int64_t rows)> use);
  absl::StatusOr<absl::Span<const CoxArrowRange>> RangesOf(int64_t group,
                                                           absl::Span<const int32_t> fields,
                                                           int64_t* rows);

  const CoxArrowApi* const api_;
  Bytes bytes_;
  CoxArrowFile* file_ = nullptr;
  int64_t footer_bytes_ = 0;
  absl::Span<const CoxArrowField> fields_;
};

}  // namespace coxswain::data
