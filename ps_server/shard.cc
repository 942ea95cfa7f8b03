#include "ps_server/shard.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "ps_server/shard_snapshot.h"
#include "ps_server/storage.h"
#include "runtime/base/logging.h"
#include "runtime/base/status.h"

namespace coxswain {
namespace {

constexpr size_t kRowAlignment = 64;  // 16 floats: a cache line

template <typename T>
void FillPart(char* data, size_t stride, int64_t rows, int64_t width, double value) {
  for (int64_t r = 0; r < rows; ++r) {
    T* row = reinterpret_cast<T*>(data + static_cast<size_t>(r) * stride);
    std::fill(row, row + width, static_cast<T>(value));
  }
}

template <typename T>
void FillFrom(const Initializer& initializer, const ShardLayout& layout, char* data,
              size_t stride) {
  const size_t width = static_cast<size_t>(layout.row_elements());
  for (int64_t r = 0; r < layout.rows(); ++r) {
    T* row = reinterpret_cast<T*>(data + static_cast<size_t>(r) * stride);
    initializer.FillRow(layout.ToGlobal(r), absl::MakeSpan(row, width));
  }
}

}  // namespace

Shard::Shard(proto::ShardSpec spec, ShardLayout layout, Optimizer optimizer)
    : spec_(std::move(spec)), layout_(std::move(layout)), optimizer_(std::move(optimizer)) {}

Shard::~Shard() = default;

absl::StatusOr<std::unique_ptr<Shard>> Shard::Create(const proto::ShardSpec& spec, Fill fill) {
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
  if (shard->optimizer_.kind() != OptimizerKind::kNone && !IsFloating(shard->layout_.dtype())) {
    return shard->Invalid(absl::StrCat("the optimizer ", shard->optimizer_.name(),
                                       " needs f32 or f64, the dtype is ",
                                       DTypeName(shard->layout_.dtype())));
  }
  if (shard->table() && shard->optimizer_.SparseMovesAllRows()) {
    return shard->Invalid(
        "the optimizer adam moves every row of a table at every step: use lazy_adam, which moves "
        "the rows of the batch");
  }
  RETURN_IF_ERROR(shard->AllocateParts());
  shard->FillSlots();
  if (fill == Fill::kInitialize) shard->FillWeights(initializer);
  return shard;
}

absl::Status Shard::AllocateParts() {
  const size_t rows = static_cast<size_t>(layout_.rows());
  if (table()) {
    const size_t row = layout_.row_bytes() * static_cast<size_t>(parts());
    row_stride_ = (row + kRowAlignment - 1) / kRowAlignment * kRowAlignment;
    absl::StatusOr<Buffer> memory = AllocateStorage(rows * row_stride_);
    if (!memory.ok()) return Annotate(memory.status(), Invalid("").message());
    rows_ = std::move(memory).value();
    return absl::OkStatus();
  }
  for (int p = 0; p < parts(); ++p) {
    absl::StatusOr<Buffer> memory = AllocateStorage(rows * layout_.row_bytes());
    if (!memory.ok()) return Annotate(memory.status(), Invalid("").message());
    dense_.emplace_back(layout_.dtype(), layout_.shape(), std::move(memory).value());
  }
  return absl::OkStatus();
}

void Shard::FillSlots() {
  for (int slot = 0; slot < optimizer_.slots(); ++slot) {
    const double value = optimizer_.slot_initial(slot);
    if (value == 0) continue;  // new memory is zero
    const Part at = part(1 + slot);
    if (layout_.dtype() == DType::kF32) {
      FillPart<float>(at.data, at.stride, layout_.rows(), layout_.row_elements(), value);
    } else {
      FillPart<double>(at.data, at.stride, layout_.rows(), layout_.row_elements(), value);
    }
  }
}

void Shard::FillWeights(const Initializer& initializer) {
  const Part at = part(0);
  switch (layout_.dtype()) {
    case DType::kF32:
      return FillFrom<float>(initializer, layout_, at.data, at.stride);
    case DType::kF64:
      return FillFrom<double>(initializer, layout_, at.data, at.stride);
    case DType::kI64:
      return FillFrom<int64_t>(initializer, layout_, at.data, at.stride);
    default:
      COX_CHECK(false, "a layout of ", DTypeName(layout_.dtype()));
  }
}

absl::string_view Shard::part_name(int part) const {
  return part == 0 ? "weights" : optimizer_.slot_name(part - 1);
}

int64_t Shard::memory_bytes() const {
  size_t bytes = rows_.size();
  for (const Tensor& tensor : dense_) bytes += tensor.bytes();
  return static_cast<int64_t>(bytes);
}

Shard::Part Shard::part(int index) const {
  const size_t at = static_cast<size_t>(index);
  if (table()) return {static_cast<char*>(rows_.data()) + at * layout_.row_bytes(), row_stride_};
  return {static_cast<char*>(dense_[at].buffer().data()), layout_.row_bytes()};
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

void Shard::PrepareChange(const int64_t* ids, int64_t n) {
  for (Tensor& tensor : dense_) {
    if (tensor.Unique()) continue;
    Tensor copy(tensor.dtype(), tensor.shape());
    std::copy_n(static_cast<const char*>(tensor.raw()), tensor.bytes(),
                static_cast<char*>(copy.mutable_raw()));
    tensor = std::move(copy);
  }
  if (snapshots_.empty()) return;
  std::erase_if(snapshots_, [](const auto& snapshot) { return snapshot.expired(); });
  for (const std::weak_ptr<ShardSnapshot>& held : snapshots_) {
    if (const auto snapshot = held.lock()) snapshot->Preserve(ids, n);
  }
}

}  // namespace coxswain
