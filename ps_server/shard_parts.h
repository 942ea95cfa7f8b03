// The parts that a shard keeps for its rows, and their layout in memory.
//
//   part      dtype               values of a row   kept for
//   weights   the variable's      its elements      all
//   slots     f32, f64            its elements, or  optimizers, see optimizer.h
//                                 one
//   ema       f32, f64            its elements      moving averages, see averages.h
//   id        i64                 one               hash tables, see hash_rows.h
//   count     i32                 one               hash tables: updates taken; 0: a free place
//   used      i64                 one               hash tables whose optimizer moves all rows
//   touched   i64                 one               tables
//
// "touched" is the number (from 1) of the shard's update that last changed the row, 0 before the
// first. Direct writes count as part of the next update. "used" is the number of the update that
// last named the row, which eviction depends on; for most optimizers both are the same.
//
// Tables keep the wide parts of a row side by side, so that an update touches neighbouring memory,
// in strides that do not straddle cache lines needlessly. Parts of one value follow after them if
// that takes no more memory than a separate block, the "side"; else they are in that block, again
// row by row. Where the rows are in the memory of a GPU or in a file, weights, slots and averages
// are there and all other parts in the side, which is always in the host's memory: it is looked
// through for each checkpoint. Dense variables keep each part contiguous.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "coxswain/tensor.h"
#include "ps_server/optimizer.h"
#include "ps_server/row_block.h"
#include "ps_server/shard_layout.h"

namespace coxswain::ps {

constexpr char kEmaPart[] = "ema";
constexpr char kTouchedPart[] = "touched";
constexpr char kUsedPart[] = "used";
constexpr char kIdPart[] = "id";
constexpr char kCountPart[] = "count";

struct ShardPart {
  std::string name;  // of its tensor in a checkpoint file; must not change
  DType dtype = DType::kInvalid;
  int64_t width = 1;     // elements of a row
  bool per_row = false;  // one value per row: the shape of n rows is [n]
  double initial = 0;    // the value in new rows; for weights the initializer decides
  // Tables: the position in its block. Set by PlanParts.
  bool side = false;
  size_t offset = 0;

  size_t row_bytes() const { return static_cast<size_t>(width) * SizeOf(dtype); }
  // Shape of n rows, and of all rows of the layout.
  Shape RowsShape(const ShardLayout& layout, int64_t n) const {
    return per_row ? Shape{n} : layout.RowsShape(n);
  }
  Shape WholeShape(const ShardLayout& layout) const {
    return per_row ? Shape{layout.rows()} : layout.shape();
  }
};

// The parts in the order of their numbers: weights, slots, the rest.
struct PartPlan {
  std::vector<ShardPart> parts;
  size_t row_stride = 0;   // tables: bytes from row to row in the block of rows
  size_t side_stride = 0;  // and in the block beside it; 0: there is none

  // -1 when the part does not exist.
  int Find(absl::string_view name) const;
};

enum class RowsIn : uint8_t { kHost, kGpu, kFile };
PartPlan PlanParts(const ShardLayout& layout, const Optimizer& optimizer, bool table,
                   RowsIn rows_in = RowsIn::kHost);

// The memory of a table. Copies share the rows.
struct TableMemory {
  Buffer rows, side;
  bool rows_in_file = false;  // see table_file.h
};

inline PartPlace PlaceOf(const PartPlan& plan, const TableMemory& memory, size_t part) {
  const ShardPart& p = plan.parts[part];
  const Buffer& block = p.side ? memory.side : memory.rows;
  return {static_cast<char*>(block.data()) + p.offset, p.side ? plan.side_stride : plan.row_stride};
}

}  // namespace coxswain::ps
