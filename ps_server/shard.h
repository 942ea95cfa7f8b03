// One shard of a variable: its weights, its optimizer's slots and its count of updates.
//
// The values that it keeps for each row are its "parts": part 0 the weights, part 1 + i slot i, and
// others; see shard_parts.h. Row numbers are local, see ShardLayout.
//
// Thread model: one event loop. Returned tensors never change and may be used on any thread.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "coxswain/tensor.h"
#include "protos/control.pb.h"
#include "protos/variable.pb.h"
#include "ps_server/averages.h"
#include "ps_server/device_rows.h"
#include "ps_server/hash_rows.h"
#include "ps_server/optimizer.h"
#include "ps_server/shard_layout.h"
#include "ps_server/shard_parts.h"
#include "runtime/base/ids.h"
#include "runtime/graph/variable_access.h"
#include "runtime/tensor/initializer.h"

namespace coxswain::ps {

class ShardSnapshot;

// Reads of tables and gathers above this size are refused: read ranges of rows instead.
constexpr int64_t kMaxReadBytes = int64_t{4} << 30;
// Ids and rows that Shard::ReadIds returns at once: the lane does nothing else meanwhile.
constexpr int64_t kMostIdsBytes = int64_t{64} << 20;
// Bound for one shard of a table, because a snapshot numbers rows in 32 bits.
constexpr int64_t kMaxTableRows = int64_t{0xffffffff};

class Shard {
 public:
  // The weights of a new shard; slots always start from their initial values.
  enum class Fill : uint8_t { kInitialize, kZeros };  // kZeros: a restore writes them next

  // Errors: InvalidArgument for a spec that ShardLayout, Initializer or Optimizer refuses, and for
  // an optimizer on an integer variable; ResourceExhausted.
  // For rows in the memory of a GPU or on disk also FailedPrecondition where there is none, and
  // those of TableFile; `devices`, which may be null, must outlive the shard.
  static absl::StatusOr<std::unique_ptr<Shard>> Create(const proto::ShardSpec& spec,
                                                       Fill fill = Fill::kInitialize,
                                                       RowDevices* devices = nullptr);
  ~Shard();
  Shard(const Shard&) = delete;
  Shard& operator=(const Shard&) = delete;

  const proto::ShardSpec& spec() const { return spec_; }
  ShardId id() const { return spec_.id(); }
  bool table() const { return spec_.variable().table(); }
  const ShardLayout& layout() const { return layout_; }
  const Optimizer& optimizer() const { return optimizer_; }

  // Rows that it has memory for; in a hash table some of these places are free.
  int64_t rows() const { return layout_.rows(); }
  // For a hash table: its ids. Else null.
  const HashRows* hash() const { return hash_.get(); }
  int parts() const { return static_cast<int>(plan_.parts.size()); }
  const PartPlan& plan() const { return plan_; }
  const ShardPart& part(int part) const { return plan_.parts[static_cast<size_t>(part)]; }
  // It is in this lane from now on.
  void SetLane(int lane);
  // Memory of weights and slots, including padding, on the host and the device.
  int64_t memory_bytes() const;
  // The GPU that has weights and slots; the CPU.
  Device rows_on() const { return gpu_ == nullptr ? Device{} : gpu_->device(); }

  // The weights, of the shard's shape: a handle for a dense variable (an update that finds it held
  // copies first), a copy for a table.
  // Errors: InvalidArgument for a table above kMaxReadBytes, and for a hash table.
  absl::StatusOr<Tensor> Read() const;
  // Read and Gather of the moving averages; of the weights where there are none.
  absl::StatusOr<Tensor> ReadAverages() const;
  absl::StatusOr<Tensor> GatherAverages(const Tensor& ids) const;
  // Rows `ids` (i64 [n]) of the weights: [n, row...]. All ids are checked before any row is read.
  // In a hash table, an id without a row reads its initial value, and gets no row. Errors:
  // InvalidArgument for ids of another dtype or rank, out of range, or above kMaxReadBytes.
  absl::StatusOr<Tensor> Gather(const Tensor& ids) const;
  // The same in the memory of the GPU that has the rows, and `later`, see DeviceRows::Gather. Only
  // there.
  absl::StatusOr<Tensor> GatherOnDevice(const Tensor& ids, RowBatch* later = nullptr) const;

