// Checking and applying updates of a shard.
#include <algorithm>
#include <cstring>
#include <type_traits>

#include "absl/container/inlined_vector.h"
#include "absl/strings/str_cat.h"
#include "ps_server/row_copy.h"
#include "ps_server/shard.h"
#include "ps_server/summed_rows.h"
#include "runtime/base/id_hash.h"
#include "runtime/base/logging.h"
#include "runtime/base/status.h"
#include "runtime/checkpoint/manifest.h"

namespace coxswain::ps {
namespace {

bool IsGradient(graph::Update::Kind kind) {
  return kind == graph::Update::Kind::kDense || kind == graph::Update::Kind::kSparse;
}

bool HasIds(graph::Update::Kind kind) {
  return kind == graph::Update::Kind::kSparse || kind == graph::Update::Kind::kScatterAdd;
}

// Integers wrap, as an atomic counter does.
template <typename T>
void AddTo(T* to, const T* values, int64_t n) {
  using Sum = std::conditional_t<std::is_integral_v<T>, uint64_t, T>;
  for (int64_t i = 0; i < n; ++i) {
    to[i] = static_cast<T>(static_cast<Sum>(to[i]) + static_cast<Sum>(values[i]));
  }
}

// Rows of `width`, one after the other.
template <typename T>
void AddRows(T* to, int64_t width, const int64_t* ids, int64_t n, const T* values) {
  for (int64_t i = 0; i < n; ++i) {
    AddTo(to + (ids == nullptr ? i : ids[i]) * width, values + i * width, width);
  }
}

}  // namespace

absl::Status Shard::Validate(const graph::Update& update) const {
  if (update.kind > graph::Update::Kind::kScatterAdd) {
    return Invalid(absl::StrCat("unknown kind of update ", static_cast<int>(update.kind)));
  }
  if (IsGradient(update.kind) && optimizer_.none()) {
    return Invalid("got a gradient, but the variable has no optimizer");
  }
  if (update.kind == graph::Update::Kind::kAssignMovingAverage) {
    const DType stored = layout_.dtype();
    if (stored != DType::kF32 && stored != DType::kF64) {
      return Invalid(absl::StrCat("got a moving average, wanted f32 or f64 for it, and it has ",
                                  DTypeName(stored)));
    }
    if (!(update.rate > 0 && update.rate <= 1)) {
      return Invalid(
          absl::StrCat("a moving average's rate: wanted 0 < rate <= 1, found ", update.rate));
    }
  }
  if (gpu_ != nullptr) return CheckGpuUpdate(update);
  const DType dtype = layout_.value_dtype();
  if (hash_ != nullptr && !HasIds(update.kind)) {
    return Invalid("a hash table is updated by ids, not as a whole");
  }
  if (!HasIds(update.kind)) return CheckValues(update.values, dtype, layout_.shape());
  if (layout_.shape().rank() == 0) return Invalid("got an update of rows, but it is a scalar");
  RETURN_IF_ERROR(CheckIdTensor(update.ids));
  return CheckValues(update.values, dtype, layout_.RowsShape(update.ids.num_elements()));
}

Shard::NamedRows Shard::ApplySegment(absl::Span<const graph::Update* const> updates,
                                     const UpdateTime& time, Memory memory,
                                     RowBatch* later) noexcept {
  const bool gradient = std::any_of(updates.begin(), updates.end(),
                                    [](const graph::Update* u) { return IsGradient(u->kind); });
  const Numbers at{.t = gradient_steps_ + 1, .staleness = time.staleness, .later = later};
  absl::InlinedVector<Named, 2> changed;
  NamedRows gradient_rows;
  for (size_t i = 0; i < updates.size(); ++i) {
    const graph::Update* update = updates[i];
    graph::Update by_places;
    if (hash_ != nullptr) {
      ForPlaces own = i < memory.size() ? std::move(memory[i]) : AllocateFor(*update);
      by_places = ByPlaces(*update, time, &own);
      update = &by_places;
    }
    optimizer_.UseRate(update->learning_rate);
    const bool named = HasIds(update->kind);
    const int64_t* ids = named ? update->ids.data<int64_t>() : nullptr;
    const int64_t n = named ? update->ids.num_elements() : rows();
    const bool all =
        update->kind == graph::Update::Kind::kSparse && optimizer_.SparseMovesAllRows();
    if (update->kind == graph::Update::Kind::kSparse) {
      gradient_rows.all += n;
    }
    // No ids may be a null pointer, too, and are not all rows.
    if (all || !named) {
      PrepareRange(0, rows());
    } else if (n > 0) {
      PrepareChange(ids, n);
    }
    if (hash_ != nullptr) hash_->Count(ids, n, applied_ + 1);
    gradient_rows.changed += ApplyUpdate(*update, at);
    if (averages_ > 0) changed.push_back({update->kind, named && !all ? update->ids : Tensor()});
  }
  if (averages_ > 0) UpdateAverages(changed);
  ++applied_;
  if (gradient) ++gradient_steps_;
  if (hash_ != nullptr) Evict(updates, time);
  return gradient_rows;
}

int64_t Shard::ApplyUpdate(const graph::Update& update, const Numbers& at) {
  if (gpu_ != nullptr) return ApplyOnGpu(update, at);
  switch (layout_.dtype()) {
    case DType::kF32:
    case DType::kBF16:
      return ApplyOne<float>(update, at);
    case DType::kF64:
      return ApplyOne<double>(update, at);
    case DType::kI64:
      return ApplyOne<int64_t>(update, at);
    default:
      COX_CHECK(false, "a layout of ", DTypeName(layout_.dtype()));
      return 0;
  }
}

void Shard::Touch(const int64_t* ids, int64_t n) {
  if (touched_ < 0) return;
  const PartPlace at = Place(touched_);
  SetAt(at.data, at.stride, ids, n, applied_ + 1);
}

void Shard::TouchRange(int64_t begin, int64_t n) {
  if (touched_ < 0) return;
  const PartPlace at = Place(touched_);
  const int64_t number = applied_ + 1;
  for (int64_t r = begin; r < begin + n; ++r) std::memcpy(at.Row(r), &number, sizeof(number));
}

RowBlock Shard::Block() const {
  RowBlock block;
  for (int p = 0; p <= optimizer_.slots(); ++p) block.parts[static_cast<size_t>(p)] = Place(p);
  block.width = layout_.row_elements();
  block.weights = layout_.dtype();
  if (touched_ >= 0) block.touched = Place(touched_);
  block.number = applied_ + 1;
  const proto::VariableSpec& variable = spec_.variable();
  if (variable.rounding() == "stochastic") {
    block.rounding.stochastic = true;
    const uint32_t name = checkpoint::Crc32(0, variable.name().data(), variable.name().size());
    block.rounding.seed =
        HashId(static_cast<int64_t>(variable.initializer().seed())) ^ HashId(name);
    block.rounding.first = layout_.ToPlace(0);
    block.rounding.step = layout_.ToPlace(1) - layout_.ToPlace(0);
    if (hash_ != nullptr) block.rounding.keys = Place(plan_.Find(kIdPart));
  }
  if (hash_ != nullptr) block.counts = Place(plan_.Find(kCountPart));
  return block;
}

AveragedRows Shard::Averaged() const {
  return {Place(0), Place(averages_), layout_.dtype(), layout_.row_elements()};
}

// What is not by a gradient is in the averages at once. Of all rows of a table only those move that
// the update has changed.
void Shard::UpdateAverages(absl::Span<const Named> changed) {
  const AveragedRows at = Averaged();
  const double decay = optimizer_.ema_decay();
  const auto ids_of = [](const Named& named) {
    return absl::MakeConstSpan(named.ids.has_value() ? named.ids.data<int64_t>() : nullptr,
                               named.ids.has_value() ? named.ids.num_elements() : 0);
  };
  std::vector<absl::Span<const int64_t>> lists;
  bool all = false;
  for (const Named& named : changed) {
    const absl::Span<const int64_t> ids = ids_of(named);
    if (IsGradient(named.kind)) {
      all = all || !named.ids.has_value();
      lists.push_back(ids);
    } else if (named.ids.has_value()) {
      BeginAverages(at, ids.data(), 0, static_cast<int64_t>(ids.size()));
    } else {
      BeginAverages(at, nullptr, 0, rows());
    }
  }
  if (lists.empty()) return;
  if (!table()) return ps::MoveAverages(at, decay, nullptr, 0, rows());
  std::vector<int64_t> touched;
  if (all) {
    const PartPlace number = Place(touched_);
    for (int64_t row = 0; row < rows(); ++row) {
      int64_t last = 0;
      std::memcpy(&last, number.Row(row), sizeof(last));
      if (last == applied_ + 1) touched.push_back(row);
    }
    lists = {touched};
  }
  MoveAveragesOnce(at, decay, Place(touched_), applied_ + 1, lists);
}

template <typename T>
int64_t Shard::ApplyOne(const graph::Update& update, const Numbers& shared) {
  const T* values = update.values.data<T>();
  Numbers at = shared;
  at.rate = update.rate;
  switch (update.kind) {
    case graph::Update::Kind::kDense:
      if constexpr (std::is_floating_point_v<T>) ApplyDense(values, at);
      break;
    case graph::Update::Kind::kSparse:
      if constexpr (std::is_floating_point_v<T>) {
        return ApplySparse(update.ids.data<int64_t>(), update.ids.num_elements(), values, at);
      }
      break;
    case graph::Update::Kind::kAssign:
      Assign(values);
      break;
    case graph::Update::Kind::kAssignAdd:
      Add(nullptr, rows(), values);
      break;
    case graph::Update::Kind::kAssignMovingAverage:
      if constexpr (std::is_floating_point_v<T>) MoveTowards(values, static_cast<T>(update.rate));
      break;
    case graph::Update::Kind::kScatterAdd:
      Add(update.ids.data<int64_t>(), update.ids.num_elements(), values);
      break;
  }
  return 0;
}

template <typename T>
void Shard::Assign(const T* values) {
  const PartPlace to = Place(0);
  const int64_t width = layout_.row_elements();
  TouchRange(0, rows());
  if constexpr (std::is_same_v<T, float>) {
    if (layout_.dtype() == DType::kBF16) {
      return WriteBf16Rows(to.data, to.stride, width, rows(), values);
    }
  }
  for (int64_t r = 0; r < rows(); ++r) {
    std::copy_n(values + r * width, width, reinterpret_cast<T*>(to.Row(r)));
  }
}

// Between the two numbers, whatever other updates came before: so what has been positive stays so.
template <typename T>
void Shard::MoveTowards(const T* values, T share) {
  const PartPlace to = Place(0);
  TouchRange(0, rows());
  const int64_t width = layout_.row_elements();
  for (int64_t r = 0; r < rows(); ++r) {
    T* const row = reinterpret_cast<T*>(to.Row(r));
    const T* const towards = values + r * width;
    for (int64_t e = 0; e < width; ++e) row[e] += share * (towards[e] - row[e]);
  }
}

template <typename T>
void Shard::Add(const int64_t* ids, int64_t n, const T* values) {
  if constexpr (std::is_floating_point_v<T>) {
    Optimizer::Add(Block(), ids, n, values);
  } else {  // a dense variable
    AddRows(reinterpret_cast<T*>(Place(0).data), layout_.row_elements(), ids, n, values);
  }
}

template <typename T>
void Shard::ApplyDense(const T* gradient, const Numbers& at) {
  RowBlock block = Block();
  int64_t n = rows();
  if (!table() && !optimizer_.slots_per_row()) {  // contiguous: all of it is one long row
    block.width *= n;
    n = 1;
  }
  optimizer_.Apply(block, nullptr, n, gradient, at.t, at.staleness, at.rate);
}

template <typename T>
int64_t Shard::ApplySparse(const int64_t* ids, int64_t n, const T* gradient, const Numbers& at) {
  RowBlock block = Block();
  block.since = applied_ - at.staleness;
  if (!optimizer_.SparseMovesAllRows()) {
    return optimizer_.Apply(block, ids, n, gradient, at.t, at.staleness, at.rate);
  }
  const SummedRows<T> named(ids, n, gradient, layout_.row_elements());
  return optimizer_.ApplyToAll<T>(block, rows(), named.rows(), at.t, at.staleness, at.rate);
}

}  // namespace coxswain::ps
