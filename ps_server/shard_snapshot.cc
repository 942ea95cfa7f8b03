#include "ps_server/shard_snapshot.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "ps_server/shard.h"
#include "runtime/base/logging.h"

namespace coxswain {
namespace {

constexpr int64_t kSlabBytes = int64_t{256} << 10;

}  // namespace

ShardSnapshot::ShardSnapshot(const Shard& shard)
    : layout_(shard.layout_),
      parts_(shard.parts()),
      applied_(shard.applied_),
      gradient_steps_(shard.gradient_steps_),
      dense_(shard.dense_),
      rows_(shard.rows_),
      row_stride_(shard.row_stride_) {
  if (!shard.table()) return;
  slab_rows_ = std::max<int64_t>(1, kSlabBytes / static_cast<int64_t>(row_stride_));
  const size_t rows = std::max<size_t>(1, static_cast<size_t>(layout_.rows()));
  kept_.reset(static_cast<uint32_t*>(std::calloc(rows, sizeof(uint32_t))));
  COX_CHECK(kept_ != nullptr, "out of memory");
}

char* ShardSnapshot::KeptRow(uint32_t number) const {
  const size_t index = number - 1, in_slab = static_cast<size_t>(slab_rows_);
  return static_cast<char*>(slabs_[index / in_slab].data()) + index % in_slab * row_stride_;
}

void ShardSnapshot::Preserve(const int64_t* ids, int64_t n) {
  if (ids == nullptr) {
    for (int64_t row = 0; row < layout_.rows(); ++row) PreserveRow(row);
    return;
  }
  for (int64_t i = 0; i < n; ++i) PreserveRow(ids[i]);
}

void ShardSnapshot::PreserveRow(int64_t row) {
  uint32_t& kept = kept_[static_cast<size_t>(row)];
  if (kept != 0) return;
  if (last_kept_ % slab_rows_ == 0) {
    slabs_.push_back(Buffer::Allocate(static_cast<size_t>(slab_rows_) * row_stride_));
  }
  kept = ++last_kept_;
  std::memcpy(KeptRow(kept),
              static_cast<const char*>(rows_.data()) + static_cast<size_t>(row) * row_stride_,
              row_stride_);
}

const char* ShardSnapshot::RowOf(int64_t row) const {
  const uint32_t kept = kept_[static_cast<size_t>(row)];
  if (kept != 0) return KeptRow(kept);
  return static_cast<const char*>(rows_.data()) + static_cast<size_t>(row) * row_stride_;
}

absl::StatusOr<Tensor> ShardSnapshot::ReadRows(int64_t begin, int64_t n, int part) const {
  const size_t row_bytes = layout_.row_bytes();
  if (part < 0 || part >= parts_ || begin < 0 || n < 0 || begin > layout_.rows() ||
      n > layout_.rows() - begin || n > kMaxReadBytes / static_cast<int64_t>(row_bytes)) {
    return absl::InvalidArgumentError(
        absl::StrCat("snapshot of ", parts_, " parts of ", layout_.rows(), " rows: wanted part ",
                     part, ", ", n, " rows of ", row_bytes, " bytes from row ", begin, " on"));
  }
  const size_t index = static_cast<size_t>(part);
  Tensor rows(layout_.dtype(), layout_.RowsShape(n));
  char* to = static_cast<char*>(rows.mutable_raw());
  if (!dense_.empty()) {
    std::memcpy(
        to, static_cast<const char*>(dense_[index].raw()) + static_cast<size_t>(begin) * row_bytes,
        static_cast<size_t>(n) * row_bytes);
    return rows;
  }
  for (int64_t r = 0; r < n; ++r, to += row_bytes) {
    std::memcpy(to, RowOf(begin + r) + index * row_bytes, row_bytes);
  }
  return rows;
}

absl::Status ShardSnapshot::CopyBytes(int64_t begin, int64_t n, int part, void* destination) const {
  if (part < 0 || part >= parts_ || begin < 0 || n < 0 || begin > part_bytes() ||
      n > part_bytes() - begin) {
    return absl::InvalidArgumentError(absl::StrCat("snapshot of ", parts_, " parts of ",
                                                   part_bytes(), " bytes: wanted part ", part, ", ",
                                                   n, " bytes from byte ", begin, " on"));
  }
  const size_t index = static_cast<size_t>(part), count = static_cast<size_t>(n);
  char* to = static_cast<char*>(destination);
  if (!dense_.empty()) {
    std::memcpy(to, static_cast<const char*>(dense_[index].raw()) + begin, count);
    return absl::OkStatus();
  }
  const size_t row_bytes = layout_.row_bytes();
  char* const end = to + count;
  int64_t row = begin / static_cast<int64_t>(row_bytes);
  size_t skip = static_cast<size_t>(begin) % row_bytes;  // of the first row
  for (; to < end; ++row, skip = 0) {
    const size_t piece = std::min(row_bytes - skip, static_cast<size_t>(end - to));
    std::memcpy(to, RowOf(row) + index * row_bytes + skip, piece);
    to += piece;
  }
  return absl::OkStatus();
}

}  // namespace coxswain
