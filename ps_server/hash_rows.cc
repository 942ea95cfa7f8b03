#include "ps_server/hash_rows.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "runtime/base/id_hash.h"
#include "runtime/base/logging.h"
#include "runtime/base/status.h"

namespace coxswain {
namespace {

constexpr int64_t kAhead = 12;     // places whose memory is asked for in advance
constexpr int64_t kSample = 16;    // rows of which the one goes that is least worth keeping
constexpr int64_t kMinSweep = 64;  // places looked at for expired rows with each update ...
constexpr int64_t kMaxSweep = 1 << 14;
constexpr size_t kMostAddresses = size_t{256} << 30;  // of a shard: 512 of them fit into 47 bits
constexpr size_t kFewestAddresses = size_t{1} << 30;
constexpr double kMarksPerLife = 64;  // how exactly ttl_seconds is kept

uint64_t HashText(absl::string_view text) {  // FNV-1a: the same in every build
  uint64_t hash = 0xcbf29ce484222325u;
  for (char c : text) hash = (hash ^ static_cast<uint8_t>(c)) * 0x100000001b3u;
  return hash;
}

uint64_t Mixed(uint64_t a, uint64_t b) {
  return HashId(static_cast<int64_t>(HashId(static_cast<int64_t>(a)) ^ b));
}

template <typename T>
T Load(const char* from) {
  T value;
  std::memcpy(&value, from, sizeof(value));
  return value;
}

absl::Status CheckSpec(const proto::HashTableSpec& spec, int64_t shards) {
  const auto bad = [](absl::string_view key, absl::string_view wanted, auto found) {
    return absl::InvalidArgumentError(
        absl::StrCat("hash table: ", key, ": wanted ", wanted, ", found ", found));
  };
  if (spec.min_count() < 0 || spec.min_count() > std::numeric_limits<int32_t>::max()) {
    return bad("min_count", "0 .. 2^31 - 1", spec.min_count());
  }
  if (!(spec.admission_probability() >= 0 && spec.admission_probability() <= 1)) {
    return bad("admission_probability", "0 .. 1", spec.admission_probability());
  }
  if (spec.min_count() > 1 && spec.admission_probability() > 0) {
    return bad("min_count", "it or admission_probability", "both");
  }
  if (spec.ttl_steps() < 0) return bad("ttl_steps", "0 or more", spec.ttl_steps());
  if (!(spec.ttl_seconds() >= 0) || std::isinf(spec.ttl_seconds())) {
    return bad("ttl_seconds", "0 or more", spec.ttl_seconds());
  }
  if (spec.max_rows() != 0 && spec.max_rows() < shards) {
    return bad("max_rows", absl::StrCat("0 or at least one a shard, ", shards), spec.max_rows());
  }
  if (!spec.evict().empty() && spec.evict() != "recency" && spec.evict() != "frequency") {
    return bad("evict", "'recency' or 'frequency'", spec.evict());
  }
  return absl::OkStatus();
}

}  // namespace

HashRows::HashRows(const proto::ShardSpec& spec, const PartPlan& plan)
    : spec_(spec.variable().hash()),
      plan_(plan),
      name_(spec.variable().name()),
      index_of_(spec.index()),
      count_of_(spec.count()),
      draw_base_(Mixed(spec.variable().initializer().seed(), HashText(name_))),
      by_frequency_(spec_.evict() == "frequency") {
  if (spec_.max_rows() > 0) {
    max_rows_ = spec_.max_rows() / count_of_ + (index_of_ < spec_.max_rows() % count_of_ ? 1 : 0);
  }
}

absl::StatusOr<std::unique_ptr<HashRows>> HashRows::Create(const proto::ShardSpec& spec,
                                                           const PartPlan& plan) {
  RETURN_IF_ERROR(CheckSpec(spec.variable().hash(), spec.count()));
  std::unique_ptr<HashRows> rows(new HashRows(spec, plan));
  RETURN_IF_ERROR(rows->ReserveAddresses());
  rows->memory_ = {rows->row_storage_.range(), rows->side_storage_.range()};
  const auto place = [&](const char* part) {
    return PlaceOf(plan, rows->memory_, static_cast<size_t>(plan.Find(part)));
  };
  rows->ids_ = place(kIdPart);
  rows->counts_ = place(kCountPart);
  rows->touched_ = place(kTouchedPart);
  return rows;
}

// For as many rows as the machine can hold. Less where many shards share a process's addresses.
absl::Status HashRows::ReserveAddresses() {
  const size_t per_row = plan_.row_stride + plan_.side_stride;
  size_t bytes = std::min(PhysicalMemoryBytes(), kMostAddresses);
  while (true) {
    const size_t rows = std::min(static_cast<size_t>(HashIndex::kMaxRows), bytes / per_row);
    auto row_storage = GrowingStorage::Create(rows * plan_.row_stride);
    auto side_storage = GrowingStorage::Create(rows * plan_.side_stride);
    if (row_storage.ok() && side_storage.ok()) {
      row_storage_ = *std::move(row_storage);
      side_storage_ = *std::move(side_storage);
      return absl::OkStatus();
    }
    if (bytes < kFewestAddresses) {
      return row_storage.ok() ? side_storage.status() : row_storage.status();
    }
    bytes /= 4;
  }
}

int64_t HashRows::memory_bytes() const {
  return static_cast<int64_t>(row_storage_.bytes() + side_storage_.bytes()) +
         index_.memory_bytes() + waiting_.memory_bytes();
}

int64_t HashRows::id(int64_t place) const { return Load<int64_t>(ids_.Row(place)); }
int64_t HashRows::touched(int64_t place) const { return Load<int64_t>(touched_.Row(place)); }
uint32_t HashRows::count(int64_t place) const { return Load<uint32_t>(counts_.Row(place)); }
void HashRows::set_id(int64_t place, int64_t id) { std::memcpy(ids_.Row(place), &id, sizeof(id)); }
void HashRows::set_count(int64_t place, uint32_t count) {
  std::memcpy(counts_.Row(place), &count, sizeof(count));
}

absl::Status HashRows::Reserve(int64_t n) {
  const auto wanted = static_cast<size_t>(places_ + n);
  absl::Status status = row_storage_.Grow(wanted * plan_.row_stride);
  if (status.ok()) status = side_storage_.Grow(wanted * plan_.side_stride);
  if (status.ok()) status = index_.Reserve(n);
  if (status.ok()) return status;
  return Annotate(status, absl::StrCat("table '", name_, "', shard ", index_of_, " of ", count_of_,
                                       ", ", rows(), " rows and ", n, " more"));
}

int64_t HashRows::TakePlace() {
  if (first_free_ < 0) return places_++;
  const int64_t place = first_free_;
  first_free_ = id(place);
  return place;
}

bool HashRows::Admit(int64_t id, int64_t number, const UpdateTime& time) {
  if (spec_.admission_probability() > 0) {
    uint64_t hash = Mixed(draw_base_, static_cast<uint64_t>(id));
    hash = Mixed(Mixed(hash, time.closure), time.step);
    return static_cast<double>(hash >> 11) * 0x1p-53 < spec_.admission_probability();
  }
  return waiting_.Count(id, number, spec_.min_count(), spec_.ttl_steps());
}

void HashRows::FindOrAdmit(const int64_t* ids, int64_t n, int64_t number, const UpdateTime& time,
                           int64_t* places, std::vector<NewRow>* made) {
  // It was reserved when the update was staged: this is for a second segment that was staged since.
  const absl::Status reserved = Reserve(n);
  COX_CHECK(reserved.ok(), reserved.ToString());
  index_.Advance(n);  // also when no id is new
  index_.FindAll(ids, n, places);
  for (int64_t i = 0; i < n; ++i) {
    if (places[i] >= 0) continue;
    places[i] = index_.Find(ids[i]);  // it may have come before in this update
    if (places[i] >= 0) continue;
    if (!Admit(ids[i], number, time)) {
      ++dropped_;
      continue;
    }
    places[i] = TakePlace();
    index_.Insert(ids[i], places[i]);
    made->push_back({ids[i], places[i]});
  }
}

void HashRows::FindOrMake(const int64_t* ids, int64_t n, int64_t* places,
                          std::vector<NewRow>* made) {
  for (int64_t i = 0; i < n; ++i) {
    places[i] = index_.Find(ids[i]);
    if (places[i] >= 0) continue;
    places[i] = TakePlace();
    index_.Insert(ids[i], places[i]);
    made->push_back({ids[i], places[i]});
  }
}

void HashRows::Begin(const NewRow& row) {
  set_id(row.place, row.id);
  set_count(row.place, 0);
}

void HashRows::Count(const int64_t* places, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    if (i + kAhead < n) __builtin_prefetch(counts_.Row(places[i + kAhead]), 1);
    const uint32_t now = count(places[i]);
    if (now < std::numeric_limits<int32_t>::max()) set_count(places[i], now + 1);
  }
}

