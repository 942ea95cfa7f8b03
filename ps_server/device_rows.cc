// The block and its ops; look-ups; reads and writes through memory that was set aside; updates;
// what work that was enqueued still uses; and the devices of a PS.
#include "ps_server/device_rows.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <limits>

#include "absl/strings/str_cat.h"
#include "runtime/base/logging.h"
#include "runtime/base/status.h"

namespace coxswain::ps {
namespace {

// Of the memory that is set aside on both sides.
constexpr size_t kAsideBytes = size_t{1} << 20;
// How much work in flight may hold before it is marked, so that its end can be seen, and before it
// is waited for.
constexpr size_t kTellBytes = size_t{8} << 20, kMostInFlight = size_t{256} << 20;
constexpr size_t kTellBuffers = 32;

constexpr size_t kAlignment = 256;  // of tensors in a slab
size_t RoundUp(size_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

// So that a row, its number and the rule's numbers fit into what is set aside.
constexpr size_t kMostStride = kAsideBytes / 2;

int64_t Count(absl::Span<const int64_t> rows) { return static_cast<int64_t>(rows.size()); }

// A list of rows goes to the device in 32 bits, for it is all that crosses the bus.
using RowNumber = int32_t;
constexpr int64_t kMostRows = std::numeric_limits<RowNumber>::max();
TensorType ListType() { return {DType::kI32, Shape{kUnknownDim}}; }

size_t ListSize(int64_t rows) { return static_cast<size_t>(rows) * sizeof(RowNumber); }
// Of one in a slab.
size_t ListBytes(int64_t rows) { return RoundUp(ListSize(rows)); }

void PutList(absl::Span<const int64_t> rows, char* to) {
  auto* const list = reinterpret_cast<RowNumber*>(to);
  for (size_t i = 0; i < rows.size(); ++i) list[i] = static_cast<RowNumber>(rows[i]);
}

void KeepForEver(std::vector<Buffer> buffers) {
  static absl::Mutex mu(absl::kConstInit);
  static auto* const kept = new std::vector<Buffer>;
  const absl::MutexLock lock(&mu);
  kept->insert(kept->end(), std::make_move_iterator(buffers.begin()),
               std::make_move_iterator(buffers.end()));
}

Tensor ListIn(const Buffer& at, int64_t rows) {
  return Tensor(DType::kI32, Shape{rows}, at.Slice(0, ListSize(rows)));
}

}  // namespace

DeviceRows::DeviceRows(std::shared_ptr<device::DeviceRuntime> device,
                       std::shared_ptr<device::DeviceStream> stream,
                       const graph::OpRegistry* registry, Plan plan, Lost lost, Resized resized)
    : device_(std::move(device)),
      stream_(std::move(stream)),
      registry_(registry),
      plan_(std::move(plan)),
      lost_(std::move(lost)),
      resized_(std::move(resized)),
      block_(DType::kF32, Shape{0, static_cast<int64_t>(plan_.stride / sizeof(float))}) {}

DeviceRows::~DeviceRows() {
  Settle();
  // The block and what was set aside belong to no stream: what uses them must be over.
  Synchronize().IgnoreError();
  resized_(-static_cast<int64_t>(bytes()));
}

absl::StatusOr<std::unique_ptr<DeviceRows>> DeviceRows::Make(
    std::shared_ptr<device::DeviceRuntime> device, std::shared_ptr<device::DeviceStream> stream,
    const graph::OpRegistry* registry, Plan plan, Lost lost, Resized resized) {
  std::unique_ptr<DeviceRows> made(new DeviceRows(std::move(device), std::move(stream), registry,
                                                  std::move(plan), std::move(lost),
                                                  std::move(resized)));
  const Plan& p = made->plan_;
  if (p.stride > kMostStride) {
    return absl::InvalidArgumentError(absl::StrCat(p.who, ": a row with its slots takes ", p.stride,
                                                   " bytes, wanted at most ", kMostStride,
                                                   " in the memory of a GPU"));
  }
  RETURN_IF_ERROR(made->TryReserve(p.rows));
  if (absl::Status set_aside = made->SetAside(); !set_aside.ok()) {
    return Annotate(set_aside, p.who);
  }
  if (!p.optimizer.empty()) {
    ASSIGN_OR_RETURN(made->apply_, made->MakeOp("BlockApply", made->block_.dim(1),
                                                {ListType(),
                                                 {DType::kF32, Shape{kUnknownDim, p.width}},
                                                 {DType::kF32, Shape{kUnknownDim}}},
                                                {{"kind", p.optimizer}}));
  }
  return made;
}

void DeviceRows::SetLane(int lane) {
  absl::StatusOr<std::shared_ptr<device::DeviceStream>> stream = device_->RowStream(lane);
  // What was enqueued here, and memory of this stream, come before what is enqueued there. Where
  // that fails, this stream serves as well.
  if (!stream.ok() || *stream == stream_ || !(*stream)->WaitFor(stream_.get()).ok()) return;
  stream_ = *std::move(stream);
}

absl::Status DeviceRows::SetAside() {
  ASSIGN_OR_RETURN(fault_, device_->Allocate(sizeof(CoxFault)));
  ASSIGN_OR_RETURN(aside_.device, device_->Allocate(kAsideBytes));
  ASSIGN_OR_RETURN(aside_.host, device_->pinned()->Allocate(kAsideBytes));
  return absl::OkStatus();
}

absl::Status DeviceRows::TryReserve(int64_t rows) {
  if (rows > kMostRows) {
    return absl::ResourceExhaustedError(absl::StrCat(plan_.who, ", ", rows,
                                                     " rows: wanted at most ", kMostRows,
                                                     " of one shard in the memory of a GPU"));
  }
  const absl::StatusOr<Buffer> grown = device_->Allocate(static_cast<size_t>(rows) * plan_.stride);
  if (!grown.ok()) return Annotate(grown.status(), absl::StrCat(plan_.who, ", ", rows, " rows"));
  if (bytes() > 0) {
    absl::Status status = stream_->CopyOnDevice(grown->Slice(0, bytes()), block_.buffer());
    Keep({*grown});
    status.Update(Synchronize());
    RETURN_IF_ERROR(Checked(status));
  }
  const size_t before = bytes();
  block_ = Tensor(DType::kF32, Shape{rows, block_.dim(1)}, *grown);
  resized_(static_cast<int64_t>(bytes()) - static_cast<int64_t>(before));
  return absl::OkStatus();
}

// Doubles, so that each row is copied once in the mean; where there is no memory for that, less.
absl::Status DeviceRows::Reserve(int64_t rows) {
  Settle();
  RETURN_IF_ERROR(failed_);
  if (rows <= capacity()) return absl::OkStatus();
  RETURN_IF_ERROR(Synchronize());  // what earlier work has held may be what is wanted
  absl::Status status;
  for (const int64_t wanted : {std::max(rows, 2 * capacity()), rows + rows / 8, rows}) {
    status = TryReserve(wanted);
    if (!absl::IsResourceExhausted(status)) return Checked(status);
  }
  return Annotate(status, absl::StrCat("to grow from ", capacity(),
                                       " rows, which stay there until they are copied"));
}

absl::StatusOr<std::unique_ptr<device::DeviceOp>> DeviceRows::MakeOp(
    const std::string& op, int64_t columns, const std::vector<TensorType>& inputs, Attrs attrs) {
  graph::Graph graph(registry_);
  graph::Node node;
  node.op = op;
  node.attrs = std::move(attrs);
  std::vector<TensorType> all = {{DType::kF32, Shape{kUnknownDim, columns}}};
  all.insert(all.end(), inputs.begin(), inputs.end());
  for (const TensorType& type : all) {
    graph::Node argument;
    argument.op = "Arg";
    argument.attrs = {{"index", graph.size()}, {"dtype", type.dtype}, {"shape", type.shape}};
    ASSIGN_OR_RETURN(const int id, graph.Add(std::move(argument)));
    node.inputs.push_back({id, 0});
  }
  ASSIGN_OR_RETURN(const int id, graph.Add(std::move(node)));
  return device_->CreateOp(graph.node(id), graph);
}

absl::StatusOr<const device::DeviceOp*> DeviceRows::GatherOp(size_t offset, size_t bytes) {
  std::unique_ptr<device::DeviceOp>& op = gathers_[{offset, bytes}];
  if (op == nullptr) {
    ASSIGN_OR_RETURN(op, MakeOp("BlockGather", block_.dim(1), {ListType()},
                                {{"offset", static_cast<int64_t>(offset / sizeof(float))},
                                 {"width", static_cast<int64_t>(bytes / sizeof(float))}}));
  }
  return op.get();
}

absl::StatusOr<const device::DeviceOp*> DeviceRows::ScatterOp(size_t offset, size_t bytes) {
  std::unique_ptr<device::DeviceOp>& op = scatters_[{offset, bytes}];
  if (op == nullptr) {
    const Shape values{kUnknownDim, static_cast<int64_t>(bytes / sizeof(float))};
    ASSIGN_OR_RETURN(op, MakeOp("BlockScatter", block_.dim(1), {ListType(), {DType::kF32, values}},
                                {{"offset", static_cast<int64_t>(offset / sizeof(float))}}));
  }
  return op.get();
}

absl::Status DeviceRows::Run(const device::DeviceOp& op, absl::Span<const Tensor> inputs,
                             const Tensor& output) {
  return op.Enqueue(stream_.get(), {inputs, absl::MakeConstSpan(&output, 1), fault_, -1, {}});
}

absl::StatusOr<DeviceRows::Slab> DeviceRows::Allocate(size_t bytes) {
  Slab slab;
  ASSIGN_OR_RETURN(slab.host, device_->pinned()->Allocate(bytes));
  ASSIGN_OR_RETURN(slab.device, stream_->Allocate(bytes));
  return slab;
}

absl::Status DeviceRows::Checked(absl::Status status) {
  if (!device::IsDeviceLost(status)) return status;
  Fail(status);
  return failed_;
}

void DeviceRows::Fail(absl::Status status) {
  if (!failed_.ok()) return;
  if (!device::IsDeviceLost(status)) status = device::DeviceLost(std::string(status.message()));
  failed_ = Annotate(status, plan_.who);
  lost_(failed_);
}

absl::StatusOr<Tensor> DeviceRows::Gather(const Tensor& rows, Given given, RowBatch* later) {
  RETURN_IF_ERROR(failed_);
  const int64_t n = rows.num_elements();
  const size_t row_bytes = static_cast<size_t>(plan_.width) * sizeof(float);
  const size_t bytes = static_cast<size_t>(n) * row_bytes;
  absl::StatusOr<Buffer> made = stream_->Allocate(bytes);
  if (absl::IsResourceExhausted(made.status())) {
    // What earlier work has held may be what is wanted.
    RETURN_IF_ERROR(Synchronize());
    made = stream_->Allocate(bytes);
  }
  if (!made.ok()) return Checked(made.status());
  RowBatch::Work work;
  work.of = this;
  work.rows = rows;
  work.found = Tensor(DType::kF32, Shape{n, plan_.width}, *std::move(made));
  work.given = std::move(given.at);
  work.values = std::move(given.values);
  work.bytes =
      ListBytes(n) + ListBytes(Count(work.given)) + RoundUp(work.values.size() * sizeof(float));
  Tensor found = work.found;
  if (n == 0) return found;
  RETURN_IF_ERROR(Hand(std::move(work), later));
  return found;
}

absl::Status DeviceRows::Hand(RowBatch::Work work, RowBatch* later) {
  if (waits_in_ != later) Settle();
  RowBatch now;
  (later == nullptr ? &now : later)->Add(std::move(work));
  return now.Run();
}

void DeviceRows::Settle() {
  // An error of look-ups is for those who wait for them.
  if (waits_in_ != nullptr) waits_in_->status_.Update(waits_in_->Run());
}

void DeviceRows::Fill(const RowBatch::Work& work, char* host) const {
  const auto put = [&host](const void* from, size_t bytes, size_t room) {
    if (bytes > 0) std::memcpy(host, from, bytes);
    host += room;
  };
  const auto put_list = [&host](absl::Span<const int64_t> rows) {
    PutList(rows, host);
    host += ListBytes(Count(rows));
  };
  if (work.is_update()) put(work.rule.data(), work.rule.size() * sizeof(float), kAlignment);
  put_list(work.rows.values<int64_t>());
  put_list(work.given);
  put(work.values.data(), work.values.size() * sizeof(float), 0);
  if (work.is_update() && work.gradient.device() == Device{}) {
    put(work.gradient.raw(), work.gradient.bytes(), 0);
  }
}

absl::Status DeviceRows::Enqueue(const RowBatch::Work& work, const Buffer& there) {
  RETURN_IF_ERROR(failed_);
  if (work.is_update()) return EnqueueApply(work.rows, work.gradient, work.rule.size(), there);
  ASSIGN_OR_RETURN(const device::DeviceOp* op,
                   GatherOp(0, static_cast<size_t>(plan_.width) * sizeof(float)));
  const Tensor inputs[] = {block_, ListIn(there, work.rows.num_elements())};
  return Run(*op, inputs, work.found);
}

absl::Status DeviceRows::EnqueueGiven(const RowBatch::Work& work, const Buffer& there) {
  if (work.values.empty()) return absl::OkStatus();
  RETURN_IF_ERROR(failed_);
  if (give_ == nullptr) {
    ASSIGN_OR_RETURN(give_, MakeOp("BlockScatter", plan_.width,
                                   {ListType(), {DType::kF32, Shape{kUnknownDim, plan_.width}}},
                                   {{"offset", int64_t{0}}}));
  }
  const int64_t n = Count(work.given);
  const size_t list = ListBytes(work.rows.num_elements()), at = ListBytes(n);
  const Tensor inputs[] = {work.found, ListIn(there.Slice(list, at), n),
                           Tensor(DType::kF32, Shape{n, plan_.width},
                                  there.Slice(list + at, work.values.size() * sizeof(float)))};
  return Run(*give_, inputs, work.found);
}

absl::StatusOr<Tensor> DeviceRows::GatherToHost(const Tensor& rows) {
  const int64_t n = rows.num_elements();
  if (n == 0) return Tensor(DType::kF32, Shape{n, plan_.width});
  const absl::StatusOr<Tensor> gathered = Gather(rows);
  if (absl::IsResourceExhausted(gathered.status())) return ReadToHost(rows.values<int64_t>());
  RETURN_IF_ERROR(gathered.status());
  ASSIGN_OR_RETURN(const Buffer host, device_->pinned()->Allocate(gathered->bytes()));
  absl::Status status = stream_->CopyToHost(host, gathered->buffer());
  Keep({host});  // also after an error: the copy may be under way
  status.Update(Synchronize());
  if (!status.ok()) return Checked(status);
  return Tensor(DType::kF32, Shape{n, plan_.width}, host);
}

absl::StatusOr<Tensor> DeviceRows::ReadToHost(absl::Span<const int64_t> rows) {
  Tensor read(DType::kF32, Shape{Count(rows), plan_.width});
  RETURN_IF_ERROR(Read(rows, 0, static_cast<size_t>(plan_.width) * sizeof(float),
                       static_cast<char*>(read.mutable_raw())));
  return read;
}

absl::Status DeviceRows::InPieces(absl::Span<const int64_t> rows, size_t bytes,
                                  absl::FunctionRef<absl::Status(absl::Span<const int64_t>)> run) {
  Settle();
  RETURN_IF_ERROR(failed_);
  const size_t most = (kAsideBytes - 2 * kAlignment) / (bytes + sizeof(RowNumber));
  COX_CHECK(most > 0, "rows of ", bytes, " bytes in pieces");
  while (!rows.empty()) {
    const absl::Span<const int64_t> piece = rows.subspan(0, most);
    absl::Status status = run(piece);
    status.Update(Synchronize());  // also after an error: something may be under way
    if (!status.ok()) return Checked(status);
    rows.remove_prefix(piece.size());
  }
  return absl::OkStatus();
}

absl::Status DeviceRows::Read(absl::Span<const int64_t> rows, size_t offset, size_t bytes,
                              char* to) {
  ASSIGN_OR_RETURN(const device::DeviceOp* op, GatherOp(offset, bytes));
  return InPieces(rows, bytes, [&](absl::Span<const int64_t> piece) -> absl::Status {
    const int64_t n = Count(piece);
    const size_t list = ListBytes(n), size = piece.size() * bytes;
    PutList(piece, static_cast<char*>(aside_.host.data()));
    RETURN_IF_ERROR(
        stream_->CopyToDevice(aside_.device.Slice(0, list), aside_.host.Slice(0, list)));
    const Buffer values = aside_.device.Slice(list, size), host = aside_.host.Slice(list, size);
    const Tensor inputs[] = {block_, ListIn(aside_.device, n)};
    const Shape shape{n, static_cast<int64_t>(bytes / sizeof(float))};
    RETURN_IF_ERROR(Run(*op, inputs, Tensor(DType::kF32, shape, values)));
    RETURN_IF_ERROR(stream_->CopyToHost(host, values));
    RETURN_IF_ERROR(Synchronize());
    std::memcpy(to, host.data(), size);
    to += size;
    return absl::OkStatus();
  });
}

absl::Status DeviceRows::TryWrite(absl::Span<const int64_t> rows, size_t offset, size_t bytes,
                                  const char* from, const Slab& slab) {
  ASSIGN_OR_RETURN(const device::DeviceOp* op, ScatterOp(offset, bytes));
  const int64_t n = Count(rows);
  const size_t list = ListBytes(n), size = rows.size() * bytes;
  char* const host = static_cast<char*>(slab.host.data());
  PutList(rows, host);
  std::memcpy(host + list, from, size);
  RETURN_IF_ERROR(
      stream_->CopyToDevice(slab.device.Slice(0, list + size), slab.host.Slice(0, list + size)));
  const Shape shape{n, static_cast<int64_t>(bytes / sizeof(float))};
  const Tensor inputs[] = {block_, ListIn(slab.device, n),
                           Tensor(DType::kF32, shape, slab.device.Slice(list, size))};
  return Run(*op, inputs, block_);
}

absl::Status DeviceRows::Write(absl::Span<const int64_t> rows, size_t offset, size_t bytes,
                               const char* from) {
  return InPieces(rows, bytes, [&](absl::Span<const int64_t> piece) -> absl::Status {
    const char* const first = from;
    from += piece.size() * bytes;
    return TryWrite(piece, offset, bytes, first, aside_);
  });
}

void DeviceRows::Begin(absl::Span<const int64_t> rows, const char* from) {
  if (rows.empty() || !failed_.ok()) return;
  LetGo();
  absl::Status status = Reserve(*std::max_element(rows.begin(), rows.end()) + 1);
  if (!status.ok()) return Fail(std::move(status));
  const absl::StatusOr<Slab> slab = Allocate(ListBytes(Count(rows)) + rows.size() * plan_.stride);
  status = slab.status();
  if (status.ok()) {
    status = TryWrite(rows, 0, plan_.stride, from, *slab);
    Keep({slab->host});
  }
  if (absl::IsResourceExhausted(status)) {
    status = Synchronize();
    if (status.ok()) status = Write(rows, 0, plan_.stride, from);
  }
  if (!status.ok()) Fail(std::move(status));
}

// The rule's numbers, the list, and the gradient where it has to be brought.
size_t DeviceRows::ApplyBytes(int64_t rows, bool with_gradient) const {
  const size_t gradient = static_cast<size_t>(rows * plan_.width) * sizeof(float);
  return kAlignment + ListBytes(rows) + (with_gradient ? RoundUp(gradient) : 0);
}

absl::Status DeviceRows::EnqueueApply(const Tensor& rows, const Tensor& gradient, size_t numbers,
                                      const Buffer& there) {
  const int64_t n = rows.num_elements();
  const size_t list = kAlignment, values = list + ListBytes(n);
  Tensor here = gradient;
  if (gradient.device() != device()) {
    const Buffer place = there.Slice(values, gradient.bytes());
    here = Tensor(DType::kF32, gradient.shape(), place);
    if (gradient.device() != Device{}) {
      RETURN_IF_ERROR(stream_->CopyOnDevice(place, gradient.buffer().Slice(0, gradient.bytes())));
    }
  }
  const Tensor inputs[] = {block_, ListIn(there.Slice(list, ListBytes(n)), n), std::move(here),
                           Tensor(DType::kF32, Shape{static_cast<int64_t>(numbers)},
                                  there.Slice(0, numbers * sizeof(float)))};
  return Run(*apply_, inputs, block_);
}

void DeviceRows::Apply(const Tensor& rows, const Tensor& gradient, std::vector<float> rule,
                       RowBatch* later) {
  if (rows.num_elements() == 0 || !failed_.ok()) return;
  RowBatch::Work work;
  work.of = this;
  work.rows = rows;
  work.gradient = gradient;
  work.rule = std::move(rule);
  work.bytes = ApplyBytes(rows.num_elements(), gradient.device() != device());
  Hand(std::move(work), later).IgnoreError();  // an update has none
}

// The rest was checked, so it is the device; and the ledger has the update already.
void DeviceRows::OnUpdateNotEnqueued(const RowBatch::Work& work, absl::Status why) {
  if (!failed_.ok()) return;
  if (absl::IsResourceExhausted(why)) {
    why = Synchronize();
    why.Update(ApplyInPieces(work));
  }
  if (!why.ok()) Fail(std::move(why));
}

absl::Status DeviceRows::ApplyInPieces(const RowBatch::Work& work) {
  int64_t most = 1;
  while (ApplyBytes(2 * most, /*with_gradient=*/true) <= kAsideBytes) most *= 2;
  const size_t row_bytes = static_cast<size_t>(plan_.width) * sizeof(float);
  const int64_t count = work.rows.num_elements();
  for (int64_t begin = 0; begin < count; begin += most) {
    const int64_t n = std::min(count - begin, most);
    const auto at = static_cast<size_t>(begin), rows = static_cast<size_t>(n);
    RowBatch::Work piece;
    piece.rows = Tensor(DType::kI64, Shape{n},
                        work.rows.buffer().Slice(at * sizeof(int64_t), rows * sizeof(int64_t)));
    piece.gradient = Tensor(DType::kF32, Shape{n, plan_.width},
                            work.gradient.buffer().Slice(at * row_bytes, rows * row_bytes));
    piece.rule = work.rule;
    Fill(piece, static_cast<char*>(aside_.host.data()));
    const size_t bytes = ApplyBytes(n, piece.gradient.device() == Device{});
    absl::Status status =
        stream_->CopyToDevice(aside_.device.Slice(0, bytes), aside_.host.Slice(0, bytes));
    if (status.ok()) status = Enqueue(piece, aside_.device);
    status.Update(Synchronize());
    RETURN_IF_ERROR(status);
  }
  return absl::OkStatus();
}

absl::StatusOr<Tensor> DeviceRows::Select(const Tensor& gradient, absl::Span<const int64_t> rows) {
  Settle();
  RETURN_IF_ERROR(failed_);
  LetGo();
  absl::StatusOr<Tensor> selected = TrySelect(gradient, rows);
  if (absl::IsResourceExhausted(selected.status())) selected = SelectToHost(gradient, rows);
  if (!selected.ok()) return Checked(selected.status());
  return selected;
}

absl::StatusOr<Tensor> DeviceRows::TrySelect(const Tensor& gradient,
                                             absl::Span<const int64_t> rows) {
  const int64_t n = Count(rows);
  const size_t row_bytes = static_cast<size_t>(plan_.width) * sizeof(float);
  ASSIGN_OR_RETURN(const Buffer to, stream_->Allocate(rows.size() * row_bytes));
  Tensor selected(DType::kF32, Shape{n, plan_.width}, to);
  if (n == 0) return selected;
  if (select_ == nullptr) {
    ASSIGN_OR_RETURN(select_, MakeOp("BlockGather", plan_.width, {ListType()},
                                     {{"offset", int64_t{0}}, {"width", plan_.width}}));
  }
  ASSIGN_OR_RETURN(const Slab list, Allocate(ListBytes(n)));
  PutList(rows, static_cast<char*>(list.host.data()));
  Tensor from = gradient;
  if (gradient.device() != device()) {
    ASSIGN_OR_RETURN(const Buffer here, stream_->Allocate(gradient.bytes()));
    from = Tensor(DType::kF32, gradient.shape(), here);
  }
  absl::Status status = stream_->CopyToDevice(list.device, list.host);
  if (status.ok() && gradient.device() != device()) {
    status = stream_->CopyOnDevice(from.buffer(), gradient.buffer().Slice(0, gradient.bytes()));
  }
  const Tensor inputs[] = {from, ListIn(list.device, n)};
  if (status.ok()) status = Run(*select_, inputs, selected);
  Keep({list.host, gradient.buffer()});  // after all that uses them was enqueued
  RETURN_IF_ERROR(status);
  return selected;
}

absl::StatusOr<Tensor> DeviceRows::SelectToHost(const Tensor& gradient,
                                                absl::Span<const int64_t> rows) {
  RETURN_IF_ERROR(Synchronize());
  Tensor selected(DType::kF32, Shape{Count(rows), plan_.width});
  char* to = static_cast<char*>(selected.mutable_raw());
  const size_t bytes = static_cast<size_t>(plan_.width) * sizeof(float);
  const auto read = [&](absl::Span<const int64_t> piece) -> absl::Status {
    const size_t size = piece.size() * bytes;
    for (size_t i = 0; i < piece.size(); ++i) {
      const size_t from = static_cast<size_t>(piece[i]) * bytes;
      RETURN_IF_ERROR(stream_->CopyOnDevice(aside_.device.Slice(i * bytes, bytes),
                                            gradient.buffer().Slice(from, bytes)));
    }
    RETURN_IF_ERROR(stream_->CopyToHost(aside_.host.Slice(0, size), aside_.device.Slice(0, size)));
    RETURN_IF_ERROR(Synchronize());
    std::memcpy(to, aside_.host.data(), size);
    to += size;
    return absl::OkStatus();
  };
  RETURN_IF_ERROR(InPieces(rows, bytes, read));
  return selected;
}

void DeviceRows::Keep(std::vector<Buffer> buffers) {
  if (in_flight_.empty() || in_flight_.back().done != nullptr) in_flight_.emplace_back();
  InFlight& last = in_flight_.back();
  for (Buffer& buffer : buffers) {
    last.bytes += buffer.size();
    last.buffers.push_back(std::move(buffer));
  }
  if (last.bytes < kTellBytes && last.buffers.size() < kTellBuffers) return;
  auto done = stream_->SetMark();
  if (!done.ok()) return Fail(done.status());
  last.done = *std::move(done);
}

void DeviceRows::LetGo() {
  size_t bytes = 0;
  while (!in_flight_.empty() && in_flight_.front().done != nullptr &&
         in_flight_.front().done->reached()) {
    in_flight_.pop_front();
  }
  for (const InFlight& work : in_flight_) bytes += work.bytes;
  if (bytes > kMostInFlight) Synchronize().IgnoreError();
}

absl::Status DeviceRows::Synchronize() {
  const absl::Status status = stream_->Synchronize();
  // What a device that hangs may still use is never given back.
  if (!status.ok()) {
    for (InFlight& work : in_flight_) KeepForEver(std::move(work.buffers));
    KeepForEver({aside_.host, aside_.device, block_.buffer(), fault_});
    Fail(status);
  }
  in_flight_.clear();
  return status;
}

RowDevices::RowDevices(Open open, int first, const graph::OpRegistry* registry,
                       DeviceRows::Lost lost, std::string table_directory)
    : open_(std::move(open)),
      first_(first),
      registry_(registry),
      lost_(std::move(lost)),
      table_directory_(std::move(table_directory)) {}

absl::Status RowDevices::OpenOnce() {
  const absl::MutexLock opening(&open_mu_);
  {
    const absl::MutexLock lock(&mu_);
    if (devices_ != nullptr || open_ == nullptr) return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(auto opened, open_());
  const absl::MutexLock lock(&mu_);
  devices_ = std::move(opened);
  bytes_.resize(devices_ == nullptr ? 0 : static_cast<size_t>(devices_->size()));
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<DeviceRows>> RowDevices::Make(DeviceRows::Plan plan) {
  const std::string wanted =
      absl::StrCat(plan.who, " is to be in the memory of a GPU (device: gpu)");
  if (const absl::Status opened = OpenOnce(); !opened.ok()) return Annotate(opened, wanted);
  std::shared_ptr<device::DeviceRuntime> device;
  int number = 0;
  size_t at = 0;
  const int64_t bytes = plan.rows * static_cast<int64_t>(plan.stride);
  {
    const absl::MutexLock lock(&mu_);
    if (bytes_.empty()) {
      const std::string& why = devices_ == nullptr ? "" : devices_->why_none();
      return absl::FailedPreconditionError(absl::StrCat(
          wanted, ", but this parameter server has none", why.empty() ? "" : ": ", why));
    }
    at = static_cast<size_t>(std::min_element(bytes_.begin(), bytes_.end()) - bytes_.begin());
    bytes_[at] += bytes;
    device = devices_->device((first_ + static_cast<int>(at)) % devices_->size());
    number = made_++;
  }
  const auto tell = [this](absl::Status status) {
    {
      const absl::MutexLock lock(&mu_);
      if (std::exchange(told_, true)) return;
    }
    LogError("a GPU that rows are on failed: ", status.message());
    if (lost_) lost_(std::move(status));
  };
  const auto resized = [this, at](int64_t more) {
    const absl::MutexLock lock(&mu_);
    bytes_[at] += more;
  };
  auto made = [&]() -> absl::StatusOr<std::unique_ptr<DeviceRows>> {
    ASSIGN_OR_RETURN(auto stream, device->RowStream(number));
    return DeviceRows::Make(device, std::move(stream), registry_, std::move(plan), tell, resized);
  }();
  resized(-bytes);  // it counts for itself now
  return made;
}

std::vector<std::string> RowDevices::names() const {
  const absl::MutexLock lock(&mu_);
  std::vector<std::string> names;
  for (int i = 0; devices_ != nullptr && i < devices_->size(); ++i) {
    names.push_back(devices_->device(i)->name());
  }
  return names;
}

}  // namespace coxswain::ps
