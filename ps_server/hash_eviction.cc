// Rows of a hash table that go.
#include <algorithm>
#include <tuple>

#include "ps_server/hash_rows.h"
#include "runtime/base/logging.h"

namespace coxswain::ps {
namespace {

constexpr int64_t kSample = 16;  // rows of which the one goes that is least worth keeping
// Places looked at for expired rows with each update: so many that all have their turn within this
// share of a life, at least a few, and at most as many as cause no long pause. They may be twice as
// many as the update names, which is work of the same order: else the rows that updates make could
// be more than are looked at, and a table grow without a bound.
constexpr double kTurnsPerLife = 8;
constexpr int64_t kMinSweep = 64;
constexpr int64_t kMaxSweep = 1 << 14;
constexpr int64_t kSweptPerId = 2;
constexpr double kMarksPerLife = 64;  // how exactly ttl_seconds are counted

}  // namespace

void HashRows::Release(int64_t place, int64_t number) {
  const int64_t row = index_.Erase(id(place));
  COX_CHECK(row == place, "id ", id(place), " at ", place, " is indexed at ", row);
  set_count(place, 0);
  set_id(place, first_free_);
  // So that who copies what has changed since some update finds it.
  Store(touched_, place, number);
  first_free_ = place;
}

// Time between a checkpoint and its restoring does not count: a job that rests for longer than
// ttl_seconds keeps its rows. Updates may come a little out of order.
double HashRows::Age(double seconds) {
  const double since = seconds - last_update_.value_or(seconds);
  if (since >= 0) last_update_ = seconds;
  age_ += std::max(0.0, since);
  return std::max(0.0, since);
}

// What was used up to a mark's update was used at its time at the latest.
void HashRows::NoteTime(int64_t number) {
  const double life = spec_.ttl_seconds();
  if (!marks_.empty() && age_ < marks_.back().age + life / kMarksPerLife) return;
  marks_.push_back({age_, number});
  // Of those that are too old the last is enough.
  const auto young = std::find_if(marks_.begin(), marks_.end(),
                                  [&](const Mark& m) { return m.age > age_ - life; });
  if (young - marks_.begin() > 1) marks_.erase(marks_.begin(), young - 1);
}

int64_t HashRows::ExpiredUpTo(int64_t number) const {
  int64_t expired = 0;
  if (spec_.ttl_steps() > 0) expired = std::max<int64_t>(0, number - spec_.ttl_steps());
  if (spec_.ttl_seconds() > 0) {
    for (const Mark& mark : marks_) {
      if (mark.age <= age_ - spec_.ttl_seconds()) {
        expired = std::max(expired, mark.number);
      }
    }
  }
  return expired;
}

int64_t HashRows::PickVictim() {
  const auto worth = [this](int64_t place) {
    return std::tuple(by_frequency_ ? count(place) : 0, used(place), place);
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

int64_t HashRows::PlacesToSweep(double seconds, int64_t n) const {
  double lives = 0;  // since the last update
  if (spec_.ttl_steps() > 0) lives = 1 / static_cast<double>(spec_.ttl_steps());
  if (spec_.ttl_seconds() > 0) lives = std::max(lives, seconds / spec_.ttl_seconds());
  const int64_t by_ids = kSweptPerId * n;
  const int64_t most = std::min(places_, std::max(kMaxSweep, by_ids));
  // Compared before it is rounded: after a long rest it may be more than there are numbers.
  const double even = kTurnsPerLife * lives * static_cast<double>(places_);
  if (even >= static_cast<double>(most)) return most;
  return std::min(most, std::max({static_cast<int64_t>(even), by_ids, kMinSweep}));
}

void HashRows::Evict(int64_t number, const UpdateTime& time, int64_t n,
                     absl::FunctionRef<void(int64_t)> before_change) {
  // What else a table keeps is the same in every run of the same steps.
  double seconds = 0;
  if (spec_.ttl_seconds() > 0) {
    seconds = Age(time.seconds);
    NoteTime(number);
  }
  const int64_t expired = ExpiredUpTo(number);
  if (expired > 0) {
    for (int64_t left = PlacesToSweep(seconds, n); left > 0; --left) {
      if (hand_ >= places_) hand_ = 0;
      const int64_t place = hand_++;
      if (IsFree(place) || used(place) > expired) continue;
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

}  // namespace coxswain::ps
