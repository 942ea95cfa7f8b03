#include "runtime/checkpoint/delta_files.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/base/status.h"

namespace coxswain::checkpoint {
namespace {

constexpr int64_t kRowsAtOnce = 1 << 16;  // of a delta

absl::Status Damaged(const std::string& path, absl::string_view what) {
  return absl::DataLossError(absl::StrCat(path, ": ", what));
}

}  // namespace

absl::Status CheckDeltaRows(const std::string& path, absl::Span<const int64_t> rows, int64_t begin,
                            int64_t end) {
  int64_t last = begin - 1;
  for (const int64_t row : rows) {
    if (row <= last || row >= end) {
      return Damaged(path, absl::StrCat("wanted ascending rows from ", begin, " to below ", end,
                                        ", found ", row, " after ", last));
    }
    last = row;
  }
  return absl::OkStatus();
}

absl::StatusOr<RowFiles> RowFiles::Open(const File& whole, absl::Span<const File> deltas,
                                        int64_t rows) {
  ASSIGN_OR_RETURN(SafetensorsReader reader, SafetensorsReader::Open(whole.path));
  RowFiles files(std::move(reader));
  files.saved_.push_back(whole);
  if (deltas.empty()) return files;
  files.entries_ = files.whole_.entries();
  for (SafetensorsEntry& entry : files.entries_) {
    if (entry.shape.rank() > 0) entry.shape.set_dim(0, rows);
  }
  for (const File& delta : deltas) {
    ASSIGN_OR_RETURN(SafetensorsReader opened, SafetensorsReader::Open(delta.path));
    const SafetensorsEntry* listed = opened.Find(kDeltaRows);
    if (listed == nullptr || listed->dtype != DType::kI64 || listed->shape != Shape{delta.rows}) {
      return Damaged(delta.path,
                     absl::StrCat("wanted a tensor '", kDeltaRows, "' of ", delta.rows, " rows"));
    }
    files.saved_.push_back(delta);
    files.deltas_.push_back({std::move(opened), delta.rows});
  }
  return files;
}

const SafetensorsEntry* RowFiles::Find(const std::string& tensor) const {
  if (deltas_.empty()) return whole_.Find(tensor);
  for (const SafetensorsEntry& entry : entries_) {
    if (entry.name == tensor) return &entry;
  }
  return nullptr;
}

absl::Status RowFiles::Read(const std::string& tensor, size_t width, int64_t begin, int64_t count,
                            char* out) const {
  const auto read = [&](int64_t rows) {
    return whole_.Read(tensor, static_cast<uint64_t>(begin) * width, out,
                       static_cast<size_t>(rows) * width);
  };
  if (deltas_.empty()) return read(count);
  const SafetensorsEntry* all = Find(tensor);
  if (all == nullptr || all->shape.rank() == 0) {
    return absl::NotFoundError(absl::StrCat(path(), ": no tensor '", tensor, "' of rows"));
  }
  if (begin < 0 || count < 0 || begin > all->shape.dim(0) || count > all->shape.dim(0) - begin) {
    return absl::OutOfRangeError(absl::StrCat(path(), ": wanted rows ", begin, " to ",
                                              begin + count, ", it has ", all->shape.dim(0)));
  }
  // What the file does not have yet is in some delta.
  const int64_t here = std::clamp<int64_t>(whole_.Find(tensor)->shape.dim(0) - begin, 0, count);
  if (here > 0) RETURN_IF_ERROR(read(here));
  std::fill(out + static_cast<size_t>(here) * width, out + static_cast<size_t>(count) * width, 0);
  if (width == 0) return absl::OkStatus();
  for (const Delta& delta : deltas_) {
    RETURN_IF_ERROR(Overlay(delta, *all, width, begin, count, out));
  }
  return absl::OkStatus();
}

absl::StatusOr<int64_t> RowFiles::LowerBound(const Delta& delta, int64_t row) {
  int64_t low = 0, high = delta.rows;
  while (low < high) {
    const int64_t middle = low + (high - low) / 2;
    int64_t found = 0;
    RETURN_IF_ERROR(delta.file.Read(kDeltaRows, static_cast<uint64_t>(middle) * sizeof(found),
                                    &found, sizeof(found)));
    if (found < row) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

absl::Status RowFiles::Overlay(const Delta& delta, const SafetensorsEntry& wanted, size_t width,
                               int64_t begin, int64_t count, char* out) {
  Shape shape = wanted.shape;
  shape.set_dim(0, delta.rows);
  const SafetensorsEntry* entry = delta.file.Find(wanted.name);
  if (entry == nullptr || entry->dtype != wanted.dtype || entry->shape != shape) {
    return Damaged(delta.file.path(),
                   absl::StrCat("wanted tensor '", wanted.name, "' as ", DTypeName(wanted.dtype),
                                shape.ToString(), ", found ",
                                entry == nullptr ? "none"
                                                 : absl::StrCat(DTypeName(entry->dtype),
                                                                entry->shape.ToString())));
  }
  ASSIGN_OR_RETURN(int64_t at, LowerBound(delta, begin));
  std::vector<int64_t> rows;
  std::string values;
  for (int64_t from = begin; at < delta.rows; at += static_cast<int64_t>(rows.size())) {
    rows.resize(
        static_cast<size_t>(std::min({kRowsAtOnce, begin + count - from, delta.rows - at})));
    if (rows.empty()) break;
    RETURN_IF_ERROR(delta.file.Read(kDeltaRows, static_cast<uint64_t>(at) * sizeof(int64_t),
                                    rows.data(), rows.size() * sizeof(int64_t)));
    const bool ends = rows.back() >= begin + count;
    if (ends) {
      rows.erase(std::lower_bound(rows.begin(), rows.end(), begin + count), rows.end());
    }
    RETURN_IF_ERROR(CheckDeltaRows(delta.file.path(), rows, from, begin + count));
    values.resize(rows.size() * width);
    RETURN_IF_ERROR(delta.file.Read(wanted.name, static_cast<uint64_t>(at) * width, values.data(),
                                    values.size()));
    for (size_t i = 0; i < rows.size(); ++i) {
      std::memcpy(out + static_cast<size_t>(rows[i] - begin) * width, values.data() + i * width,
                  width);
    }
    if (ends) break;
    from = rows.back() + 1;
  }
  return absl::OkStatus();
}

absl::Status RowFiles::Verify() const {
  for (size_t i = 0; i < saved_.size(); ++i) {
    const SafetensorsReader& file = i == 0 ? whole_ : deltas_[i - 1].file;
    if (saved_[i].has_crc32) RETURN_IF_ERROR(file.Verify(saved_[i].bytes, saved_[i].crc32));
  }
  return absl::OkStatus();
}

}  // namespace coxswain::checkpoint
