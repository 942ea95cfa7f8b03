// Which ids of a variable the ids of one of its shards are: the other way of UniqueShards, whose
// comment defines the strategies.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "runtime/base/row_mix.h"
#include "runtime/base/status.h"
#include "runtime/graph/attr.h"

namespace coxswain::kernels {

// Thread model: a value.
struct ShardIds {
  std::string strategy;
  int64_t index = 0, count = 1;  // the shard, and how many there are
  int64_t rows = 0;       // of the variable; -1: a hash table, whose ids are the same everywhere
  int64_t row_begin = 0;  // of "div"

  // A local id that is out of range has no row, and comes back as it is.
  int64_t Global(int64_t id) const {
    if (strategy == "div") return row_begin + id;
    if (strategy == "hash" && rows < 0) return id;
    const int64_t place = id * count + index;
    return strategy == "hash" && place >= 0 && place < rows ? RowMix(rows).Row(place) : place;
  }

  // -1 when another shard holds it. 0 <= id < rows; `local_rows`: those of this shard. Not of hash
  // tables.
  int64_t Local(int64_t id, int64_t local_rows) const {
    if (strategy == "div") {
      return id >= row_begin && id < row_begin + local_rows ? id - row_begin : -1;
    }
    const int64_t place = strategy == "hash" ? RowMix(rows).Place(id) : id;
    return place % count == index ? place / count : -1;
  }
};

// From the attributes strategy, index, count, rows and row_begin. Errors: InvalidArgument.
inline absl::StatusOr<ShardIds> ParseShardIds(const Attrs& attrs) {
  ShardIds ids;
  ASSIGN_OR_RETURN(ids.strategy, graph::GetAttr<std::string>(attrs, "strategy"));
  ASSIGN_OR_RETURN(ids.index, graph::GetAttr<int64_t>(attrs, "index"));
  ASSIGN_OR_RETURN(ids.count, graph::GetAttr<int64_t>(attrs, "count"));
  ASSIGN_OR_RETURN(ids.rows, graph::GetAttr<int64_t>(attrs, "rows"));
  ASSIGN_OR_RETURN(ids.row_begin, graph::GetAttr<int64_t>(attrs, "row_begin"));
  if (ids.index < 0 || ids.index >= ids.count) {
    return absl::InvalidArgumentError(
        absl::StrCat("attribute 'index': wanted 0 to ", ids.count - 1, ", found ", ids.index));
  }
  return ids;
}

}  // namespace coxswain::kernels
