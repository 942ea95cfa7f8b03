// Rows that are kept before they change, on the host and from a GPU; then reading: ranges, bytes,
// lists of rows.
#include "ps_server/shard_snapshot.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "ps_server/shard.h"
#include "ps_server/table_file.h"
#include "runtime/base/status.h"
#include "runtime/tensor/limits.h"

namespace coxswain::ps {
namespace {

constexpr int64_t kSlabBytes = int64_t{256} << 10;
constexpr size_t kAhead = 16;  // rows whose memory is asked for in advance

absl::Status OutOfRange(const ShardSnapshot& snapshot, int64_t bytes, int tensor, int64_t begin,
                        int64_t n) {
  return absl::InvalidArgumentError(absl::StrCat("snapshot of ", snapshot.tensors(), " tensors, ",
                                                 bytes, " bytes: wanted tensor ", tensor, ", ", n,
                                                 " bytes from byte ", begin, " on"));
}

}  // namespace

ShardSnapshot::ShardSnapshot(const Shard& shard)
    : layout_(shard.layout_),
      plan_(shard.plan_),
      num_rows_(shard.rows()),
      applied_(shard.applied_),
      gradient_steps_(shard.gradient_steps_),
      dense_(shard.dense_),
      memory_(shard.memory_),
      gpu_(shard.gpu_) {
  if (!shard.table()) return;
  const absl::Status held = CatchAllocationErrors([&] { return HoldTable(shard); });
  if (!held.ok()) GiveUp(held);
}

absl::Status ShardSnapshot::HoldTable(const Shard& shard) {
  if (shard.hash_ != nullptr) {
    hash_ = shard.hash_->State();
    waiting_ = shard.hash_->Waiting();
  }
  slab_rows_ = std::max<int64_t>(1, kSlabBytes / static_cast<int64_t>(kept_bytes()));
  ASSIGN_OR_RETURN(kept_, AllocateZeros<uint32_t>(static_cast<size_t>(num_rows_)));
  return absl::OkStatus();
}

void ShardSnapshot::GiveUp(const absl::Status& why) {
  status_ = Annotate(why, "rows cannot be kept as they were for a checkpoint");
  kept_.reset();
  slabs_ = {};
  rest_ = {};
  last_kept_ = 0;
}

void ShardSnapshot::Keep(absl::FunctionRef<void()> rows) {
  if (kept_ == nullptr) return;
  const absl::Status kept = CatchAllocationErrors([&] {
    rows();
    return absl::OkStatus();
  });
  if (!kept.ok()) GiveUp(kept);
}

char* ShardSnapshot::KeptRow(uint32_t number) const {
  const size_t index = number - 1, in_slab = static_cast<size_t>(slab_rows_);
  return static_cast<char*>(slabs_[index / in_slab].data()) + index % in_slab * kept_bytes();
}

void ShardSnapshot::Preserve(const int64_t* ids, int64_t n) {
  Keep([&] {
    for (int64_t i = 0; i < n; ++i) KeepBeside(ids[i]);
    KeepRest();
  });
}

void ShardSnapshot::PreserveRange(int64_t begin, int64_t n) {
  Keep([&] {
    for (int64_t row = begin; row < begin + n; ++row) KeepBeside(row);
    KeepRest();
  });
}

void ShardSnapshot::PreserveBeside(int64_t row) {
  Keep([&] { KeepBeside(row); });
}

void ShardSnapshot::PreserveRest() {
  Keep([&] { KeepRest(); });
}

uint32_t ShardSnapshot::NextKept() {
  if (last_kept_ % slab_rows_ == 0) {
    slabs_.push_back(Buffer::Allocate(static_cast<size_t>(slab_rows_) * kept_bytes()));
  }
  return ++last_kept_;
}

void ShardSnapshot::KeepRest() {
  if (rest_.empty()) return;
  const size_t stride = plan_.row_stride;
  std::vector<char> read(rest_.size() * stride);
  status_.Update(gpu_->Read(rest_, 0, stride, read.data()));
  for (size_t i = 0; i < rest_.size(); ++i) {
    std::memcpy(KeptRow(kept_[static_cast<size_t>(rest_[i])]), read.data() + i * stride, stride);
  }
  rest_.clear();
}

void ShardSnapshot::KeepBeside(int64_t row) {
  if (row >= num_rows_) return;  // of a hash table: it is new
  uint32_t& kept = kept_[static_cast<size_t>(row)];
  if (kept != 0) return;
  kept = NextKept();
  const size_t stride = plan_.row_stride, beside = plan_.side_stride;
  const size_t index = static_cast<size_t>(row);
  char* const to = KeptRow(kept);
  if (gpu_ != nullptr) {
    rest_.push_back(row);
  } else {
    std::memcpy(to, static_cast<const char*>(memory_.rows.data()) + index * stride, stride);
  }
  if (beside == 0) return;
  std::memcpy(to + stride, static_cast<const char*>(memory_.side.data()) + index * beside, beside);
}

const char* ShardSnapshot::RowOf(const ShardPart& part, const PartPlace& live, int64_t row) const {
  const uint32_t kept = kept_[static_cast<size_t>(row)];
  if (kept == 0) return live.Row(row);
  return KeptRow(kept) + (part.side ? plan_.row_stride : 0) + part.offset;
}

absl::StatusOr<Tensor> ShardSnapshot::ReadRows(int64_t begin, int64_t n, int part) const {
  RETURN_IF_ERROR(status_);
  const size_t index = static_cast<size_t>(part);
  const bool known = part >= 0 && part < parts();
  const size_t row_bytes = known ? plan_.parts[index].row_bytes() : 1;
  if (!known || begin < 0 || n < 0 || begin > num_rows_ || n > num_rows_ - begin ||
      n > kMaxReadBytes / static_cast<int64_t>(row_bytes)) {
    return absl::InvalidArgumentError(
        absl::StrCat("snapshot of ", parts(), " parts of ", num_rows_, " rows: wanted part ", part,
                     ", ", n, " rows of ", row_bytes, " bytes from row ", begin, " on"));
  }
  const ShardPart& read = plan_.parts[index];
  Tensor rows(read.dtype, read.RowsShape(layout_, n));
  char* to = static_cast<char*>(rows.mutable_raw());
  if (!dense_.empty()) {
    std::memcpy(
        to, static_cast<const char*>(dense_[index].raw()) + static_cast<size_t>(begin) * row_bytes,
        static_cast<size_t>(n) * row_bytes);
    return rows;
  }
  if (n > 0) {
    RETURN_IF_ERROR(CopyPart(nullptr, static_cast<size_t>(begin) * row_bytes,
                             static_cast<size_t>(n) * row_bytes, read, to));
  }
  return rows;
}

absl::Status ShardSnapshot::CopyBytes(int64_t begin, int64_t n, int tensor,
                                      void* destination) const {
  RETURN_IF_ERROR(status_);
  const int64_t bytes = tensor >= 0 && tensor < tensors() ? tensor_bytes(tensor) : -1;
  if (begin < 0 || n < 0 || begin > bytes || n > bytes - begin) {
    return OutOfRange(*this, bytes, tensor, begin, n);
  }
  const size_t index = static_cast<size_t>(tensor), count = static_cast<size_t>(n);
  char* to = static_cast<char*>(destination);
  if (n == 0) return absl::OkStatus();  // there may be no address to copy from
  if (tensor >= parts()) {
    std::memcpy(to, static_cast<const char*>(WaitingAt(tensor).raw()) + begin, count);
    return absl::OkStatus();
  }
  if (!dense_.empty()) {
    std::memcpy(to, static_cast<const char*>(dense_[index].raw()) + begin, count);
    return absl::OkStatus();
  }
  return CopyPart(nullptr, static_cast<size_t>(begin), count, plan_.parts[index], to);
}

absl::Status ShardSnapshot::CopyPart(const int64_t* rows, size_t begin, size_t n,
                                     const ShardPart& part, char* to) const {
  if (gpu_ != nullptr && !part.side) return CopyFromGpu(rows, begin, n, part, to);
  const PartPlace live = PlaceOf(plan_, memory_, static_cast<size_t>(&part - plan_.parts.data()));
  const size_t row_bytes = part.row_bytes();
  char* const end = to + n;
  const size_t first = begin / row_bytes, last = (begin + n - 1) / row_bytes;
  if (!part.side && rows != nullptr) {
    ReadAhead(memory_, plan_.row_stride, rows + first, static_cast<int64_t>(last - first + 1));
  } else if (!part.side) {
    ReadAhead(memory_, plan_.row_stride, static_cast<int64_t>(first),
              static_cast<int64_t>(last - first + 1));
  }
  size_t skip = begin % row_bytes;  // of the first row
  for (size_t i = first; to < end; ++i, skip = 0) {
    if (rows != nullptr && i + kAhead <= last) __builtin_prefetch(live.Row(rows[i + kAhead]));
    const int64_t row = rows == nullptr ? static_cast<int64_t>(i) : rows[i];
    const size_t piece = std::min(row_bytes - skip, static_cast<size_t>(end - to));
    std::memcpy(to, RowOf(part, live, row) + skip, piece);
    to += piece;
  }
  return absl::OkStatus();
}

// All of these rows as they are now, and then those that are kept as they were.
absl::Status ShardSnapshot::CopyFromGpu(const int64_t* rows, size_t begin, size_t n,
                                        const ShardPart& part, char* to) const {
  const size_t row_bytes = part.row_bytes();
  const size_t first = begin / row_bytes, last = (begin + n - 1) / row_bytes;
  std::vector<int64_t> list(last - first + 1);
  std::iota(list.begin(), list.end(), static_cast<int64_t>(first));
  if (rows != nullptr) std::copy(rows + first, rows + last + 1, list.begin());
  std::vector<char> read(list.size() * row_bytes);
  RETURN_IF_ERROR(gpu_->Read(list, part.offset, row_bytes, read.data()));
  for (size_t i = 0; i < list.size(); ++i) {
    const uint32_t kept = kept_[static_cast<size_t>(list[i])];
    if (kept == 0) continue;
    std::memcpy(read.data() + i * row_bytes, KeptRow(kept) + part.offset, row_bytes);
  }
  std::memcpy(to, read.data() + begin % row_bytes, n);
  return absl::OkStatus();
}

absl::Status ShardSnapshot::CopyRows(absl::Span<const int64_t> rows, int64_t begin, int64_t n,
                                     int part, void* destination) const {
  RETURN_IF_ERROR(status_);
  const bool known = part >= 0 && part < parts() && dense_.empty();
  const size_t index = static_cast<size_t>(part);
  const int64_t bytes =
      known ? static_cast<int64_t>(rows.size() * plan_.parts[index].row_bytes()) : -1;
  if (begin < 0 || n < 0 || begin > bytes || n > bytes - begin) {
    return OutOfRange(*this, bytes, part, begin, n);
  }
  if (n == 0) return absl::OkStatus();
  return CopyPart(rows.data(), static_cast<size_t>(begin), static_cast<size_t>(n),
                  plan_.parts[index], static_cast<char*>(destination));
}

absl::Status ShardSnapshot::FindTouched(int64_t begin, int64_t end, int64_t since,
                                        std::vector<int64_t>* rows, int64_t step) const {
  RETURN_IF_ERROR(status_);
  const size_t index = static_cast<size_t>(plan_.Find(kTouchedPart));
  const ShardPart& touched = plan_.parts[index];
  const PartPlace live = PlaceOf(plan_, memory_, index);
  const int64_t ahead = static_cast<int64_t>(kAhead) * step;
  for (int64_t row = begin; row < end; row += step) {
    if (row + ahead < end) __builtin_prefetch(live.Row(row + ahead));
    int64_t number;
    std::memcpy(&number, RowOf(touched, live, row), sizeof(number));
    if (number > since) rows->push_back(row);
  }
  return absl::OkStatus();
}

}  // namespace coxswain::ps
