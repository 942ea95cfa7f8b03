// A shard made and filled, restored, and copied on write for a snapshot. Rows, updates, hash
// tables, rows in the memory of a GPU and loading are in shard_rows.cc, shard_update.cc,
// shard_hash.cc, shard_device.cc and shard_load.cc.
#include "ps_server/shard.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "ps_server/row_copy.h"
#include "ps_server/shard_snapshot.h"
#include "ps_server/storage.h"
#include "ps_server/table_file.h"
#include "runtime/base/logging.h"
#include "runtime/base/status.h"
#include "runtime/tensor/within_memory.h"

namespace coxswain::ps {
namespace {

// All parts of so many bytes are filled before the next rows are: they lie side by side.
constexpr size_t kFilledAtOnce = size_t{1} << 20;

struct Rows {
  int64_t begin, end;
};

template <typename T>
void FillPart(const PartPlace& at, Rows rows, int64_t width, double value) {
  for (int64_t r = rows.begin; r < rows.end; ++r) {
    std::fill_n(reinterpret_cast<T*>(at.Row(r)), width, static_cast<T>(value));
  }
}

template <typename T>
void FillFrom(const Initializer& initializer, const ShardLayout& layout, Rows rows,
              const PartPlace& at) {
  const size_t width = static_cast<size_t>(layout.row_elements());
  for (int64_t r = rows.begin; r < rows.end; ++r) {
    T* row = reinterpret_cast<T*>(at.Row(r));
    initializer.FillRow(layout.ToGlobal(r), absl::MakeSpan(row, width));
  }
}

void FillBf16From(const Initializer& initializer, const ShardLayout& layout, Rows rows,
                  const PartPlace& at) {
  std::vector<float> row(static_cast<size_t>(layout.row_elements()));
  for (int64_t r = rows.begin; r < rows.end; ++r) {
    initializer.FillRow(layout.ToGlobal(r), absl::MakeSpan(row));
    WriteBf16Rows(at.Row(r), at.stride, layout.row_elements(), 1, row.data());
  }
}

absl::Status CheckRounding(const proto::VariableSpec& variable) {
  const std::string& rounding = variable.rounding();
  if (rounding.empty()) return absl::OkStatus();
  if (rounding != "nearest" && rounding != "stochastic") {
    return absl::InvalidArgumentError(
        absl::StrCat("unknown rounding '", rounding, "': known are nearest and stochastic"));
  }
  if (variable.dtype() == static_cast<int32_t>(DType::kBF16)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("rounding '", rounding, "' is for weights in bf16"));
}

}  // namespace

Shard::Shard(proto::ShardSpec spec, ShardLayout layout, Optimizer optimizer)
    : spec_(std::move(spec)),
      layout_(std::move(layout)),
      optimizer_(std::move(optimizer)),
      plan_(PlanParts(layout_, optimizer_, table(), WantedIn(spec_))),
      touched_(plan_.Find(kTouchedPart)),
      averages_(plan_.Find(kEmaPart)) {}

Shard::~Shard() = default;

absl::StatusOr<std::unique_ptr<Shard>> Shard::Create(const proto::ShardSpec& spec, Fill fill,
                                                     RowDevices* devices) {
  return WithinMemory([&] { return Make(spec, fill, devices); });
}

absl::StatusOr<std::unique_ptr<Shard>> Shard::Make(const proto::ShardSpec& spec, Fill fill,
                                                   RowDevices* devices) {
  ASSIGN_OR_RETURN(ShardLayout layout, ShardLayout::Create(spec));
  const proto::VariableSpec& variable = spec.variable();
  ASSIGN_OR_RETURN(const Initializer initializer,
                   Initializer::Create(variable.initializer(), variable.name(),
                                       layout.variable_shape(), layout.dtype()));
  absl::StatusOr<Optimizer> optimizer = Optimizer::Create(variable.optimizer());
  if (!optimizer.ok()) {
    return Annotate(optimizer.status(), absl::StrCat("variable '", variable.name(), "'"));
  }
  std::unique_ptr<Shard> shard(new Shard(spec, std::move(layout), std::move(optimizer).value()));
  if (!shard->optimizer_.none() && !IsFloating(shard->layout_.dtype())) {
    return shard->Invalid(absl::StrCat("the optimizer ", shard->optimizer_.name(),
                                       " needs f32 or f64, the dtype is ",
                                       DTypeName(shard->layout_.dtype())));
  }
  if (const absl::Status rounding = CheckRounding(variable); !rounding.ok()) {
    return shard->Invalid(rounding.message());
  }
  if (shard->layout_.hashed()) shard->initializer_ = initializer;
  RETURN_IF_ERROR(shard->CheckDevice());
  const Initializer* const weights = fill == Fill::kInitialize ? &initializer : nullptr;
  switch (WantedIn(spec)) {
    case RowsIn::kGpu:
      RETURN_IF_ERROR(shard->AllocateOnGpu(devices));
      RETURN_IF_ERROR(shard->FillOnGpu(weights));
      return shard;
    case RowsIn::kFile:
      RETURN_IF_ERROR(shard->AllocateInFile(devices));
      break;
    case RowsIn::kHost:
      RETURN_IF_ERROR(shard->layout_.hashed() ? shard->AllocateHash(RowsIn::kHost)
                                              : shard->AllocateParts());
      break;
  }
  if (!shard->layout_.hashed()) shard->FillRows(weights);
  return shard;
}

absl::Status Shard::CheckRowCount() const {
  if (layout_.rows() <= kMaxTableRows) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat(Invalid("").message(), ": ", layout_.rows(),
                                                   " rows, a shard holds at most ", kMaxTableRows,
                                                   ": use more shards"));
}

