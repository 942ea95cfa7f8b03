#include "coordinator/core/shard_map.h"

#include <algorithm>

namespace coxswain {
namespace {

// What decides where a shard goes: its elements. Slots and dtypes matter less than evenness.
int64_t Weight(const proto::ShardSpec& shard) {
  int64_t elements = std::max<int64_t>(1, shard.rows());
  const auto& dims = shard.variable().shape().dims();
  for (int i = 1; i < dims.size(); ++i) elements *= std::max<int64_t>(1, dims.Get(i));
  return elements;
}

}  // namespace

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

void ShardMap::Spread(const std::set<int>& lost, const std::set<int>& there) {
  std::map<int, int64_t> load;
  for (int ps : there) load[ps] = 0;
  std::vector<proto::ShardSpec*> homeless;
  for (auto& [id, spec] : shards_) {
    if (lost.count(spec.ps()) > 0) {
      homeless.push_back(&spec);
    } else if (const auto it = load.find(spec.ps()); it != load.end()) {
      it->second += Weight(spec);
    }
  }
  std::stable_sort(homeless.begin(), homeless.end(),
                   [](const auto* a, const auto* b) { return Weight(*a) > Weight(*b); });
  for (proto::ShardSpec* spec : homeless) {
    const auto least = std::min_element(
        load.begin(), load.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
    spec->set_ps(least->first);
    least->second += Weight(*spec);
  }
}

}  // namespace coxswain
