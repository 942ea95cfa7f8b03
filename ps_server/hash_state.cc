// What a checkpoint has of a hash table beside its rows, and making it again from both.
#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "ps_server/hash_rows.h"
#include "runtime/base/id_hash.h"
#include "runtime/base/status.h"

namespace coxswain::ps {

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
    state.add_mark_seconds(mark.age);
  }
  state.set_age_seconds(age_);
  state.set_oldest_use(1 - first_use_);
  return state;
}

std::vector<Tensor> HashRows::Waiting() const {
  const Shape shape{waiting()};
  Tensor ids(DType::kI64, shape), counts(DType::kI32, shape), seen(DType::kI32, shape);
  auto* id = ids.mutable_data<int64_t>();
  auto* count = counts.mutable_data<int32_t>();
  auto* last = seen.mutable_data<int32_t>();
  waiting_.ForEach([&](const WaitingIds::Entry& entry) {
    *id++ = entry.id;
    *count++ = static_cast<int32_t>(entry.count);
    *last++ = static_cast<int32_t>(entry.seen);
  });
  return {std::move(ids), std::move(counts), std::move(seen)};
}

absl::Status HashRows::Resize(const proto::HashTableState& state) {
  if (state.places() < 0 || state.places() > HashIndex::kMaxRows) {
    return absl::InvalidArgumentError(
        absl::StrCat("wanted 0 .. ", HashIndex::kMaxRows, " places, found ", state.places()));
  }
  RETURN_IF_ERROR(ReserveRows(state.places()));
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
      state.hand() > places_ || state.oldest_use() < 0) {
    return absl::InvalidArgumentError(absl::StrCat("impossible state ", state.ShortDebugString()));
  }
  hand_ = state.hand();
  evicted_ = state.evicted();
  dropped_ = state.dropped();
  marks_.clear();
  last_update_.reset();
  for (int i = 0; i < state.mark_applied_size(); ++i) {
    marks_.push_back({state.mark_seconds(i), state.mark_applied(i)});
  }
  age_ = state.age_seconds();
  first_use_ = 1 - state.oldest_use();
  // In older checkpoints marks are seconds since 1970.
  if (!marks_.empty()) age_ = std::max(age_, marks_.back().age);
  // Of a file, where tensors may begin at any byte.
  const auto load = [&](size_t tensor, int64_t i, auto* value) {
    const char* first = static_cast<const char*>(waiting[tensor].raw());
    std::memcpy(value, first + static_cast<size_t>(i) * sizeof(*value), sizeof(*value));
  };
  RETURN_IF_ERROR(waiting_.Reserve(state.waiting()));
  for (int64_t i = 0; i < state.waiting(); ++i) {
    WaitingIds::Entry entry;
    load(0, i, &entry.id);
    load(1, i, &entry.count);
    load(2, i, &entry.seen);
    waiting_.Restore(entry);
  }
  return absl::OkStatus();
}

}  // namespace coxswain::ps