void HashRows::Release(int64_t place, int64_t number) {
  const int64_t row = index_.Erase(id(place));
  COX_CHECK(row == place, "id ", id(place), " at ", place, " is indexed at ", row);
  set_count(place, 0);
  set_id(place, first_free_);
  // So that who copies what has changed since some update finds it.
  std::memcpy(touched_.Row(place), &number, sizeof(number));
  first_free_ = place;
}

// What was touched up to a mark's update was touched at its time at the latest.
void HashRows::NoteTime(int64_t number, double seconds) {
  const double life = spec_.ttl_seconds();
  if (life <= 0) return;
  if (!marks_.empty() && seconds < marks_.back().seconds + life / kMarksPerLife) return;
  marks_.push_back({seconds, number});
  // Of those that are too old the last is enough.
  const auto young = std::find_if(marks_.begin(), marks_.end(),
                                  [&](const Mark& m) { return m.seconds > seconds - life; });
  if (young - marks_.begin() > 1) marks_.erase(marks_.begin(), young - 1);
}

int64_t HashRows::ExpiredUpTo(int64_t number, const UpdateTime& time) {
  int64_t expired = 0;
  if (spec_.ttl_steps() > 0) expired = std::max<int64_t>(0, number - spec_.ttl_steps());
  if (spec_.ttl_seconds() > 0) {
    for (const Mark& mark : marks_) {
      if (mark.seconds <= time.seconds - spec_.ttl_seconds()) {
        expired = std::max(expired, mark.number);
      }
    }
  }
  return expired;
}

