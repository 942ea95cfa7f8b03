#include "coordinator/core/shard_map.h"

#include <algorithm>

namespace coxswain {
namespace {

constexpr int64_t kGuessedRows = 1 << 16;  // of a hash table's shard

// What decides where a shard goes: its elements. Slots and dtypes matter less than evenness.
int64_t Weight(const proto::ShardSpec& shard, const std::map<ShardId, int64_t>& rows) {
  const auto known = rows.find(shard.id());
  int64_t elements =
      std::max<int64_t>(1, known == rows.end() ? ExpectedRows(shard) : known->second);
  const auto& dims = shard.variable().shape().dims();
  for (int i = 1; i < dims.size(); ++i) elements *= std::max<int64_t>(1, dims.Get(i));
  return elements;
}

}  // namespace

int64_t ExpectedRows(const proto::ShardSpec& shard) {
  if (!shard.variable().has_hash()) return shard.rows();
  const int64_t most = shard.variable().hash().max_rows();
  return most > 0 ? most / std::max(1, shard.count()) + 1 : kGuessedRows;
}

int ShardMap::PsOf(ShardId shard) const {
  const auto it = shards_.find(shard);
  return it == shards_.end() ? -1 : it->second.ps();
}

std::vector<ShardId> ShardMap::On(int ps) const {
  std::vector<ShardId> ids;
  for (const auto& [id, spec] : shards_) {
    if (spec.ps() == ps) ids.push_back(id);
  }
  return ids;
}

void ShardMap::Spread(const std::set<int>& lost, const std::set<int>& there,
                      const std::map<ShardId, int64_t>& rows) {
  std::map<int, int64_t> load;
  for (int ps : there) load[ps] = 0;
  std::vector<proto::ShardSpec*> homeless;
  for (auto& [id, spec] : shards_) {
    if (lost.count(spec.ps()) > 0) {
      homeless.push_back(&spec);
    } else if (const auto it = load.find(spec.ps()); it != load.end()) {
      it->second += Weight(spec, rows);
    }
  }
  std::stable_sort(homeless.begin(), homeless.end(), [&](const auto* a, const auto* b) {
    return Weight(*a, rows) > Weight(*b, rows);
  });
  for (proto::ShardSpec* spec : homeless) {
    const auto least = std::min_element(
        load.begin(), load.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
    spec->set_ps(least->first);
    least->second += Weight(*spec, rows);
  }
}

}  // namespace coxswain
