// Rows of a hash table that go.
#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <map>
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
constexpr size_t kMostMarks = 1 << 13;
constexpr double kMicros = 1e6;

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

cluster::RowUse HashRows::UseOf(int64_t place, int64_t number) const {
  cluster::RowUse use{count(place), std::max<int64_t>(0, number - used(place)), 0};
  const auto mark = std::lower_bound(marks_.begin(), marks_.end(), used(place),
                                     [](const Mark& m, int64_t used) { return m.number < used; });
  if (mark != marks_.end()) use.idle_us = std::llround((age_ - mark->age) * kMicros);
  return use;
}

// Rows come from several shards, with different numbers of updates: where time alone decides, it is
// their order. A millisecond counts as an update then.
void HashRows::SetUses(const int64_t* places, int64_t n, const cluster::RowUse* uses) {
  constexpr int64_t kMillis = 1000;  // microseconds
  const bool by_time = spec_.ttl_seconds() > 0 && spec_.ttl_steps() == 0;
  std::map<double, int64_t> marks;  // by age of the table, the last update by then
  for (const Mark& mark : marks_) marks[mark.age] = mark.number;
  for (int64_t i = 0; i < n; ++i) {
    const int64_t number = by_time ? -(uses[i].idle_us / kMillis) : -uses[i].age;
    set_count(places[i], static_cast<uint32_t>(uses[i].updates));
    Store(used_, places[i], number);
    first_use_ = std::min(first_use_, number);
    if (spec_.ttl_seconds() <= 0 || uses[i].idle_us <= 0) continue;
    const double age = age_ - static_cast<double>(uses[i].idle_us) / kMicros;
    int64_t& last = marks.try_emplace(age, number).first->second;
    last = std::max(last, number);
  }
  // Tables have a few hundred times. Of more those are left out that are near to the one before:
  // rows stay until the next mark, a little longer.
  const double apart =
      marks.size() > kMostMarks ? spec_.ttl_seconds() / kMarksPerLife / kMarksPerLife : 0;
  marks_.clear();
  int64_t last = std::numeric_limits<int64_t>::min();
  for (const auto& [age, number] : marks) {
    last = std::max(last, number);
    if (marks_.empty() || age >= marks_.back().age + apart) marks_.push_back({age, last});
  }
}

int64_t HashRows::ExpiredUpTo(int64_t number) const {
  int64_t expired = std::numeric_limits<int64_t>::min();
  if (spec_.ttl_steps() > 0) expired = number - spec_.ttl_steps();
  if (spec_.ttl_seconds() > 0) {
    const auto young = std::upper_bound(marks_.begin(), marks_.end(), age_ - spec_.ttl_seconds(),
                                        [](double age, const Mark& m) { return age < m.age; });
    if (young != marks_.begin()) expired = std::max(expired, std::prev(young)->number);
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
  if (expired >= first_use_) {
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
