// What PS hold, weighed against each other (Scales); loads; placing shards, and moving some.
#include "coordinator/core/placement.h"

#include <algorithm>
#include <numeric>

#include "coxswain/tensor.h"

namespace coxswain::core {
namespace {

constexpr int64_t kGuessedRows = 1 << 16;  // of a hash table's shard

double RowBytes(const proto::VariableSpec& variable) {
  double bytes = static_cast<double>(SizeOf(static_cast<DType>(variable.dtype())));
  for (int i = 1; i < variable.shape().dims_size(); ++i) {
    bytes *= static_cast<double>(std::max<int64_t>(1, variable.shape().dims(i)));
  }
  return std::max(1.0, bytes);
}

ShardLoad Load(const proto::SavedShard& saved, double rows_used, double updates) {
  const proto::ShardSpec& shard = saved.shard();
  ShardLoad load = LoadOf(shard);
  const double row = RowBytes(shard.variable());
  if (saved.has_hash())
    load.bytes = std::max(1.0, static_cast<double>(saved.hash().places()) * row);
  // A dense variable is read and updated whole.
  load.rows = shard.variable().table() ? rows_used : 2 * updates * load.bytes / row;
  load.access = load.rows * row;
  return load;
}

// What the PS hold. The sum of squares of their shares of bytes and of access is what is kept
// small: it is least when all is even, and a shard weighs on the scale on which it is heavy. Sums
// are exact, so that ties are.
class Scales {
 public:
  Scales(const std::set<int>& there, const std::vector<PlacedShard>& shards) {
    for (int ps : there) sums_[ps];
    for (const PlacedShard& s : shards) {
      bytes_ += s.load.bytes;
      access_ += s.load.access;
      if (Has(s.ps)) Add(s.ps, s.load);
    }
  }

  bool Has(int ps) const { return sums_.count(ps) > 0; }
  // By how much the sum of squares grows when the shard comes to the PS.
  double Cost(int ps, const ShardLoad& load) const {
    const Sum& at = sums_.at(ps);
    return Bytes(load.bytes * (2 * at.bytes + load.bytes)) +
           Access(load.access * (2 * at.access + load.access));
  }
  // By how much it shrinks when a shard of the PS goes.
  double Relief(int ps, const ShardLoad& load) const {
    const Sum& at = sums_.at(ps);
    return Bytes(load.bytes * (2 * at.bytes - load.bytes)) +
           Access(load.access * (2 * at.access - load.access));
  }
  void Add(int ps, const ShardLoad& load) { Change(ps, load, 1); }
  void Remove(int ps, const ShardLoad& load) { Change(ps, load, -1); }

  int Cheapest(const ShardLoad& load) const {
    int best = sums_.begin()->first;
    double least = Cost(best, load);
    for (const auto& [ps, sum] : sums_) {
      const double cost = Cost(ps, load);
      if (cost < least) best = ps, least = cost;
    }
    return best;
  }
  double Weight(const ShardLoad& load) const {
    return std::max(Bytes(load.bytes * load.bytes), Access(load.access * load.access));
  }

  bool AnyEmpty() const {
    return std::any_of(sums_.begin(), sums_.end(),
                       [](const auto& s) { return s.second.shards == 0; });
  }
  double AccessPeak() const {
    double most = 0;
    for (const auto& [ps, sum] : sums_) most = std::max(most, sum.access);
    return access_ > 0 ? most / access_ * static_cast<double>(sums_.size()) : 0;
  }
  double BytesPeak() const {
    double most = 0;
    for (const auto& [ps, sum] : sums_) most = std::max(most, sum.bytes);
    return bytes_ > 0 ? most / bytes_ * static_cast<double>(sums_.size()) : 0;
  }
  // PS in the order in which they should give: the largest squares first.
  std::vector<int> Busiest() const {
    std::vector<int> all;
    for (const auto& [ps, sum] : sums_) all.push_back(ps);
    const auto square = [this](int ps) {
      const Sum& s = sums_.at(ps);
      return Bytes(s.bytes * s.bytes) + Access(s.access * s.access);
    };
    std::stable_sort(all.begin(), all.end(), [&](int a, int b) { return square(a) > square(b); });
    return all;
  }

 private:
  struct Sum {
    double bytes = 0, access = 0;
    int64_t shards = 0;
  };

  // Squares as shares.
  double Bytes(double square) const { return bytes_ > 0 ? square / (bytes_ * bytes_) : 0; }
  double Access(double square) const { return access_ > 0 ? square / (access_ * access_) : 0; }
  void Change(int ps, const ShardLoad& load, int sign) {
    Sum& sum = sums_.at(ps);
    sum.bytes += sign * load.bytes;
    sum.access += sign * load.access;
    sum.shards += sign;
  }