int64_t HashRows::PickVictim() {
  const auto worth = [this](int64_t place) {
    return std::tuple(by_frequency_ ? count(place) : 0, touched(place), place);
  };
  int64_t victim = -1;
  for (int64_t looked = 0, sampled = 0; looked < places_ && sampled < kSample; ++looked) {
    if (hand_ >= places_) hand_ = 0;
    const int64_t place = hand_++;
    if (IsFree(place)) continue;
    ++sampled;
    if (victim < 0 || worth(place) < worth(victim)) victim = place;
  }
  return victim;
}

void HashRows::Evict(int64_t number, const UpdateTime& time, int64_t n,
                     absl::FunctionRef<void(int64_t)> before_change) {
  NoteTime(number, time.seconds);
  const int64_t expired = ExpiredUpTo(number, time);
  if (expired > 0) {
    // All places within an eighth of a life, if that is not too many at once.
    const int64_t even = spec_.ttl_steps() > 0 ? 8 * places_ / spec_.ttl_steps() : 0;
    int64_t left = std::min(places_, std::clamp(std::max(even, 2 * n), kMinSweep, kMaxSweep));
    for (; left > 0; --left) {
      if (hand_ >= places_) hand_ = 0;
      const int64_t place = hand_++;
      if (IsFree(place) || touched(place) > expired) continue;
      before_change(place);
      Release(place, number);
      ++evicted_;
    }
  }
  while (max_rows_ > 0 && rows() > max_rows_) {
    const int64_t victim = PickVictim();
    before_change(victim);
    Release(victim, number);
    ++evicted_;
  }
}

void HashRows::RemoveAll(int64_t number, absl::FunctionRef<void(int64_t)> before_change) {
  for (int64_t place = 0; place < places_; ++place) {
    if (IsFree(place)) continue;
    before_change(place);
    Release(place, number);
  }
}