  // A copy of rows [begin, begin + n) of a part: [n, row...], or [n] for a part of one value per
  // row; for a scalar [1]. Errors: InvalidArgument for rows or a part out of range, or above
  // kMaxReadBytes.
  absl::StatusOr<Tensor> ReadRows(int64_t begin, int64_t n, int part = 0) const;
  // Replaces rows [begin, begin + n) of a part by `rows`, in the shape that ReadRows returns,
  // without counting an update. Writing any part other than "touched" touches the rows. Averages
  // of weights that are written begin anew. A part in bf16 also accepts f32, rounded to nearest.
  // Errors: InvalidArgument; then nothing has changed.
  absl::Status WriteRows(int64_t begin, const Tensor& rows, int part = 0);
  // The same for rows[i] at local row ids[i], which is a place in a hash table. For restoring.
  absl::Status WriteRowsAt(absl::Span<const int64_t> ids, const Tensor& rows, int part = 0);
  // The part that has the averages, -1 where there are none.
  int averages() const { return averages_; }

  // For a hash table: the rows in the places [begin, begin + n): one part of them, and their ids;
  // as many as kMostIdsBytes hold, at least one. Errors: InvalidArgument for places or a part out
  // of range.
  struct IdsAndRows {
    Tensor ids, rows;
    int64_t end = 0;  // the first place that was not read
  };
  // Of kUses (cluster::kUses in place of a part) a cluster::RowUse each, i64 [n, 3].
  absl::StatusOr<IdsAndRows> ReadIds(int64_t begin, int64_t n, int part = 0) const;
  // For a hash table: sets the weights [n, row...] of ids [n], and creates rows for ids that have
  // none, without counting an update. Errors: InvalidArgument, ResourceExhausted; then nothing has
  // changed. With `replace`, all other rows are removed.
  absl::Status WriteIds(const Tensor& ids, const Tensor& rows, bool replace = false);
  // The same for another part than the weights, in the shape that ReadIds returns, of ids that have
  // rows; kUses only before the first update. Errors: InvalidArgument, also for an id without a
  // row; then nothing has changed.
  absl::Status WritePartOfIds(const Tensor& ids, const Tensor& rows, int part);

  // Whether `update` can be applied: an OK here means that ApplySegment cannot fail, given that
  // Reserve has made room for the ids of all updates of the segment.
  // Errors: InvalidArgument naming what was wanted and what was found.
  absl::Status Validate(const graph::Update& update) const;
  // What updates of a hash table need room for: the ids that they name, and those of them that may
  // get a row. Where only memory of the host is at stake, all of them may, and none is looked up.
  struct Room {
    int64_t ids = 0, new_rows = 0;
    Room& operator+=(const Room& other) {
      ids += other.ids;
      new_rows += other.new_rows;
      return *this;
    }
  };
  // Of this update as the rows are now. When one of them goes before it is applied, a place gets
  // free for it.
  Room RoomFor(const graph::Update& update) const;
  // For a hash table: reserves memory. Errors: ResourceExhausted.
  absl::Status Reserve(const Room& room);
  absl::Status Reserve(int64_t new_rows) { return Reserve({new_rows, new_rows}); }
  // Memory for one update of a hash table by places.
  struct ForPlaces {
    Tensor places, values;  // values: where ids may get no row
    std::vector<int64_t> kept;
  };
  // What ApplySegment needs: nearly always one update's, or nothing.
  using Memory = absl::InlinedVector<ForPlaces, 1>;
  // Has the host's memory ready that ApplySegment takes for these updates; what it takes of a GPU's
  // is set aside. Errors: ResourceExhausted; then nothing has changed.
  absl::StatusOr<Memory> Prepare(absl::Span<const graph::Update* const> updates);
  // Rows of gradients: all that they named, and those of them that the last `staleness` updates had
  // changed: what the gradient was computed from is no longer there.
  struct NamedRows {
    int64_t all = 0, changed = 0;
  };
  // Applies validated updates of one segment in order and counts them as one update of the shard.
  // Of a row that several of them name, the first says whether it had changed. Nothing is returned
  // of dense variables. Without what Prepare returned it takes memory on its way, and a shortage is
  // the end of the process. With `later`, rows in the memory of a GPU change when that runs, or
  // before anything else is done with them.
  NamedRows ApplySegment(absl::Span<const graph::Update* const> updates, const UpdateTime& time,
                         Memory memory = {}, RowBatch* later = nullptr) noexcept;

