// What was read of the file; then opening it, its fields, and the bytes and rows of its groups.
#include "runtime/data/arrow/arrow_file.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "runtime/base/status.h"
#include "runtime/data/data_file.h"
#include "runtime/data/hash.h"
#include "runtime/data/names.h"
#include "runtime/env/remote_path.h"

namespace coxswain::data {
namespace {

constexpr int64_t kMostRows = int64_t{1} << 40;  // of a group
// A request to a store takes as long as about as many bytes of another one.
constexpr int64_t kMostBetween = int64_t{1} << 20;

// On one line: Arrow's has several where one of its libraries adds its own.
std::string Message(const CoxArrowError& error) {
  const absl::string_view text(error.message, strnlen(error.message, sizeof(error.message)));
  return absl::StrJoin(absl::StrSplit(text, '\n', absl::SkipWhitespace()), "; ");
}

// Ranges that are near each other as one, with what lies between them; none where one makes no
// sense, which is found out when it is read.
std::vector<ByteRange> Joined(absl::Span<const CoxArrowRange> wanted) {
  std::vector<CoxArrowRange> sorted(wanted.begin(), wanted.end());
  std::sort(sorted.begin(), sorted.end(),
            [](const CoxArrowRange& a, const CoxArrowRange& b) { return a.offset < b.offset; });
  std::vector<ByteRange> joined;
  for (const CoxArrowRange& range : sorted) {
    if (range.offset < 0 || range.bytes < 0 || range.bytes > INT64_MAX - range.offset) return {};
    if (range.bytes == 0) continue;
    const int64_t end = joined.empty() ? 0 : joined.back().offset + joined.back().bytes;
    if (joined.empty() || range.offset - end > kMostBetween) {
      joined.push_back({range.offset, range.bytes});
    } else {
      joined.back().bytes = std::max(end, range.offset + range.bytes) - joined.back().offset;
    }
  }
  return joined;
}

}  // namespace

const char* ArrowFile::Bytes::Find(int64_t offset, int64_t bytes, absl::Status* status) {
  const auto size = static_cast<int64_t>(file->size());
  if (offset < 0 || bytes < 0 || offset > size || bytes > size - offset) {
    *status = absl::InvalidArgumentError(absl::StrCat(
        file->path(), ": wanted ", bytes, " bytes from ", offset, " on, found ", size, " in all"));
    return nullptr;
  }
  for (const Range& range : ranges) {
    const int64_t at = offset - range.offset;
    if (at >= 0 && at <= range.bytes && bytes <= range.bytes - at) return range.data.get() + at;
  }
  Range range{offset, bytes, std::unique_ptr<char[]>(new char[static_cast<size_t>(bytes) + 1])};
  if (!take || !take(file->path(), {offset, bytes}, range.data.get())) {
    *status =
        file->Read(static_cast<uint64_t>(offset), range.data.get(), static_cast<size_t>(bytes));
  }
  if (!status->ok()) return nullptr;
  return ranges.emplace_back(std::move(range)).data.get();
}

int32_t ArrowFile::ReadBytes(void* context, int64_t offset, int64_t bytes, const void** data,
                             CoxArrowError* error) {
  auto* const from = static_cast<Bytes*>(context);
  absl::Status status;
  *data = from->Find(offset, bytes, &status);
  if (*data != nullptr) return 0;
  // A range that the file does not have is wrong content.
  if (!absl::IsInvalidArgument(status)) from->failed = status;
  const size_t length = std::min(status.message().size(), sizeof(error->message) - 1);
  std::memcpy(error->message, status.message().data(), length);
  error->message[length] = 0;
  return static_cast<int32_t>(status.code());
}

absl::Status ArrowFile::StatusOf(int32_t code, const CoxArrowError& error,
                                 absl::string_view place) {
  const absl::Status failed = std::exchange(bytes_.failed, absl::OkStatus());
  if (code == 0) return absl::OkStatus();
  if (!failed.ok()) return failed;
  return absl::Status(static_cast<absl::StatusCode>(code),
                      absl::StrCat(path(), ": ", place, Message(error)));
}

absl::StatusOr<std::unique_ptr<ArrowFile>> ArrowFile::Open(const std::string& path,
                                                           CoxArrowFormat format,
                                                           const ArrowInput& input) {
  ASSIGN_OR_RETURN(auto bytes, input.open(path));
  const auto api = LoadArrowPlugin();
  if (!api.ok()) return Annotate(api.status(), path);
  std::unique_ptr<ArrowFile> file(new ArrowFile(*api));
  file->bytes_.file = std::move(bytes);
  file->bytes_.take = input.take;
  const CoxArrowSource source = {&file->bytes_, file->bytes(), ReadBytes};
  CoxArrowError error = {};
  const int32_t code = (*api)->open(format, &source, &file->file_, &error);
  const bool readable = file->bytes_.failed.ok();
  const absl::Status opened = file->StatusOf(code, error);
  if (!opened.ok() && !readable) return opened;
  if (!opened.ok()) {
    // Arrow's errors of input and output are of the content, too: bytes that end too early.
    return absl::Status(
        absl::IsDataLoss(opened) ? absl::StatusCode::kInvalidArgument : opened.code(),
        absl::StrCat(path, ": wanted ", format == COX_ARROW_PARQUET ? "a Parquet" : "an Arrow IPC",
                     " file, found ", file->bytes(), " bytes that are none: ", Message(error)));
  }
  for (const Bytes::Range& range : file->bytes_.ranges) file->footer_bytes_ += range.bytes;
  const CoxArrowField* fields = nullptr;
  int64_t count = 0;
  (*api)->fields(file->file_, &fields, &count);
  file->fields_ = {fields, static_cast<size_t>(count)};
  return file;
}

ArrowFile::~ArrowFile() {
  if (file_ != nullptr) api_->close(file_);
}

absl::StatusOr<int32_t> ArrowFile::FindField(const std::string& name) const {
  std::vector<std::string> names;
  int32_t found = -1;
  for (size_t i = 0; i < fields_.size(); ++i) {
    names.emplace_back(fields_[i].name);
    if (names.back() != name) continue;
    if (found >= 0) {
      return absl::InvalidArgumentError(
          absl::StrCat(path(), ": wanted one column ", Quoted(name), ", found several"));
    }
    found = static_cast<int32_t>(i);
  }
  if (found >= 0) return found;
  return absl::NotFoundError(absl::StrCat(path(), ": wanted a column ", Quoted(name),
                                          ", found none of that name; ",
                                          Alternatives(name, names)));
}

absl::StatusOr<absl::Span<const CoxArrowRange>> ArrowFile::RangesOf(
    int64_t group, absl::Span<const int32_t> fields, int64_t* rows) {
  const CoxArrowRange* ranges = nullptr;
  int64_t count = 0;
  CoxArrowError error = {};
  RETURN_IF_ERROR(
      StatusOf(api_->group(file_, group, fields.data(), static_cast<int64_t>(fields.size()), rows,
                           &ranges, &count, &error),
               error));
  if (*rows < 0 || *rows > kMostRows) {
    return absl::InvalidArgumentError(
        absl::StrCat(path(), ": row group ", group, ": it says that it has ", *rows, " rows"));
  }
  return absl::Span<const CoxArrowRange>(ranges, static_cast<size_t>(count));
}

absl::StatusOr<int64_t> ArrowFile::Rows(int64_t group) {
  int64_t rows = 0;
  RETURN_IF_ERROR(RangesOf(group, {}, &rows).status());
  return rows;
}

absl::StatusOr<int64_t> ArrowFile::GroupBytes(int64_t group, absl::Span<const int32_t> fields) {
  int64_t rows = 0, bytes = 0;
  ASSIGN_OR_RETURN(const auto ranges, RangesOf(group, fields, &rows));
  for (const CoxArrowRange& range : ranges) {
    // What makes no sense is found out when it is read.
    bytes += std::clamp<int64_t>(range.bytes, 0, this->bytes());
  }
  return bytes;
}

absl::StatusOr<std::vector<ByteRange>> ArrowFile::GroupRequests(int64_t group,
                                                                absl::Span<const int32_t> fields) {
  int64_t rows = 0;
  ASSIGN_OR_RETURN(const auto ranges, RangesOf(group, fields, &rows));
  return Joined(ranges);
}

absl::StatusOr<ArrowFile::Group> ArrowFile::LoadGroup(int64_t group,
                                                      absl::Span<const int32_t> fields) {
  Group loaded;
  ASSIGN_OR_RETURN(const auto ranges, RangesOf(group, fields, &loaded.rows));
  const std::string place = absl::StrCat("row group ", group);
  const auto find = [this](int64_t offset, int64_t bytes, const char** data) {
    absl::Status status;
    *data = bytes_.Find(offset, bytes, &status);
    return status;
  };
  const char* data = nullptr;
  if (env::IsRemotePath(path())) {
    for (const ByteRange& range : Joined(ranges)) {
      RETURN_IF_ERROR(Annotate(find(range.offset, range.bytes, &data), place));
    }
  }
  StreamHash hash;
  for (const int32_t field : fields) hash.Update(fields_[static_cast<size_t>(field)].type);
  for (const CoxArrowRange& range : ranges) {
    RETURN_IF_ERROR(Annotate(find(range.offset, range.bytes, &data), place));
    hash.Update({data, static_cast<size_t>(range.bytes)});
  }
  loaded.hash = HashPair(hash.Finish(), static_cast<uint64_t>(loaded.rows));
  return loaded;
}

absl::Status ArrowFile::Decode(
    int64_t group, absl::Span<const int32_t> fields, int64_t batch_rows, absl::string_view place,
    absl::FunctionRef<absl::Status(const CoxArrowColumn* columns, int64_t rows)> use) {
  CoxArrowError error = {};
  CoxArrowReader* reader = nullptr;
  absl::Status status =
      StatusOf(api_->open_reader(file_, group, fields.data(), static_cast<int64_t>(fields.size()),
                                 batch_rows, &reader, &error),
               error, place);
  while (status.ok()) {
    const CoxArrowColumn* columns = nullptr;
    int64_t rows = 0;
    status = StatusOf(api_->next(reader, &columns, &rows, &error), error, place);
    if (!status.ok() || rows == 0) break;
    status = use(columns, rows);
  }
  if (reader != nullptr) api_->close_reader(reader);
  return status;
}

absl::Status ArrowFile::ReadGroup(
    int64_t group, absl::Span<const int32_t> fields, int64_t batch_rows,
    absl::FunctionRef<absl::Status(const CoxArrowColumn* columns, int64_t rows)> use) {
  bool used = true;
  absl::Status status = Decode(group, fields, batch_rows, absl::StrCat("row group ", group, ": "),
                               [&](const CoxArrowColumn* columns, int64_t rows) {
                                 const absl::Status of_use = use(columns, rows);
                                 used = of_use.ok();
                                 return of_use;
                               });
  // Arrow does not say which column it is that it cannot read.
  const bool content = absl::IsDataLoss(status) || absl::IsInvalidArgument(status);
  for (size_t i = 0; content && used && i < fields.size(); ++i) {
    const std::string place =
        absl::StrCat("row group ", group, ", column ",
                     Quoted(fields_[static_cast<size_t>(fields[i])].name), ": ");
    const absl::Status alone =
        Decode(group, fields.subspan(i, 1), batch_rows, place,
               [](const CoxArrowColumn*, int64_t) { return absl::OkStatus(); });
    if (alone.code() == status.code()) {
      status = alone;
      break;
    }
  }
  bytes_.ranges.clear();
  return status;
}

}  // namespace coxswain::data
