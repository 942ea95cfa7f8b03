#include "ps_server/shard_stream.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "ps_server/shard_file.h"
#include "runtime/base/logging.h"
#include "runtime/base/status.h"

namespace coxswain::ps {

ShardStream::ShardStream(std::shared_ptr<const ShardSnapshot> snapshot)
    : snapshot_(std::move(snapshot)) {
  for (int t = 0; t < snapshot_->tensors(); ++t) left_ += BytesOf(t);
}

ShardStream::ShardStream(std::shared_ptr<const ShardSnapshot> snapshot, std::vector<int64_t> rows)
    : snapshot_(std::move(snapshot)), rows_(std::move(rows)) {
  for (int t = 0; t < 1 + snapshot_->tensors(); ++t) left_ += BytesOf(t);
}

std::vector<checkpoint::SafetensorsEntry> ShardStream::Entries() const {
  const ShardSnapshot& s = *snapshot_;
  const auto waiting = s.hash() ? std::optional(s.hash()->waiting()) : std::nullopt;
  if (!rows_) return FileEntries(s.plan(), s.layout(), std::nullopt, waiting);
  return DeltaEntries(s.plan(), s.layout(), static_cast<int64_t>(rows_->size()), waiting);
}

// A delta has its rows in front of what the snapshot has.
int64_t ShardStream::BytesOf(int tensor) const {
  if (!rows_) return snapshot_->tensor_bytes(tensor);
  if (tensor == 0) return static_cast<int64_t>(rows_->size() * sizeof(int64_t));
  if (--tensor >= snapshot_->parts()) return snapshot_->tensor_bytes(tensor);
  return static_cast<int64_t>(rows_->size() * snapshot_->part(tensor).row_bytes());
}

absl::Status ShardStream::Copy(int tensor, int64_t begin, int64_t n, char* to) const {
  if (rows_ && tensor == 0) {
    std::memcpy(to, reinterpret_cast<const char*>(rows_->data()) + begin, static_cast<size_t>(n));
    return absl::OkStatus();
  }
  if (rows_) --tensor;
  const bool some = rows_ && tensor < snapshot_->parts();
  return some ? snapshot_->CopyRows(*rows_, begin, n, tensor, to)
              : snapshot_->CopyBytes(begin, n, tensor, to);
}

absl::StatusOr<std::vector<ShardStream::Piece>> ShardStream::Read(int64_t n, char* to) {
  COX_CHECK(n <= left_, n, " bytes are wanted, ", left_, " are left");
  left_ -= n;
  std::vector<Piece> pieces;
  while (n > 0) {
    const int64_t bytes = BytesOf(tensor_);
    const int64_t some = std::min(n, bytes - offset_);
    if (some > 0) RETURN_IF_ERROR(Copy(tensor_, offset_, some, to));
    const int part = tensor_ - (rows_ ? 1 : 0);
    if (some > 0) pieces.push_back({part < snapshot_->parts() ? part : -1, offset_, some});
    to += some;
    n -= some;
    offset_ += some;
    if (offset_ == bytes) {
      ++tensor_;
      offset_ = 0;
    }
  }
  return pieces;
}

}  // namespace coxswain::ps