proto::HashTableState HashRows::State() const {
  proto::HashTableState state;
  state.set_places(places_);
  state.set_first_free(first_free_);
  state.set_hand(hand_);
  state.set_evicted(evicted_);
  state.set_dropped(dropped_);
  state.set_waiting(waiting());
  for (const Mark& mark : marks_) {
    state.add_mark_applied(mark.number);
    state.add_mark_seconds(mark.seconds);
  }
  return state;
}

std::vector<Tensor> HashRows::Waiting() const {
  const std::vector<WaitingIds::Entry> all = waiting_.All();
  const Shape shape{static_cast<int64_t>(all.size())};
  Tensor ids(DType::kI64, shape), counts(DType::kI32, shape), seen(DType::kI32, shape);
  for (size_t i = 0; i < all.size(); ++i) {
    ids.mutable_data<int64_t>()[i] = all[i].id;
    counts.mutable_data<int32_t>()[i] = static_cast<int32_t>(all[i].count);
    seen.mutable_data<int32_t>()[i] = static_cast<int32_t>(all[i].seen);
  }
  return {std::move(ids), std::move(counts), std::move(seen)};
}

absl::Status HashRows::Resize(const proto::HashTableState& state) {
  if (state.places() < 0 || state.places() > HashIndex::kMaxRows) {
    return absl::InvalidArgumentError(
        absl::StrCat("wanted 0 .. ", HashIndex::kMaxRows, " places, found ", state.places()));
  }
  RETURN_IF_ERROR(Reserve(state.places()));
  places_ = state.places();
  return absl::OkStatus();
}

absl::Status HashRows::RestoreFreeList(const proto::HashTableState& state) {
  const int64_t free = places_ - rows();
  int64_t place = state.first_free();
  for (int64_t i = 0; i < free; ++i) {
    if (place < 0 || place >= places_ || !IsFree(place)) {
      return absl::InvalidArgumentError(
          absl::StrCat("wanted ", free, " free places, the list ends after ", i, " at ", place));
    }
    place = id(place);
  }
  if (place != -1) {
    return absl::InvalidArgumentError(
        absl::StrCat("wanted ", free, " free places, the list goes on to ", place));
  }
  first_free_ = state.first_free();
  return absl::OkStatus();
}

absl::Status HashRows::Restore(const proto::HashTableState& state,
                               const std::vector<Tensor>& waiting) {
  for (int64_t place = 0; place < places_; ++place) {
    if (IsFree(place)) continue;
    if (HashShard(id(place), count_of_) != index_of_) {
      return absl::InvalidArgumentError(absl::StrCat("id ", id(place), " belongs to shard ",
                                                     HashShard(id(place), count_of_), ", not ",
                                                     index_of_, " of ", count_of_));
    }
    if (index_.Find(id(place)) >= 0) {
      return absl::InvalidArgumentError(absl::StrCat("id ", id(place), " is there twice"));
    }
    index_.Insert(id(place), place);
  }
  RETURN_IF_ERROR(RestoreFreeList(state));
  if (state.mark_applied_size() != state.mark_seconds_size() || state.hand() < 0 ||
      state.hand() > places_) {
    return absl::InvalidArgumentError(absl::StrCat("impossible state ", state.ShortDebugString()));
  }
  hand_ = state.hand();
  evicted_ = state.evicted();
  dropped_ = state.dropped();
  marks_.clear();
  for (int i = 0; i < state.mark_applied_size(); ++i) {
    marks_.push_back({state.mark_seconds(i), state.mark_applied(i)});
  }
  // Of a file, where tensors may begin at any byte.
  const auto at = [&](size_t tensor, int64_t i, size_t bytes) {
    return static_cast<const char*>(waiting[tensor].raw()) + static_cast<size_t>(i) * bytes;
  };
  for (int64_t i = 0; i < state.waiting(); ++i) {
    waiting_.Restore(
        {Load<int64_t>(at(0, i, 8)), Load<uint32_t>(at(1, i, 4)), Load<uint32_t>(at(2, i, 4))});
  }
  return absl::OkStatus();
}

}  // namespace coxswain