  // Segments applied since the variable was created: the number of steps, if every closure updates
  // every shard once a step.
  int64_t applied() const { return applied_; }
  // The number of those segments with a gradient: the t of Adam's bias correction, less one.
  int64_t gradient_steps() const { return gradient_steps_; }
  // For restoring. Errors: InvalidArgument unless 0 <= gradient_steps <= applied.
  absl::Status RestoreCounters(int64_t applied, int64_t gradient_steps);
  // For restoring a hash table: before its parts are written, and after. Errors: as in HashRows.
  absl::Status PrepareRestore(const proto::HashTableState& state);
  absl::Status FinishRestore(const proto::HashTableState& state,
                             const std::vector<Tensor>& waiting);

  // A consistent cut of all parts and both counters at this moment. It copies nothing now: as long
  // as the snapshot lives, later updates copy rows before they change them. For a shortage of
  // memory see ShardSnapshot::status.
  std::shared_ptr<const ShardSnapshot> Snapshot();

 private:
  friend class ShardSnapshot;
  Shard(proto::ShardSpec spec, ShardLayout layout, Optimizer optimizer);
  // As Create, but a shortage of memory may be thrown.
  static absl::StatusOr<std::unique_ptr<Shard>> Make(const proto::ShardSpec& spec, Fill fill,
                                                     RowDevices* devices);

  // Of an update with gradients: its number, how late it is, and by what its learning rate is
  // multiplied. Of rows in the memory of a GPU, with what it may be started.
  struct Numbers {
    int64_t t = 0, staleness = 0;
    double rate = 1;
    RowBatch* later = nullptr;
  };

  // Where the rows are to be (shard_device.cc).
  static RowsIn WantedIn(const proto::ShardSpec& spec);
  absl::Status CheckDevice() const;
  // Rows in a file.
  absl::Status CheckForFile() const;
  absl::Status AllocateInFile(const RowDevices* devices);
  // Rows in the memory of a GPU.
  absl::Status CheckForGpu() const;
  absl::Status AllocateOnGpu(RowDevices* devices);
  absl::Status AllocateHash(RowsIn rows_in, const std::string& directory = "");
  absl::Status FillOnGpu(const Initializer* initializer);
  // All slots of a row of the block, with their initial values.
  void FillSlots(float* row) const;
  bool OnGpu(int part) const { return gpu_ != nullptr && !this->part(part).side; }
  absl::Status WriteOnGpu(absl::Span<const int64_t> rows, int part, const char* from);
  absl::Status ReadFromGpu(int64_t begin, int64_t n, int part, char* to) const;
  absl::Status CheckGpuUpdate(const graph::Update& update) const;
  int64_t ApplyOnGpu(const graph::Update& update, const Numbers& at);

  // Of a table. Errors: ResourceExhausted.
  absl::Status CheckRowCount() const;
  absl::Status AllocateParts();
  absl::Status AllocateSide();
  // All parts of all rows. Without an initializer weights are zeros.
  void FillRows(const Initializer* initializer);
  // Of rows [begin, begin + n).
  void FillParts(int64_t begin, int64_t n);
  void FillWeights(const Initializer& initializer, int64_t begin, int64_t n);
  PartPlace Place(int part) const;
  // Records that the update after applied() has changed the rows.
  void Touch(const int64_t* ids, int64_t n);
  void TouchRange(int64_t begin, int64_t n);
  RowBlock Block() const;
  AveragedRows Averaged() const;
  // Rows that an update of a segment named; without ids: all of them.
  struct Named {
    graph::Update::Kind kind = graph::Update::Kind::kDense;
    Tensor ids = {};
  };
  void UpdateAverages(absl::Span<const Named> changed);
  // Of a row that comes twice the last counts.
  absl::Status WritePlaces(absl::Span<const int64_t> rows, int part, const char* from);
  absl::StatusOr<Tensor> GatherPart(const Tensor& ids, int part) const;
  absl::StatusOr<Tensor> GatherFromGpu(const Tensor& ids) const;
  // These four return how many of the rows that a sparse gradient names had changed since it was
  // computed.
  int64_t ApplyUpdate(const graph::Update& update, const Numbers& at);
  template <typename T>
  int64_t ApplyOne(const graph::Update& update, const Numbers& at);
  template <typename T>
  void ApplyDense(const T* gradient, const Numbers& at);
  template <typename T>
  void Assign(const T* values);
  template <typename T>
  void MoveTowards(const T* values, T share);
  template <typename T>
  void Add(const int64_t* ids, int64_t n, const T* values);
  template <typename T>
  int64_t ApplySparse(const int64_t* ids, int64_t n, const T* gradient, const Numbers& at);

