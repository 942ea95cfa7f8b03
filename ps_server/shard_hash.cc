// What a shard of a hash table does differently: ids become places, and rows come and go.
#include <algorithm>
#include <cstring>
#include <limits>
#include <vector>

#include "absl/strings/str_cat.h"
#include "ps_server/row_copy.h"
#include "ps_server/shard.h"
#include "ps_server/table_file.h"
#include "runtime/base/logging.h"
#include "runtime/base/status.h"
#include "runtime/cluster/control.h"
#include "runtime/tensor/within_memory.h"

namespace coxswain::ps {

Shard::Room Shard::RoomFor(const graph::Update& update) const {
  if (hash_ == nullptr) return {};
  const int64_t n = update.ids.num_elements();
  return {n, gpu_ == nullptr ? n : hash_->CountWithoutRow(update.ids.data<int64_t>(), n)};
}

// A block in the memory of a GPU is not to be doubled for rows that are there already: there is
// little of that memory.
absl::Status Shard::Reserve(const Room& room) {
  if (hash_ == nullptr) return absl::OkStatus();
  absl::Status status = hash_->Reserve(room.ids);
  if (status.ok() && gpu_ != nullptr) {
    const int64_t more = std::max<int64_t>(0, room.new_rows - hash_->free_places());
    status = gpu_->Reserve(hash_->places() + more);
  }
  return status.ok() ? status : Annotate(status, Invalid("").message());
}

void Shard::ReserveMade(int64_t n) {
  const auto rows = static_cast<size_t>(n);
  made_.reserve(rows);
  made_places_.reserve(rows);
  if (gpu_ != nullptr) {
    const size_t at_once = std::min(rows, RowsFilledAtOnce());
    filled_.resize(std::max(filled_.size(), at_once * plan_.row_stride / sizeof(float)));
  } else if (layout_.dtype() == DType::kBF16) {
    filled_.resize(static_cast<size_t>(layout_.row_elements()));
  }
}

Shard::ForPlaces Shard::AllocateFor(const graph::Update& update) const {
  const int64_t n = update.ids.num_elements();
  ForPlaces memory;
  memory.places = Tensor(DType::kI64, Shape{n});
  if (hash_->admits_all()) return memory;
  memory.kept.reserve(static_cast<size_t>(n));
  if (update.values.device() == Device{}) {
    memory.values = Tensor(update.values.dtype(), layout_.RowsShape(n));
  }
  return memory;
}

absl::StatusOr<Shard::Memory> Shard::Prepare(absl::Span<const graph::Update* const> updates) {
  return WithinMemory([&]() -> absl::StatusOr<Memory> {
    CopyShared();
    Memory memory;
    if (hash_ == nullptr) return memory;
    Room room;
    for (const graph::Update* update : updates) room += RoomFor(*update);
    RETURN_IF_ERROR(Reserve(room));
    ReserveMade(room.new_rows);
    for (const graph::Update* update : updates) memory.push_back(AllocateFor(*update));
    return memory;
  });
}

absl::Status Shard::AllocateHash(RowsIn rows_in, const std::string& directory) {
  absl::StatusOr<std::unique_ptr<HashRows>> hash =
      HashRows::Create(spec_, plan_, rows_in, directory);
  if (!hash.ok()) return Annotate(hash.status(), Invalid("").message());
  hash_ = *std::move(hash);
  memory_ = hash_->memory();
  return absl::OkStatus();
}

// As a row that was made would be read: rounded as it would be stored.
void Shard::FillInitial(int64_t id, absl::Span<float> weights) const {
  initializer_->FillRow(id, weights);
  if (layout_.dtype() != DType::kBF16) return;
  for (float& w : weights) w = BFloat16::FromFloat(w).ToFloat();
}

Shard::FoundPlaces Shard::FindPlaces(absl::Span<const int64_t> ids) const {
  const auto n = static_cast<int64_t>(ids.size());
  FoundPlaces found{Tensor(DType::kI64, Shape{n}), {}};
  int64_t* const places = found.places.mutable_data<int64_t>();
  hash_->Find(ids.data(), n, places);
  for (int64_t i = 0; i < n; ++i) {
    if (places[i] >= 0) continue;
    found.missing.push_back(i);
    places[i] = 0;
  }
  return found;
}

void Shard::GatherIds(absl::Span<const int64_t> ids, int part_index, float* to) const {
  const auto n = static_cast<int64_t>(ids.size());
  const int64_t width = layout_.row_elements();
  const FoundPlaces found = FindPlaces(ids);
  const int64_t* const place = found.places.data<int64_t>();
  const PartPlace from = Place(part_index);
  if (rows() > 0) ReadAhead(memory_, plan_.row_stride, place, n);
  if (rows() > 0 && part(part_index).dtype == DType::kBF16) {
    GatherBf16Rows(from.data, from.stride, width, place, n, to);
  } else if (rows() > 0) {
    GatherRows(from.data, from.stride, part(part_index).row_bytes(), place, n,
               reinterpret_cast<char*>(to));
  }
  for (const int64_t i : found.missing) {
    FillInitial(ids[static_cast<size_t>(i)],
                absl::MakeSpan(to + i * width, static_cast<size_t>(width)));
  }
}

void Shard::BeginRows(const std::vector<HashRows::NewRow>& made) {
  layout_.SetRows(hash_->places());
  ReserveMade(static_cast<int64_t>(made.size()));
  // A place that was free may be one of a snapshot.
  made_places_.clear();
  for (const HashRows::NewRow& row : made) made_places_.push_back(row.place);
  PrepareChange(made_places_.data(), static_cast<int64_t>(made_places_.size()));
  if (gpu_ != nullptr) return BeginRowsOnGpu(made);
  const int64_t width = layout_.row_elements();
  for (const HashRows::NewRow& row : made) {
    hash_->Begin(row);
    char* const weights = Place(0).Row(row.place);
    if (layout_.dtype() == DType::kBF16) {
      FillInitial(row.id, absl::MakeSpan(filled_.data(), static_cast<size_t>(width)));
      WriteBf16Rows(weights, 0, width, 1, filled_.data());
    } else {
      FillInitial(row.id,
                  absl::MakeSpan(reinterpret_cast<float*>(weights), static_cast<size_t>(width)));
    }
    for (int slot = 1; slot <= optimizer_.slots(); ++slot) {
      const ShardPart& filled = part(slot);
      COX_CHECK(filled.dtype == DType::kF32, "slot ", filled.name, " of ", DTypeName(filled.dtype));
      std::fill_n(reinterpret_cast<float*>(Place(slot).Row(row.place)), filled.width,
                  static_cast<float>(filled.initial));
    }
    if (averages_ > 0) BeginAverages(Averaged(), &row.place, 0, 1);
  }
}

graph::Update Shard::ByPlaces(const graph::Update& update, const UpdateTime& time,
                              ForPlaces* memory) {
  const int64_t n = update.ids.num_elements();
  graph::Update by_places = update;
  Tensor all = std::move(memory->places);
  int64_t* const places = all.mutable_data<int64_t>();
  made_.clear();
  hash_->FindOrAdmit(update.ids.data<int64_t>(), n, applied_ + 1, time, places, &made_);
  BeginRows(made_);
  const int64_t admitted = n - std::count(places, places + n, -1);
  if (admitted == n) {
    by_places.ids = std::move(all);
    return by_places;
  }
  // The others' gradients are dropped.
  int64_t* place = places;
  memory->kept.clear();
  for (int64_t i = 0; i < n; ++i) {
    if (places[i] < 0) continue;
    *place++ = places[i];
    memory->kept.push_back(i);
  }
  by_places.ids = Tensor(DType::kI64, Shape{admitted},
                         all.buffer().Slice(0, static_cast<size_t>(admitted) * sizeof(int64_t)));
  by_places.values = SelectGradient(update.values, memory->kept, std::move(memory->values));
  return by_places;
}

Tensor Shard::SelectGradient(const Tensor& values, absl::Span<const int64_t> kept,
                             Tensor memory) const {
  const Shape shape = layout_.RowsShape(static_cast<int64_t>(kept.size()));
  if (values.device() != Device{}) {
    const absl::StatusOr<Tensor> selected = gpu_->Select(values, kept);
    if (selected.ok()) return selected->Reshaped(shape);
    // The GPU is lost, and whatever is applied to it changes nothing.
  }
  if (values.device() != Device{}) return Tensor(values.dtype(), shape);
  const size_t row_bytes = static_cast<size_t>(layout_.row_elements()) * SizeOf(values.dtype());
  const char* const from = static_cast<const char*>(values.raw());
  char* to = static_cast<char*>(memory.mutable_raw());
  for (const int64_t i : kept) {
    std::memcpy(to, from + static_cast<size_t>(i) * row_bytes, row_bytes);
    to += row_bytes;
  }
  return Tensor(values.dtype(), shape, memory.buffer().Slice(0, kept.size() * row_bytes));
}

void Shard::Evict(absl::Span<const graph::Update* const> updates, const UpdateTime& time) {
  int64_t named = 0;
  for (const graph::Update* update : updates) named += update->ids.num_elements();
  hash_->Evict(applied_, time, named, [this](int64_t place) { PrepareRelease(place); });
  FinishPrepare();
}

namespace {

// Of the places [begin, begin + n) that have rows, after the `number`-th update.
Shard::IdsAndRows ReadUses(const HashRows& hash, int64_t begin, int64_t n, int64_t number) {
  constexpr int64_t kMost = kMostIdsBytes / sizeof(cluster::RowUse);
  std::vector<int64_t> ids;
  std::vector<cluster::RowUse> uses;
  int64_t end = begin;
  for (; end < begin + n && std::ssize(ids) < kMost; ++end) {
    if (hash.IsFree(end)) continue;
    ids.push_back(hash.id(end));
    uses.push_back(hash.UseOf(end, number));
  }
  const auto found = static_cast<int64_t>(ids.size());
  Shard::IdsAndRows result{Tensor::FromVector(ids),
                           Tensor(DType::kI64, Shape{found, cluster::kUseNumbers}), end};
  if (found > 0) std::memcpy(result.rows.mutable_raw(), uses.data(), result.rows.bytes());
  return result;
}

bool AreUses(const Tensor& rows) {
  const auto* const uses = static_cast<const cluster::RowUse*>(rows.raw());
  return std::all_of(uses, uses + rows.dim(0), [](const cluster::RowUse& use) {
    constexpr int64_t kMostAge = int64_t{1} << 62;
    return use.updates >= 1 && use.updates <= std::numeric_limits<int32_t>::max() && use.age >= 0 &&
           use.age <= kMostAge && use.idle_us >= 0;
  });
}

}  // namespace

absl::StatusOr<Shard::IdsAndRows> Shard::ReadIds(int64_t begin, int64_t n, int part_index) const {
  if (hash_ == nullptr) return Invalid("its rows are no ids");
  const bool uses = part_index == cluster::kUses;
  RETURN_IF_ERROR(CheckRange(begin, n, uses ? 0 : part_index));
  if (uses) return ReadUses(*hash_, begin, n, applied_);
  const ShardPart& read = part(part_index);
  const size_t most = std::max<size_t>(1, kMostIdsBytes / (sizeof(int64_t) + read.row_bytes()));
  std::vector<int64_t> places;
  int64_t end = begin;
  for (; end < begin + n && places.size() < most; ++end) {
    if (!hash_->IsFree(end)) places.push_back(end);
  }
  const auto found = static_cast<int64_t>(places.size());
  IdsAndRows result{Tensor(DType::kI64, Shape{found}),
                    Tensor(read.dtype, read.RowsShape(layout_, found)), end};
  char* const to = static_cast<char*>(result.rows.mutable_raw());
  if (OnGpu(part_index)) {
    RETURN_IF_ERROR(gpu_->Read(places, read.offset, read.row_bytes(), to));
  } else {
    const PartPlace from = Place(part_index);
    if (!read.side) ReadAhead(memory_, plan_.row_stride, places.data(), found);
    GatherRows(from.data, from.stride, read.row_bytes(), places.data(), found, to);
  }
  for (int64_t i = 0; i < found; ++i) {
    result.ids.mutable_data<int64_t>()[i] = hash_->id(places[static_cast<size_t>(i)]);
  }
  return result;
}

absl::Status Shard::WriteIds(const Tensor& ids, const Tensor& rows, bool replace) {
  if (hash_ == nullptr) return Invalid("its rows are no ids");
  RETURN_IF_ERROR(CheckIdTensor(ids));
  const int64_t n = ids.num_elements();
  const bool widened = rows.dtype() == layout_.value_dtype();
  RETURN_IF_ERROR(
      CheckValues(rows, widened ? layout_.value_dtype() : layout_.dtype(), layout_.RowsShape(n)));
  // All memory first: without it nothing changes.
  std::vector<int64_t> places;
  Tensor stored;
  // Those that go first leave their places.
  const int64_t made = replace ? std::max<int64_t>(0, n - hash_->rows())
                               : hash_->CountWithoutRow(ids.data<int64_t>(), n);
  RETURN_IF_ERROR(CatchAllocationErrors([&] {
    ReserveMade(n);
    places.resize(static_cast<size_t>(n));
    stored = Stored(rows, layout_.dtype());
    return Reserve({n, made});
  }));
  if (replace) {
    hash_->RemoveAll(applied_ + 1, [this](int64_t place) { PrepareRelease(place); });
    FinishPrepare();
  }
  made_.clear();
  hash_->FindOrMake(ids.data<int64_t>(), n, places.data(), &made_);
  PrepareChange(places.data(), n);
  BeginRows(made_);
  hash_->Count(made_places_.data(), static_cast<int64_t>(made_places_.size()), applied_ + 1);
  RETURN_IF_ERROR(WritePlaces(places, 0, static_cast<const char*>(stored.raw())));
  if (averages_ > 0) BeginAverages(Averaged(), places.data(), 0, n);
  Touch(places.data(), n);
  hash_->Use(places.data(), n, applied_ + 1);
  return absl::OkStatus();
}

absl::Status Shard::WritePartOfIds(const Tensor& ids, const Tensor& rows, int part_index) {
  if (hash_ == nullptr) return Invalid("its rows are no ids");
  RETURN_IF_ERROR(CheckIdTensor(ids));
  const int64_t n = ids.num_elements();
  const bool uses = part_index == cluster::kUses;
  if (uses) {
    RETURN_IF_ERROR(CheckValues(rows, DType::kI64, Shape{n, cluster::kUseNumbers}));
    if (applied_ > 0) return Invalid("rows that were updated are not as they were elsewhere");
    if (!AreUses(rows)) return Invalid("wanted updates from 1 on, and ages from 0 on");
  } else {
    RETURN_IF_ERROR(CheckRange(0, 0, part_index));
    const ShardPart& written = part(part_index);
    RETURN_IF_ERROR(CheckValues(rows, written.dtype, written.RowsShape(layout_, n)));
  }
  std::vector<int64_t> places(static_cast<size_t>(n));
  hash_->Find(ids.data<int64_t>(), n, places.data());
  const auto missing = std::find(places.begin(), places.end(), -1);
  if (missing != places.end()) {
    return Invalid(absl::StrCat("id ", ids.data<int64_t>()[missing - places.begin()],
                                " has no row, of which ", uses ? "uses" : part(part_index).name,
                                " could be written"));
  }
  if (uses) {
    hash_->SetUses(places.data(), n, static_cast<const cluster::RowUse*>(rows.raw()));
    return absl::OkStatus();
  }
  PrepareChange(places.data(), n);
  RETURN_IF_ERROR(WritePlaces(places, part_index, static_cast<const char*>(rows.raw())));
  Touch(places.data(), n);
  return absl::OkStatus();
}

absl::Status Shard::PrepareRestore(const proto::HashTableState& state) {
  if (hash_ == nullptr) return Invalid("its rows are no ids");
  RETURN_IF_ERROR(hash_->Resize(state));
  layout_.SetRows(hash_->places());
  return gpu_ == nullptr ? absl::OkStatus() : gpu_->Reserve(hash_->places());
}

absl::Status Shard::FinishRestore(const proto::HashTableState& state,
                                  const std::vector<Tensor>& waiting) {
  const absl::Status restored = hash_->Restore(state, waiting);
  return restored.ok() ? restored : Annotate(restored, Invalid("").message());
}

}  // namespace coxswain::ps
