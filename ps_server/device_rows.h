// The rows of a table's shard in the memory of a GPU: weights and optimizer slots, row by row, as
// the ops of kernels/row_block_ops.cc know them. Everything else of the shard stays on the host.
//
// Reads and updates are enqueued on one of the device's row streams (DeviceRuntime::RowStream), so
// each sees what was enqueued before it. What waits for the device, waits kLongestWait at most.
//
// An update cannot fail: where the device has no memory for it, it goes in pieces through memory
// that was set aside. When the device fails all the same, or hangs, `lost` is told, and from then
// on every function says so: the rows are as lost as those of a PS that was killed.
//
// A block grows by being copied to a larger one, so there must be memory for both at once.
//
// Thread model: as of the shard; different shards may use one device at the same time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/types/span.h"
#include "coxswain/tensor.h"
#include "ps_server/row_batch.h"
#include "runtime/device/device_runtime.h"
#include "runtime/graph/op.h"

namespace coxswain::ps {

// Of VariableSpec.device.
inline constexpr char kOnGpu[] = "gpu";

class DeviceRows {
 public:
  // Shapes of the block and of what it is for.
  struct Plan {
    int64_t rows = 0;       // that there is room for at first
    size_t stride = 0;      // bytes from row to row
    int64_t width = 0;      // f32 weights of a row, at its beginning
    std::string optimizer;  // the kind; empty: none
    std::string who;        // for errors: "shard 3 of variable 'v'"
  };
  using Lost = std::function<void(absl::Status)>;
  using Resized = std::function<void(int64_t bytes)>;

  // Rows have no values yet. `registry` must outlive it. `resized` is told by how much the block
  // has grown, and at the end, also if it is not made, that it is smaller by all of this. Errors:
  // InvalidArgument for rows that are too wide; ResourceExhausted; those of the device.
  static absl::StatusOr<std::unique_ptr<DeviceRows>> Make(
      std::shared_ptr<device::DeviceRuntime> device, std::shared_ptr<device::DeviceStream> stream,
      const graph::OpRegistry* registry, Plan plan, Lost lost, Resized resized);
  ~DeviceRows();

  Device device() const { return device_->device(); }
  size_t bytes() const { return block_.bytes(); }
  // Rows that there is room for.
  int64_t capacity() const { return block_.dim(0); }

  // Makes room for `rows` rows. Those that are there stay as they are. Waits where the block has to
  // grow. Errors: ResourceExhausted, then nothing has changed; those of the device.
  absl::Status Reserve(int64_t rows);

  // Work of this shard runs in this lane from now on, and is enqueued on that lane's row stream,
  // where it can be started together with that of other shards.
  void SetLane(int lane);

  // Rows of a result that are not of the block: their numbers in it, and f32 [n, width].
  struct Given {
    std::vector<int64_t> at;
    std::vector<float> values;
  };
  // Weights of these rows (i64 [n] in host memory, which must not change), f32 [n, width], in the
  // device's memory, for streams that wait for the row streams. Waits only where memory is short.
  // The rows of all functions are within the block. With `later`, once that has run, and as the
  // rows are now. Errors: those of the device; ResourceExhausted.
  absl::StatusOr<Tensor> Gather(const Tensor& rows, Given given, RowBatch* later = nullptr);
  absl::StatusOr<Tensor> Gather(const Tensor& rows) { return Gather(rows, Given()); }
  // The same in host memory.
  absl::StatusOr<Tensor> GatherToHost(const Tensor& rows);

  // Of each row `bytes` bytes from `offset` on, both multiples of 4, one after the other. Waits.
  absl::Status Read(absl::Span<const int64_t> rows, size_t offset, size_t bytes, char* to);
  absl::Status Write(absl::Span<const int64_t> rows, size_t offset, size_t bytes, const char* from);
  // Writes whole rows that differ, `stride` bytes each, and makes room for them. As an update, it
  // cannot fail: where there is no room to be had, the device is lost. Waits only where memory is
  // short.
  void Begin(absl::Span<const int64_t> rows, const char* from);

  // The optimizer's rule, of which these are the numbers, for the gradients f32 [n, width] of rows
  // (as those of Gather) that differ: in host memory, or in that of a GPU, where they are complete.
  // Waits only where memory is short. With `later`, when that runs, or before anything else is done
  // with the rows.
  void Apply(const Tensor& rows, const Tensor& gradient, std::vector<float> rule,
             RowBatch* later = nullptr);
  // These rows of such a gradient in the memory of a GPU, for Apply: there, or on the host where
  // memory is short. Errors: those of the device.
  absl::StatusOr<Tensor> Select(const Tensor& gradient, absl::Span<const int64_t> rows);

 private:
  friend class RowBatch;

  // What work that was enqueued still uses.
  struct InFlight {
    std::vector<Buffer> buffers;
    size_t bytes = 0;
    std::unique_ptr<device::DeviceStream::Mark> done;  // null: it is not marked yet
  };
  // Memory of both sides, with the same layout.
  struct Slab {
    Buffer host, device;
  };

