// A table made, room for rows, and the ids of updates. Eviction and what is saved are in
// hash_eviction.cc and hash_state.cc.
#include "ps_server/hash_rows.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>

#include "absl/strings/str_cat.h"
#include "runtime/base/logging.h"
#include "runtime/base/stable_hash.h"
#include "runtime/base/status.h"

namespace coxswain::ps {
namespace {

constexpr int64_t kAhead = 12;            // places whose memory is asked for in advance
constexpr int64_t kCountedAtOnce = 1024;  // so that it takes no memory
constexpr int64_t kToldForgotten = WaitingIds::kMaxIds / 64;
constexpr size_t kMostAddresses = size_t{256} << 30;  // of a shard: 512 of them fit into 47 bits
constexpr size_t kFewestAddresses = size_t{1} << 30;

uint64_t Mixed(uint64_t a, uint64_t b) { return Mix64(Mix64(a) ^ b); }

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

HashRows::HashRows(const proto::ShardSpec& spec, const PartPlan& plan, RowsIn rows_in)
    : spec_(spec.variable().hash()),
      plan_(plan),
      row_stride_(rows_in == RowsIn::kGpu ? 0 : plan.row_stride),
      name_(spec.variable().name()),
      index_of_(spec.index()),
      count_of_(spec.count()),
      draw_base_(Mixed(spec.variable().initializer().seed(), Fnv1a(name_))),
      by_frequency_(spec_.evict() == "frequency") {
  if (spec_.max_rows() > 0) {
    max_rows_ = spec_.max_rows() / count_of_ + (index_of_ < spec_.max_rows() % count_of_ ? 1 : 0);
  }
}

absl::StatusOr<std::unique_ptr<HashRows>> HashRows::Create(const proto::ShardSpec& spec,
                                                           const PartPlan& plan, RowsIn rows_in,
                                                           const std::string& directory) {
  RETURN_IF_ERROR(CheckSpec(spec.variable().hash(), spec.count()));
  std::unique_ptr<HashRows> rows(new HashRows(spec, plan, rows_in));
  TableFile file;
  if (rows_in == RowsIn::kFile) {
    ASSIGN_OR_RETURN(file, TableFile::Create(directory));
  }
  RETURN_IF_ERROR(rows->ReserveAddresses(file));
  rows->memory_ = {rows->row_storage_.range(), rows->side_storage_.range(), file.valid()};
  const auto place = [&](const char* part) {
    return PlaceOf(plan, rows->memory_, static_cast<size_t>(plan.Find(part)));
  };
  rows->ids_ = place(kIdPart);
  rows->counts_ = place(kCountPart);
  rows->touched_ = place(kTouchedPart);
  rows->used_ = plan.Find(kUsedPart) < 0 ? rows->touched_ : place(kUsedPart);
  return rows;
}

// For as many rows as the machine can hold; in a file more. Where many shards share a process's
// addresses, each of the last ones may have a small part of what is left.
absl::Status HashRows::ReserveAddresses(const TableFile& file) {
  const size_t per_row = row_stride_ + plan_.side_stride;
  constexpr size_t kPartOfLeft = 64;
  size_t bytes = file.valid() ? kMostAddresses : std::min(PhysicalMemoryBytes(), kMostAddresses);
  bytes = std::min(bytes, std::max(AddressesLeft() / kPartOfLeft, kFewestAddresses));
  while (true) {
    const size_t rows = std::min(static_cast<size_t>(HashIndex::kMaxRows), bytes / per_row);
    auto row_storage = GrowingStorage::CreateInFile(rows * row_stride_, file);
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

absl::Status HashRows::Reserve(int64_t n) {
  RETURN_IF_ERROR(ReserveRows(n));
  return ids_wait() ? Named(waiting_.Reserve(n), n) : absl::OkStatus();
}

absl::Status HashRows::ReserveRows(int64_t n) {
  const auto wanted = static_cast<size_t>(places_ + n);
  absl::Status status = row_storage_.Grow(wanted * row_stride_);
  if (status.ok()) status = side_storage_.Grow(wanted * plan_.side_stride);
  if (status.ok()) status = index_.Reserve(n);
  return Named(status, n);
}

absl::Status HashRows::Named(const absl::Status& status, int64_t n) const {
  if (status.ok()) return status;
  return Annotate(status, absl::StrCat("table '", name_, "', shard ", index_of_, " of ", count_of_,
                                       ", ", rows(), " rows and ", n, " more"));
}

int64_t HashRows::CountWithoutRow(const int64_t* ids, int64_t n) const {
  std::array<int64_t, kCountedAtOnce> places;
  int64_t without = 0;
  for (int64_t begin = 0; begin < n; begin += kCountedAtOnce) {
    const int64_t some = std::min(kCountedAtOnce, n - begin);
    Find(ids + begin, some, places.data());
    without += std::count(places.begin(), places.begin() + some, -1);
  }
  return without;
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
    hash = Mixed(Mixed(hash, time.seed), time.step);
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
  const int64_t forgotten = waiting_.forgotten();
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
  TellOfForgotten(forgotten);
}

void HashRows::TellOfForgotten(int64_t forgotten_before) const {
  if (forgotten_before >= kToldForgotten || waiting_.forgotten() < kToldForgotten) return;
  LogWarning("table '", name_, "', shard ", index_of_, " of ", count_of_, ": of the ids that wait ",
             "for their update number ", spec_.min_count(), " (min_count), ", waiting_.forgotten(),
             " were forgotten and count from zero, because a shard remembers at most ",
             WaitingIds::kMaxIds,
             ": a smaller min_count, or more shards, would give more ids rows");
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
  // What a place is freed by has not changed the row that is made there later.
  Store<int64_t>(touched_, row.place, 0);
}

void HashRows::Use(const int64_t* places, int64_t n, int64_t number) {
  if (used_.data == touched_.data) return;  // whoever changes a row touches it
  for (int64_t i = 0; i < n; ++i) Store(used_, places[i], number);
}

void HashRows::Count(const int64_t* places, int64_t n, int64_t number) {
  Use(places, n, number);
  for (int64_t i = 0; i < n; ++i) {
    if (i + kAhead < n) __builtin_prefetch(counts_.Row(places[i + kAhead]), 1);
    const uint32_t now = count(places[i]);
    if (now < std::numeric_limits<int32_t>::max()) set_count(places[i], now + 1);
  }
}

}  // namespace coxswain::ps