absl::Status Shard::AllocateParts() {
  const size_t rows = static_cast<size_t>(layout_.rows());
  if (table()) {
    RETURN_IF_ERROR(CheckRowCount());
    absl::StatusOr<Buffer> memory = AllocateFilledStorage(rows * plan_.row_stride);
    if (!memory.ok()) return Annotate(memory.status(), Invalid("").message());
    memory_.rows = std::move(memory).value();
    return AllocateSide();
  }
  for (const ShardPart& part : plan_.parts) {
    absl::StatusOr<Buffer> memory = AllocateFilledStorage(rows * part.row_bytes());
    if (!memory.ok()) return Annotate(memory.status(), Invalid("").message());
    dense_.emplace_back(part.dtype, part.WholeShape(layout_), std::move(memory).value());
  }
  return absl::OkStatus();
}

absl::Status Shard::AllocateSide() {
  absl::StatusOr<Buffer> side = AllocateStorage(static_cast<size_t>(rows()) * plan_.side_stride);
  if (!side.ok()) return Annotate(side.status(), Invalid("").message());
  memory_.side = *std::move(side);
  return absl::OkStatus();
}

void Shard::FillRows(const Initializer* initializer) {
  const size_t row_bytes = std::max<size_t>(1, plan_.row_stride);
  const auto most = std::max<int64_t>(1, static_cast<int64_t>(kFilledAtOnce / row_bytes));
  for (int64_t begin = 0; begin < rows(); begin += most) {
    const int64_t n = std::min(most, rows() - begin);
    FillParts(begin, n);
    if (initializer != nullptr) FillWeights(*initializer, begin, n);
  }
}

void Shard::FillParts(int64_t begin, int64_t n) {
  const Rows rows{begin, begin + n};
  for (int p = 1; p < parts(); ++p) {
    const ShardPart& filled = part(p);
    if (filled.initial == 0) continue;  // new memory is zero
    switch (filled.dtype) {
      case DType::kF32:
        FillPart<float>(Place(p), rows, filled.width, filled.initial);
        break;
      case DType::kF64:
        FillPart<double>(Place(p), rows, filled.width, filled.initial);
        break;
      default:
        COX_CHECK(false, "part ", filled.name, " of ", DTypeName(filled.dtype));
    }
  }
}