  absl::Status Invalid(absl::string_view message) const;
  absl::Status CheckIds(absl::Span<const int64_t> ids) const;
  absl::Status CheckRows(absl::Span<const int64_t> rows) const;
  absl::Status CheckIdTensor(const Tensor& ids) const;
  absl::Status CheckRange(int64_t begin, int64_t n, int part) const;
  // Converts f32 values for a part that is stored in bf16; other values are returned unchanged.
  static Tensor Stored(const Tensor& values, DType dtype);
  absl::Status CheckValues(const Tensor& values, DType dtype, const Shape& wanted) const;

  // Hash tables. The places of ids; any place for those without a row, which are `missing`.
  struct FoundPlaces {
    Tensor places;                 // i64 [n]
    std::vector<int64_t> missing;  // numbers in the list
  };
  FoundPlaces FindPlaces(absl::Span<const int64_t> ids) const;
  void GatherIds(absl::Span<const int64_t> ids, int part, float* to) const;
  ForPlaces AllocateFor(const graph::Update& update) const;
  // Makes room in the scratch for `n` rows that are made.
  void ReserveMade(int64_t n);
  // The update by places, for those ids that have a row or get one now.
  graph::Update ByPlaces(const graph::Update& update, const UpdateTime& time, ForPlaces* memory);
  // Rows `kept` of its gradient, in `memory`.
  Tensor SelectGradient(const Tensor& values, absl::Span<const int64_t> kept, Tensor memory) const;
  // Sets all parts of new rows.
  void BeginRows(const std::vector<HashRows::NewRow>& made);
  void BeginRowsOnGpu(const std::vector<HashRows::NewRow>& made);
  // For rows in the memory of a GPU: how many are filled on the host together.
  size_t RowsFilledAtOnce() const;
  void FillInitial(int64_t id, absl::Span<float> weights) const;
  void Evict(absl::Span<const graph::Update* const> updates, const UpdateTime& time);

  // Called before these rows change: preserves parts that a reader or a snapshot still holds.
  void PrepareChange(const int64_t* ids, int64_t n);
  // The same before the parts beside the block change of a row of a hash table; FinishPrepare must
  // follow before the block changes, and does for many rows at once what takes as long as for one.
  void PrepareRelease(int64_t place);
  void FinishPrepare();
  // The same for rows [begin, begin + n).
  void PrepareRange(int64_t begin, int64_t n);
  // Dense variables: copies parts that have other holders.
  void CopyShared();

  proto::ShardSpec spec_;
  ShardLayout layout_;
  Optimizer optimizer_;
  PartPlan plan_;
  int touched_ = -1;                        // table: the part's number
  int averages_ = -1;                       // the same
  TableMemory memory_;                      // table: all parts of all rows
  std::shared_ptr<DeviceRows> gpu_;         // table: the block of rows instead of memory_.rows
  std::unique_ptr<HashRows> hash_;          // hash table
  std::optional<Initializer> initializer_;  // hash table
  std::vector<HashRows::NewRow> made_;      // scratch, as the next two
  std::vector<int64_t> made_places_;
  std::vector<float> filled_;  // rows that begin: one in bf16, some in the memory of a GPU
  std::vector<Tensor> dense_;  // dense variable: one tensor a part
  int64_t applied_ = 0;
  int64_t gradient_steps_ = 0;
  std::vector<std::weak_ptr<ShardSnapshot>> snapshots_;
};

}  // namespace coxswain::ps
