#include "ps_server/delta_plan.h"

#include <algorithm>
#include <cstdint>
#include <string>

#include "runtime/env/file_system.h"

namespace coxswain::ps {
namespace {

// Where a shard lies does not matter, nor how much it was used.
std::string What(proto::ShardSpec spec) {
  spec.clear_ps();
  return spec.SerializeAsString();
}

bool IsBase(const proto::SavedShard& base, const proto::ShardSpec& spec,
            const ShardSnapshot& snapshot) {
  return base.applied() <= snapshot.applied() &&
         base.gradient_steps() <= snapshot.gradient_steps() &&
         base.has_hash() == snapshot.hash().has_value() &&
         (!base.has_hash() || base.hash().places() <= snapshot.hash()->places()) &&
         What(base.shard()) == What(spec);
}

// Without its header, which fills a block.
int64_t ContentBytes(const proto::SavedDelta& delta) {
  return std::max<int64_t>(
      0, static_cast<int64_t>(delta.bytes()) - static_cast<int64_t>(env::kDirectBlock));
}

}  // namespace

DeltaPlan PlanDelta(const proto::SavedShard& base, const proto::ShardSpec& spec,
                    const ShardSnapshot& snapshot, const proto::SaveShards& limits) {
  using Kind = DeltaPlan::Kind;
  if (!IsBase(base, spec, snapshot)) return {};
  if (base.applied() == snapshot.applied()) return {Kind::kNothing};
  if (!spec.variable().table() || base.deltas_size() >= limits.max_deltas()) return {};
  int64_t row_bytes = sizeof(int64_t), whole = 0, waiting = 0;
  for (int p = 0; p < snapshot.parts(); ++p) {
    row_bytes += static_cast<int64_t>(snapshot.part(p).row_bytes());
    whole += snapshot.tensor_bytes(p);
  }
  for (int t = snapshot.parts(); t < snapshot.tensors(); ++t) waiting += snapshot.tensor_bytes(t);
  int64_t deltas = waiting;
  for (const proto::SavedDelta& delta : base.deltas()) deltas += ContentBytes(delta);
  const double room =
      limits.max_delta_share() * static_cast<double>(whole + waiting) - static_cast<double>(deltas);
  if (!(room >= 0)) return {};
  const double rows =
      std::min(room / static_cast<double>(row_bytes), static_cast<double>(snapshot.rows()));
  return {Kind::kTouched, static_cast<int64_t>(rows)};
}

}  // namespace coxswain::ps