  DeviceRows(std::shared_ptr<device::DeviceRuntime> device,
             std::shared_ptr<device::DeviceStream> stream, const graph::OpRegistry* registry,
             Plan plan, Lost lost, Resized resized);
  absl::Status SetAside();
  absl::Status TryReserve(int64_t rows);
  // In pieces.
  absl::StatusOr<Tensor> ReadToHost(absl::Span<const int64_t> rows);
  absl::StatusOr<Tensor> TrySelect(const Tensor& gradient, absl::Span<const int64_t> rows);
  absl::StatusOr<Tensor> SelectToHost(const Tensor& gradient, absl::Span<const int64_t> rows);
  // Its first input is a block with rows of so many columns.
  absl::StatusOr<std::unique_ptr<device::DeviceOp>> MakeOp(const std::string& op, int64_t columns,
                                                           const std::vector<TensorType>& inputs,
                                                           Attrs attrs);
  absl::StatusOr<const device::DeviceOp*> GatherOp(size_t offset, size_t bytes);
  absl::StatusOr<const device::DeviceOp*> ScatterOp(size_t offset, size_t bytes);
  absl::StatusOr<Slab> Allocate(size_t bytes);
  // Calls `run` with pieces of the list, each of which, with `bytes` for each row, fits into what
  // was set aside. Waits after each.
  absl::Status InPieces(absl::Span<const int64_t> rows, size_t bytes,
                        absl::FunctionRef<absl::Status(absl::Span<const int64_t>)> run);
  // Both through memory that holds the list of rows and what is brought.
  absl::Status TryWrite(absl::Span<const int64_t> rows, size_t offset, size_t bytes,
                        const char* from, const Slab& slab);
  // Adds it to `later`, or runs it now.
  absl::Status Hand(RowBatch::Work work, RowBatch* later);
  // Runs what waits of these rows: it comes before what is done with them at once.
  void Settle();
  // Puts what the work brings into the host's side of a slab.
  void Fill(const RowBatch::Work& work, char* host) const;
  // `there`: the same on the device.
  absl::Status Enqueue(const RowBatch::Work& work, const Buffer& there);
  absl::Status EnqueueGiven(const RowBatch::Work& work, const Buffer& there);
  absl::Status EnqueueApply(const Tensor& rows, const Tensor& gradient, size_t numbers,
                            const Buffer& there);
  void OnUpdateNotEnqueued(const RowBatch::Work& work, absl::Status why);
  absl::Status ApplyInPieces(const RowBatch::Work& work);
  size_t ApplyBytes(int64_t rows, bool with_gradient) const;
  absl::Status Run(const device::DeviceOp& op, absl::Span<const Tensor> inputs,
                   const Tensor& output);
  // Keeps buffers until what was enqueued is done.
  void Keep(std::vector<Buffer> buffers);
  void LetGo();
  // Waits for all that was enqueued.
  absl::Status Synchronize();
  // An error of the device: told to `lost`, and kept, if it cannot be used any more.
  absl::Status Checked(absl::Status status);
  void Fail(absl::Status status);

  const std::shared_ptr<device::DeviceRuntime> device_;
  std::shared_ptr<device::DeviceStream> stream_;
  const graph::OpRegistry* const registry_;
  const Plan plan_;
  const Lost lost_;
  const Resized resized_;
  absl::Status failed_;
  Tensor block_;  // f32 [capacity, stride / 4]
  Buffer fault_;
  Slab aside_;
  std::unique_ptr<device::DeviceOp> apply_;
  // Of and to a tensor f32 [n, width].
  std::unique_ptr<device::DeviceOp> select_, give_;
  // By offset and bytes.
  std::map<std::pair<size_t, size_t>, std::unique_ptr<device::DeviceOp>> gathers_, scatters_;
  std::deque<InFlight> in_flight_;
  RowBatch* waits_in_ = nullptr;  // which has work of these rows
};

// What a PS has for the rows of its shards beside its memory: GPUs, and a directory. Thread-safe.
// Must outlive them.
class RowDevices {
 public:
  using Open = std::function<absl::StatusOr<std::shared_ptr<const device::DeviceSet>>()>;

  // `open` is called when the first table wants a GPU, and no more once it has succeeded: a process
  // that uses one takes memory there. Null: there is none. `first`: the device that comes first,
  // modulo their number, so that the PS of one machine do not all begin with the same. `lost` is
  // called at most once, on any thread.
  // `table_directory`: for rows on disk; empty: there is none.
  RowDevices(Open open, int first, const graph::OpRegistry* registry, DeviceRows::Lost lost,
             std::string table_directory = "");

  // On the device that has given the fewest bytes so far. Errors: FailedPrecondition where there is
  // no device; those of `open` and of DeviceRows::Make.
  absl::StatusOr<std::unique_ptr<DeviceRows>> Make(DeviceRows::Plan plan);
  // Those that are open, for people.
  std::vector<std::string> names() const;
  const std::string& table_directory() const { return table_directory_; }

 private:
  absl::Status OpenOnce();

  const Open open_;
  const int first_;
  const graph::OpRegistry* const registry_;
  const DeviceRows::Lost lost_;
  const std::string table_directory_;
  absl::Mutex open_mu_;  // opening may take seconds, for which nobody else who asks should wait
  mutable absl::Mutex mu_;
  std::shared_ptr<const device::DeviceSet> devices_ ABSL_GUARDED_BY(mu_);
  std::vector<int64_t> bytes_ ABSL_GUARDED_BY(mu_);  // by device, from first_ on
  int made_ ABSL_GUARDED_BY(mu_) = 0;
  bool told_ ABSL_GUARDED_BY(mu_) = false;
};

}  // namespace coxswain::ps
