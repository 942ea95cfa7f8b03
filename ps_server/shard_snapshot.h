// A shard as it was at one moment, read while training goes on: the source of a checkpoint file.
//
// Dense variables are shared with the shard until it changes them (copy-on-write of whole parts).
// Of a table, an update copies each row before the first change to it: ids are all over a table, so
// larger pieces would soon be a copy of all of it, and fresh memory costs more than the copying. A
// row is copied with all of its parts. The worst case costs the table's size once more, and 4 bytes
// a row.
//
// Thread model: created, read and destroyed on the shard's event loop; what it returns may go
// anywhere. It may outlive its shard.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "coxswain/tensor.h"
#include "protos/control.pb.h"
#include "ps_server/shard_layout.h"
#include "ps_server/shard_parts.h"

namespace coxswain::ps {

class Shard;

class ShardSnapshot {
 public:
  const ShardLayout& layout() const { return layout_; }
  int64_t rows() const { return num_rows_; }
  const PartPlan& plan() const { return plan_; }
  int parts() const { return static_cast<int>(plan_.parts.size()); }
  const ShardPart& part(int part) const { return plan_.parts[static_cast<size_t>(part)]; }
  int64_t applied() const { return applied_; }
  int64_t gradient_steps() const { return gradient_steps_; }
  // Of a hash table: what it is beside its parts, and the ids that waited, see HashRows::Waiting.
  const std::optional<proto::HashTableState>& hash() const { return hash_; }
  const std::vector<Tensor>& waiting() const { return waiting_; }

  // Rows [begin, begin + n) of a part as they were, as Shard::ReadRows gives them.
  // Errors: InvalidArgument for rows or a part out of range, or above kMaxReadBytes.
  absl::StatusOr<Tensor> ReadRows(int64_t begin, int64_t n, int part) const;

  // What a file has: the parts, then waiting().
  int tensors() const { return parts() + static_cast<int>(waiting_.size()); }
  // Bytes of one of them, of a part: its rows one after the other, without padding.
  int64_t tensor_bytes(int tensor) const {
    if (tensor >= parts()) return static_cast<int64_t>(WaitingAt(tensor).bytes());
    return num_rows_ * static_cast<int64_t>(part(tensor).row_bytes());
  }
  // Copies bytes [begin, begin + n) of one of them as they were. Errors: InvalidArgument for bytes
  // or a tensor out of range.
  absl::Status CopyBytes(int64_t begin, int64_t n, int tensor, void* destination) const;

  // Of a table: adds to `rows` those of [begin, end) that updates after the `since`-th have
  // changed.
  void FindTouched(int64_t begin, int64_t end, int64_t since, std::vector<int64_t>* rows,
                   int64_t step = 1) const;
  // Copies bytes [begin, begin + n) of a part of these rows, one after the other. Errors: as
  // CopyBytes; the rows are not checked.
  absl::Status CopyRows(absl::Span<const int64_t> rows, int64_t begin, int64_t n, int part,
                        void* destination) const;

  // Bytes of old rows kept by now.
  int64_t preserved_bytes() const {
    return static_cast<int64_t>(last_kept_) * static_cast<int64_t>(kept_bytes());
  }

 private:
  friend class Shard;
  const Tensor& WaitingAt(int tensor) const {
    return waiting_[static_cast<size_t>(tensor - parts())];
  }
  explicit ShardSnapshot(const Shard& shard);
  // Keeps these rows; rows [begin, begin + n).
  void Preserve(const int64_t* ids, int64_t n);
  void PreserveRange(int64_t begin, int64_t n);
  void PreserveRow(int64_t row);
  // A kept row is its row in the block of rows and then the one in the block beside it.
  size_t kept_bytes() const { return plan_.row_stride + plan_.side_stride; }
  char* KeptRow(uint32_t number) const;  // from 1
  const char* RowOf(const ShardPart& part, const PartPlace& live, int64_t row) const;
  // Of all rows where `rows` is null.
  void CopyPart(const int64_t* rows, size_t begin, size_t n, const ShardPart& part,
                const PartPlace& live, char* to) const;

  ShardLayout layout_;
  PartPlan plan_;
  int64_t num_rows_ = 0;
  int64_t applied_ = 0;
  int64_t gradient_steps_ = 0;
  std::optional<proto::HashTableState> hash_;
  std::vector<Tensor> waiting_;
  std::vector<Tensor> dense_;
  TableMemory memory_;  // the table itself, live
  // Which kept row stands for a row; 0: it is not changed yet, and the table's own is good. Zeros
  // of calloc take no memory before they are written. See kMaxTableRows.
  std::unique_ptr<uint32_t[], decltype(&std::free)> kept_{nullptr, &std::free};
  std::vector<Buffer> slabs_;  // kept rows, in the order of their first change
  int64_t slab_rows_ = 1;
  uint32_t last_kept_ = 0;
};

}  // namespace coxswain::ps
