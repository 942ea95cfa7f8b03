// A function that is being built.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "coordinator/api/variable_info.h"
#include "coxswain/function_builder.h"
#include "runtime/base/ids.h"
#include "runtime/graph/builder.h"

namespace coxswain {

// The attributes that every op on a shard has; and those that tell its type as well.
Attrs ShardAttrs(const proto::ShardSpec& shard);
Attrs ReadAttrs(const VariableInfo& info, int shard);
// Those of ops whose candidates are the rows of one shard.
Attrs CandidateAttrs(const VariableInfo& info, int shard, const CandidateOptions& options);
// The ids and scores that the shards have found, as those of the whole table.
FunctionBuilder::TopCandidates MergeTop(FunctionBuilder* f, const std::vector<Output>& scores,
                                        const std::vector<Output>& ids, int64_t k);

struct FunctionBuilder::State {
  State(const std::string& name, const graph::OpRegistry* registry) : graph(name, registry) {}

  // A read of one shard by the function, which Minimize updates.
  struct ShardRead {
    proto::ShardSpec shard;
    const VariableInfo* info = nullptr;  // the strategy keeps it
    Output value = {};                   // rows or the whole shard, or a product with it
    Output ids = {};                     // local ids of the rows; invalid: the whole shard
    bool trainable = false;
    Output x = {};  // for a product: the other factor
    bool transposed = false;
    Attrs attrs = {};  // for a product: the shard and its type
  };

  // False for a handle of another strategy; then the builder has failed.
  bool Owns(const VariableInfo& info);
  bool CheckOneShard(const VariableInfo& info, const char* what);
  bool CheckOnHost(const VariableInfo& info, const char* what);
  // `whole`, of the variable's shape, cut as its shards are.
  std::vector<Output> PartsOf(const VariableInfo& info, Output whole);
  // An update of each shard by its part of `value`.
  void WriteWhole(const std::string& op, const VariableInfo& info, Output value,
                  const Attrs& more = {});
  // The updates that were added since there were so many of them.
  std::vector<Output> UpdatesSince(size_t count) const {
    const std::vector<int>& all = graph.function().targets;
    std::vector<Output> since;
    for (size_t i = count; i < all.size(); ++i) since.push_back(graph.Of(all[i]));
    return since;
  }
  bool averages = false;  // FunctionBuilder::ReadAverages
  size_t updates() const { return graph.function().targets.size(); }
  // Parts of what `f` offers.
  Output ReadWhole(FunctionBuilder* f, const VariableInfo& info);
  Output MatMulOnPs(FunctionBuilder* f, Output x, const VariableInfo& info, bool transpose);
  // For each row, its position among the concatenated rows of all shards.
  Output RowPlaces(FunctionBuilder* f, const VariableInfo& info);
  // The distinct rows of all `ids`, and for each list the place of its ids among them. `exact`: not
  // rounded on the way, whatever the table's wire_dtype is.
  Output GatherUnique(FunctionBuilder* f, const EmbeddingTable& table,
                      const std::vector<Output>& ids, std::vector<Output>* inverse,
                      bool exact = false);
  Output CandidateBias(FunctionBuilder* f, const VariableInfo& info, int shard,
                       const CandidateOptions& options);
  bool CheckCandidates(const EmbeddingTable& table, const CandidateOptions& options);
  // The ids and gradients of a shard's rows. One that was gathered from more than once gets one
  // update with the gradients summed by row, as one lookup would have given.
  static std::vector<Output> MergedRows(FunctionBuilder* f, const std::vector<Output>& all_ids,
                                        const std::vector<Output>& gradients);
  // The rows, which are looked at on their way.
  static Output CheckedRows(FunctionBuilder* f, const proto::ShardSpec& shard, Output ids,
                            Output rows);
  bool IsColumn(const std::string& argument) const;
  bool Takes(const std::string& op, absl::string_view attr) const;
  // With a seed of its own for a random op that the program gives none.
  Attrs Seeded(const std::string& op, Attrs attrs);
  // Parts of ApplyGradients, see gradients.cc.
  void ApplyRows(FunctionBuilder* f, const VariableGradient& gradient);
  void ApplyOwnRows(FunctionBuilder* f, const VariableGradient& gradient);
  void ApplyWhole(FunctionBuilder* f, const VariableGradient& gradient);
  // What an op that applies a gradient has of `attrs`.
  Attrs WithRate(Attrs attrs) const;
  void SumWholes(std::vector<const ShardRead*>* reads, std::vector<Output>* gradients);
  void UpdateRows(const std::vector<const ShardRead*>& reads, const std::vector<Output>& sent);
  void UpdateWhole(FunctionBuilder* f, const std::vector<const ShardRead*>& reads,
                   const std::vector<Output>& gradients);

  graph::GraphBuilder graph;
  double learning_rate_factor = 1;
  uint64_t strategy = 0;                // whose handles it takes; 0: any
  std::map<std::string, Output> whole;  // by variable
  std::vector<ShardRead> reads;
  std::set<std::string> fetched;  // variables, by FetchAdd
  Output rate = {};               // of the updates that are added; invalid: the optimizers' own
  int64_t unseeded = 0;           // random ops without a seed of the program's
  // The rows of a table for which Gradients has given gradients: for each shard.
  struct ShardRows {
    Output ids = {};   // of the shard's own
    Output rows = {};  // their gradients, as they were
  };
  std::vector<std::vector<ShardRows>> gradient_rows;
  // Columns that a data set has; filled in by the strategy.
  std::map<std::string, TensorType> columns;
  // For each argument: a column's name, or which per-worker values; neither: Schedule passes it.
  struct Source {
    std::string column = {};
    ValuesId values = 0;
    int result = 0;  // of these
  };
  std::vector<Source> sources;
  std::vector<std::shared_ptr<const void>> keeps;  // what must not go while the function is there
};

}  // namespace coxswain
