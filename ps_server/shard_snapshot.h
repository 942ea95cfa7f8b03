// A shard as it was at one moment, read while training goes on: the source of a checkpoint file.
//
// Dense variables are shared with the shard until it changes them (copy-on-write of whole parts).
// In a table, an update copies each row before it first changes it. Ids are spread over the whole
// table, so copying larger pieces would soon copy all of it, and new memory costs more than the
// copying itself. A row is copied with all of its parts. In the worst case a snapshot takes the
// table's size again, and 4 bytes per row.
//
// Updates never wait or fail for a snapshot. One that cannot have the memory that it needs gives up
// and lets go of what it has; all that is read from it then says so.
//
// Thread model: created, read and destroyed on the shard's event loop; its results may be used on
// any thread. It may outlive its shard.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "coxswain/tensor.h"
#include "protos/control.pb.h"
#include "ps_server/shard_layout.h"
#include "ps_server/shard_parts.h"
#include "ps_server/storage.h"

namespace coxswain::ps {

class DeviceRows;
class Shard;

class ShardSnapshot {
 public:
  // OK while all rows can be read as they were. ResourceExhausted: it has given up; or an error of
  // a GPU that the rows are on.
  const absl::Status& status() const { return status_; }
  const ShardLayout& layout() const { return layout_; }
  int64_t rows() const { return num_rows_; }
  const PartPlan& plan() const { return plan_; }
  int parts() const { return static_cast<int>(plan_.parts.size()); }
  const ShardPart& part(int part) const { return plan_.parts[static_cast<size_t>(part)]; }
  int64_t applied() const { return applied_; }
  int64_t gradient_steps() const { return gradient_steps_; }
  // For a hash table: its state beside the parts, and the waiting ids, see HashRows::Waiting.
  const std::optional<proto::HashTableState>& hash() const { return hash_; }
  const std::vector<Tensor>& waiting() const { return waiting_; }

  // Rows [begin, begin + n) of a part as they were, in the form of Shard::ReadRows. Errors:
  // InvalidArgument for rows or a part out of range, or above kMaxReadBytes; status(), as of all
  // that follows.
  absl::StatusOr<Tensor> ReadRows(int64_t begin, int64_t n, int part) const;

  // The tensors of a file: the parts, then waiting().
  int tensors() const { return parts() + static_cast<int>(waiting_.size()); }
  // Bytes of a tensor; for a part, its rows one after the other, without padding.
  int64_t tensor_bytes(int tensor) const {
    if (tensor >= parts()) return static_cast<int64_t>(WaitingAt(tensor).bytes());
    return num_rows_ * static_cast<int64_t>(part(tensor).row_bytes());
  }
  // Copies bytes [begin, begin + n) of a tensor as they were. Errors: InvalidArgument for bytes or
  // a tensor out of range.
  absl::Status CopyBytes(int64_t begin, int64_t n, int tensor, void* destination) const;

  // For a table: adds to `rows` those of [begin, end) that updates after the `since`-th have
  // changed.
  absl::Status FindTouched(int64_t begin, int64_t end, int64_t since, std::vector<int64_t>* rows,
                           int64_t step = 1) const;
  // Copies bytes [begin, begin + n) of a part of these rows, one after the other. Errors: as
  // CopyBytes; the rows are not checked.
  absl::Status CopyRows(absl::Span<const int64_t> rows, int64_t begin, int64_t n, int part,
                        void* destination) const;

  // Bytes of old rows kept so far.
  int64_t preserved_bytes() const {
    return static_cast<int64_t>(last_kept_) * static_cast<int64_t>(kept_bytes());
  }

 private:
  friend class Shard;
  const Tensor& WaitingAt(int tensor) const {
    return waiting_[static_cast<size_t>(tensor - parts())];
  }
  explicit ShardSnapshot(const Shard& shard);
  absl::Status HoldTable(const Shard& shard);
  // What follows keeps rows before they change. It does nothing after the snapshot gave up.
  void Keep(absl::FunctionRef<void()> rows);
  void GiveUp(const absl::Status& why);
  // These rows; rows [begin, begin + n).
  void Preserve(const int64_t* ids, int64_t n);
  void PreserveRange(int64_t begin, int64_t n);
  // The same in two steps: what is beside the block, or all of a row on the host, and all the rest.
  void PreserveBeside(int64_t row);
  void PreserveRest();
  void KeepBeside(int64_t row);
  void KeepRest();
  // A kept row consists of its bytes in the block of rows and then those in the side block.
  size_t kept_bytes() const { return plan_.row_stride + plan_.side_stride; }
  char* KeptRow(uint32_t number) const;  // from 1
  const char* RowOf(const ShardPart& part, const PartPlace& live, int64_t row) const;
  // For all rows if `rows` is null.
  absl::Status CopyPart(const int64_t* rows, size_t begin, size_t n, const ShardPart& part,
                        char* to) const;
  // The same of the block of rows where that is in the memory of a GPU.
  absl::Status CopyFromGpu(const int64_t* rows, size_t begin, size_t n, const ShardPart& part,
                           char* to) const;
  // The number for a row that is not kept yet, with memory for it.
  uint32_t NextKept();

  ShardLayout layout_;
  PartPlan plan_;
  int64_t num_rows_ = 0;
  int64_t applied_ = 0;
  int64_t gradient_steps_ = 0;
  std::optional<proto::HashTableState> hash_;
  std::vector<Tensor> waiting_;
  std::vector<Tensor> dense_;
  TableMemory memory_;               // the table itself, live
  std::shared_ptr<DeviceRows> gpu_;  // has the block of rows; null: memory_ has
  std::vector<int64_t> rest_;        // kept, but for what is there
  absl::Status status_;
  // For each row the number of its kept copy; 0: the row has not changed yet, so the table's own is
  // valid. See kMaxTableRows. Null: nothing is kept.
  Zeros<uint32_t> kept_{nullptr, &std::free};
  std::vector<Buffer> slabs_;  // kept rows, in the order of their first change
  int64_t slab_rows_ = 1;
  uint32_t last_kept_ = 0;
};

}  // namespace coxswain::ps
