#include "coordinator/api/nearest_rows.h"

#include <vector>

#include "coordinator/api/function_state.h"
#include "coordinator/api/variable_info.h"

namespace coxswain {

Output ExactRows(FunctionBuilder& f, const EmbeddingTable& table, Output ids) {
  const VariableInfo& info = table.info();
  const int shards = static_cast<int>(info.shards.size());
  const std::vector<Output> unique = f.graph().OpN(
      "UniqueShards", {ids},
      {{"shards", shards}, {"rows", info.rows()}, {"strategy", info.strategy}}, shards + 1);
  std::vector<Output> rows;
  for (int s = 0; s < shards; ++s) {
    rows.push_back(f.Op("GatherShard", {unique[static_cast<size_t>(s)]}, ReadAttrs(info, s)));
  }
  return f.Gather(shards == 1 ? rows[0] : f.Concat(rows, 0), unique.back());
}

FunctionBuilder::TopCandidates NearestByDirection(FunctionBuilder& f, const EmbeddingTable& table,
                                                  Output x, Output exclude_values,
                                                  Output exclude_offsets, int64_t k) {
  const VariableInfo& info = table.info();
  std::vector<Output> scores, ids;
  for (int s = 0; s < static_cast<int>(info.shards.size()); ++s) {
    Attrs attrs = CandidateAttrs(info, s, {});
    attrs["directions"] = true;
    attrs["k"] = k;
    const std::vector<Output> best =
        f.graph().OpN("TopKShard", {x, exclude_values, exclude_offsets}, std::move(attrs), 2);
    scores.push_back(best[0]);
    ids.push_back(best[1]);
  }
  return MergeTop(&f, scores, ids, k);
}

}  // namespace coxswain