  std::map<int, Sum> sums_;
  double bytes_ = 0, access_ = 0;  // of all shards, those without a PS included
};

// The move from the PS that wins most, if it wins at least `least`.
struct Move {
  size_t shard = 0;
  int to = -1;
};
Move BestMove(const Scales& scales, const std::set<int>& there, int from, double least,
              const std::vector<PlacedShard>& shards) {
  Move best;
  for (size_t i = 0; i < shards.size(); ++i) {
    if (shards[i].ps != from) continue;
    const ShardLoad& load = shards[i].load;
    const double relief = scales.Relief(from, load);
    for (int to : there) {
      const double won = relief - scales.Cost(to, load);
      if (to != from && won > least) best = {i, to}, least = won;
    }
  }
  return best;
}

}  // namespace

int64_t ExpectedRows(const proto::ShardSpec& shard) {
  if (!shard.variable().has_hash()) return shard.rows();
  const int64_t most = shard.variable().hash().max_rows();
  return most > 0 ? most / std::max(1, shard.count()) + 1 : kGuessedRows;
}

ShardLoad LoadOf(const proto::ShardSpec& shard) {
  ShardLoad load;
  load.bytes = std::max(1.0, static_cast<double>(ExpectedRows(shard)) * RowBytes(shard.variable()));
  return load;
}

ShardLoad LoadOf(const proto::SavedShard& saved) { return LoadSince(saved, proto::SavedShard()); }

ShardLoad LoadSince(const proto::SavedShard& saved, const proto::SavedShard& earlier) {
  const auto since = [](auto now, auto then) {
    return static_cast<double>(now < then ? now : now - then);
  };
  return Load(saved,
              since(saved.rows_pulled(), earlier.rows_pulled()) +
                  since(saved.rows_pushed(), earlier.rows_pushed()),
              since(saved.applied(), earlier.applied()));
}

void PlaceShards(const std::set<int>& there, std::vector<PlacedShard>* shards) {
  Scales scales(there, *shards);
  std::vector<PlacedShard*> homeless;
  for (PlacedShard& shard : *shards) {
    if (!scales.Has(shard.ps)) homeless.push_back(&shard);
  }
  std::stable_sort(homeless.begin(), homeless.end(), [&](const auto* a, const auto* b) {
    return scales.Weight(a->load) > scales.Weight(b->load);
  });
  for (PlacedShard* shard : homeless) {
    shard->ps = scales.Cheapest(shard->load);
    scales.Add(shard->ps, shard->load);
  }
}

std::map<ShardId, int> ChooseMoves(const std::set<int>& there,
                                   const std::vector<PlacedShard>& shards,
                                   const BalanceRules& rules) {
  const double rows =
      std::accumulate(shards.begin(), shards.end(), 0.0,
                      [](double sum, const PlacedShard& s) { return sum + s.load.rows; });
  std::vector<PlacedShard> now = shards;
  if (rows < rules.min_rows) {  // then bytes alone
    for (PlacedShard& s : now) s.load.access = 0;
  }
  Scales scales(there, now);
  const bool uneven = scales.AccessPeak() > rules.uneven;
  if (there.size() < 2 || (!scales.AnyEmpty() && !uneven)) return {};
  const auto peak = [&] {
    return uneven ? scales.AccessPeak() : std::max(scales.AccessPeak(), scales.BytesPeak());
  };
  const double before = peak();
  // A move that does less than this is not worth it: of what the squares sum up to when all is
  // even.
  const double least = 0.01 * 2 / static_cast<double>(there.size());
  std::map<ShardId, int> moves;
  for (int m = 0; m < rules.most_moves; ++m) {
    Move move;
    for (int from : scales.Busiest()) {
      move = BestMove(scales, there, from, least, now);
      if (move.to >= 0) break;
    }
    if (move.to < 0) break;
    PlacedShard& shard = now[move.shard];
    scales.Remove(shard.ps, shard.load);
    shard.ps = move.to;
    scales.Add(shard.ps, shard.load);
    moves[shard.id] = move.to;
  }
  for (const PlacedShard& s : shards) {
    if (const auto it = moves.find(s.id); it != moves.end() && it->second == s.ps) moves.erase(it);
  }
  if (peak() > before * (1 - rules.gain)) moves.clear();
  return moves;
}

double AccessPeak(const std::set<int>& there, const std::vector<PlacedShard>& shards) {
  return Scales(there, shards).AccessPeak();
}

}  // namespace coxswain::core