void Shard::FillWeights(const Initializer& initializer, int64_t begin, int64_t n) {
  const Rows rows{begin, begin + n};
  switch (layout_.dtype()) {
    case DType::kF32:
      FillFrom<float>(initializer, layout_, rows, Place(0));
      break;
    case DType::kBF16:
      FillBf16From(initializer, layout_, rows, Place(0));
      break;
    case DType::kF64:
      FillFrom<double>(initializer, layout_, rows, Place(0));
      break;
    case DType::kI64:
      FillFrom<int64_t>(initializer, layout_, rows, Place(0));
      break;
    default:
      COX_CHECK(false, "a layout of ", DTypeName(layout_.dtype()));
  }
  if (averages_ > 0) BeginAverages(Averaged(), nullptr, begin, n);
}

int64_t Shard::memory_bytes() const {
  const size_t on_gpu = gpu_ == nullptr ? 0 : gpu_->bytes();
  if (hash_ != nullptr) return hash_->memory_bytes() + static_cast<int64_t>(on_gpu);
  size_t bytes = memory_.rows.size() + memory_.side.size() + on_gpu;
  for (const Tensor& tensor : dense_) bytes += tensor.bytes();
  return static_cast<int64_t>(bytes);
}

PartPlace Shard::Place(int part) const {
  COX_CHECK(!OnGpu(part), "part ", this->part(part).name, " is in the memory of a GPU");
  const size_t at = static_cast<size_t>(part);
  if (table()) return PlaceOf(plan_, memory_, at);
  return {static_cast<char*>(dense_[at].buffer().data()), plan_.parts[at].row_bytes()};
}

absl::Status Shard::Invalid(absl::string_view message) const {
  const absl::string_view separator = message.empty() ? "" : ": ";
  return absl::InvalidArgumentError(absl::StrCat("shard ", id(), " of variable '",
                                                 spec_.variable().name(), "'", separator, message));
}

absl::Status Shard::RestoreCounters(int64_t applied, int64_t gradient_steps) {
  if (gradient_steps < 0 || gradient_steps > applied) {
    return Invalid(absl::StrCat("wanted 0 <= gradient steps <= applied updates, got ",
                                gradient_steps, " and ", applied));
  }
  applied_ = applied;
  gradient_steps_ = gradient_steps;
  return absl::OkStatus();
}

std::shared_ptr<const ShardSnapshot> Shard::Snapshot() {
  std::erase_if(snapshots_, [](const auto& held) { return held.expired(); });
  std::shared_ptr<ShardSnapshot> snapshot(new ShardSnapshot(*this));
  if (table()) snapshots_.push_back(snapshot);
  return snapshot;
}

void Shard::CopyShared() {
  for (Tensor& tensor : dense_) {
    if (tensor.Unique()) continue;
    Tensor copy(tensor.dtype(), tensor.shape());
    std::copy_n(static_cast<const char*>(tensor.raw()), tensor.bytes(),
                static_cast<char*>(copy.mutable_raw()));
    tensor = std::move(copy);
  }
}

void Shard::PrepareChange(const int64_t* ids, int64_t n) {
  CopyShared();
  ReadAhead(memory_, plan_.row_stride, ids, n);
  if (snapshots_.empty()) return;
  std::erase_if(snapshots_, [](const auto& snapshot) { return snapshot.expired(); });
  for (const std::weak_ptr<ShardSnapshot>& held : snapshots_) {
    if (const auto snapshot = held.lock()) snapshot->Preserve(ids, n);
  }
}

void Shard::PrepareRelease(int64_t place) {
  for (const std::weak_ptr<ShardSnapshot>& held : snapshots_) {
    if (const auto snapshot = held.lock()) snapshot->PreserveBeside(place);
  }
}

void Shard::FinishPrepare() {
  for (const std::weak_ptr<ShardSnapshot>& held : snapshots_) {
    if (const auto snapshot = held.lock()) snapshot->PreserveRest();
  }
}

void Shard::PrepareRange(int64_t begin, int64_t n) {
  CopyShared();
  if (snapshots_.empty()) return;
  std::erase_if(snapshots_, [](const auto& snapshot) { return snapshot.expired(); });
  for (const std::weak_ptr<ShardSnapshot>& held : snapshots_) {
    if (const auto snapshot = held.lock()) snapshot->PreserveRange(begin, n);
  }
}

}  // namespace coxswain::ps
