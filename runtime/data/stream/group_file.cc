#include "runtime/data/stream/group_file.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/base/status.h"
#include "runtime/data/hash.h"

namespace coxswain::data {
namespace {

constexpr int64_t kMostCount = int64_t{1} << 48;  // of anything: so no sum overflows

bool MakesSense(const GroupFileHeader& header) {
  for (const int64_t count : {header.rows, header.groups, header.values, header.names_bytes}) {
    if (count < 0 || count > kMostCount) return false;
  }
  return header.value_bytes == 4 || header.value_bytes == 8;
}

bool ReadHeader(const env::RandomAccessFile& file, GroupFileHeader* header) {
  return file.Read(0, header, sizeof(*header)).ok() && header->magic == GroupFile::kMagic &&
         header->hash == header->Hash() && MakesSense(*header) &&
         static_cast<uint64_t>(header->file_bytes()) == file.size();
}

}  // namespace

uint64_t GroupFileHeader::Hash() const {
  uint64_t all = HashPair(magic, key);
  for (const int64_t number : {rows, groups, values, value_bytes, names_bytes}) {
    all = HashPair(all, static_cast<uint64_t>(number));
  }
  return all;
}

int64_t GroupFileHeader::extents_at() const {
  return static_cast<int64_t>(sizeof(GroupFileHeader)) +
         rows * static_cast<int64_t>(sizeof(GroupedRow));
}
int64_t GroupFileHeader::values_at() const {
  return extents_at() + groups * static_cast<int64_t>(sizeof(GroupFile::Extent));
}
int64_t GroupFileHeader::name_ends_at() const { return values_at() + values * value_bytes; }
int64_t GroupFileHeader::names_at() const {
  return name_ends_at() + groups * static_cast<int64_t>(sizeof(int64_t));
}
int64_t GroupFileHeader::file_bytes() const { return names_at() + names_bytes; }

bool GroupFile::Fits(const env::RandomAccessFile& file, uint64_t key) {
  GroupFileHeader header;
  return ReadHeader(file, &header) && header.key == key;
}

absl::StatusOr<std::shared_ptr<const GroupFile>> GroupFile::Open(
    std::shared_ptr<const SharedCopy> copy) {
  std::shared_ptr<GroupFile> file(new GroupFile(std::move(copy)));
  if (!ReadHeader(file->copy_->file(), &file->header_)) return file->Damaged("its first bytes");
  return file;
}

absl::Status GroupFile::Damaged(absl::string_view what) const {
  return absl::DataLossError(absl::StrCat(copy_->file().path(), ": damaged: ", what,
                                          "; wanted the file as it was made: remove it, and it is "
                                          "made again"));
}

absl::Status GroupFile::Read(int64_t at, void* out, size_t bytes) const {
  if (bytes == 0) return absl::OkStatus();
  return copy_->file().Read(static_cast<uint64_t>(at), out, bytes);
}

absl::Status GroupFile::ReadRows(int64_t first, absl::Span<GroupedRow> out) const {
  const auto count = static_cast<int64_t>(out.size());
  if (first < 0 || first > rows() || count > rows() - first) {
    return Damaged(absl::StrCat("it has ", rows(), " rows, wanted row ", first + count - 1));
  }
  RETURN_IF_ERROR(
      Read(static_cast<int64_t>(sizeof(header_)) + first * static_cast<int64_t>(sizeof(GroupedRow)),
           out.data(), out.size() * sizeof(GroupedRow)));
  for (const GroupedRow& row : out) {
    if (row.group >= groups()) return Damaged("the group of a row");
  }
  return absl::OkStatus();
}

absl::Status GroupFile::ReadExtents(int64_t first, absl::Span<Extent> out) const {
  const auto count = static_cast<int64_t>(out.size());
  if (first < 0 || first > groups() || count > groups() - first) {
    return Damaged(absl::StrCat("it has ", groups(), " groups"));
  }
  RETURN_IF_ERROR(Read(header_.extents_at() + first * static_cast<int64_t>(sizeof(Extent)),
                       out.data(), out.size() * sizeof(Extent)));
  for (const Extent& extent : out) {
    const bool fits = extent.begin >= 0 && extent.size >= 0 && extent.size <= header_.values &&
                      extent.begin <= header_.values - extent.size;
    if (!fits) return Damaged("where the values of a group are");
  }
  return absl::OkStatus();
}

absl::Status GroupFile::ReadValues(const Extent& group, int64_t from,
                                   absl::Span<int64_t> out) const {
  const auto count = static_cast<int64_t>(out.size());
  if (from < 0 || from > group.size || count > group.size - from) {
    return Damaged("how many values come before a row");
  }
  const int64_t at = header_.values_at() + (group.begin + from) * header_.value_bytes;
  if (header_.value_bytes == 8) return Read(at, out.data(), out.size() * sizeof(int64_t));
  // Into the second half; from there they spread over all of it.
  auto* const narrow = reinterpret_cast<char*>(out.data()) + out.size() * sizeof(int32_t);
  RETURN_IF_ERROR(Read(at, narrow, out.size() * sizeof(int32_t)));
  for (size_t i = 0; i < out.size(); ++i) {
    int32_t value = 0;
    std::memcpy(&value, narrow + i * sizeof(value), sizeof(value));
    out[i] = value;
  }
  return absl::OkStatus();
}

absl::Status GroupFile::ReadNames(int64_t first, absl::Span<std::string> out) const {
  const auto count = static_cast<int64_t>(out.size());
  if (first < 0 || first > groups() || count > groups() - first) {
    return Damaged(absl::StrCat("it has ", groups(), " groups"));
  }
  if (count == 0) return absl::OkStatus();
  std::vector<int64_t> ends(out.size() + 1, 0);  // the first one: where the first name begins
  const int64_t before = first > 0 ? 1 : 0;
  RETURN_IF_ERROR(
      Read(header_.name_ends_at() + (first - before) * static_cast<int64_t>(sizeof(int64_t)),
           ends.data() + (1 - before), static_cast<size_t>(count + before) * sizeof(int64_t)));
  if (ends[0] < 0 || ends.back() > header_.names_bytes ||
      !std::is_sorted(ends.begin(), ends.end())) {
    return Damaged("where the names of groups are");
  }
  std::string names(static_cast<size_t>(ends.back() - ends[0]), '\0');
  RETURN_IF_ERROR(Read(header_.names_at() + ends[0], names.data(), names.size()));
  for (size_t i = 0; i < out.size(); ++i) {
    out[i] = names.substr(static_cast<size_t>(ends[i] - ends[0]),
                          static_cast<size_t>(ends[i + 1] - ends[i]));
  }
  return absl::OkStatus();
}

}  // namespace coxswain::data
