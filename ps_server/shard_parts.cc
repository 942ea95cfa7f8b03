#include "ps_server/shard_parts.h"

#include <algorithm>

namespace coxswain::ps {
namespace {

constexpr size_t kCacheLine = 64;
constexpr size_t kSmallestStride = 8;

size_t RoundUp(size_t bytes, size_t to) { return (bytes + to - 1) / to * to; }

// Small rows share a cache line and none lies in two; others begin at one.
size_t StrideOf(size_t bytes) {
  if (bytes > kCacheLine) return RoundUp(bytes, kCacheLine);
  size_t stride = kSmallestStride;
  while (stride < bytes) stride *= 2;
  return stride;
}

// Puts the parts of one kind one after the other from `offset` on; returns where they end.
size_t Place(bool per_row, bool side, size_t offset, std::vector<ShardPart>* parts) {
  for (ShardPart& part : *parts) {
    if (part.per_row != per_row) continue;
    part.side = side;
    part.offset = RoundUp(offset, SizeOf(part.dtype));
    offset = part.offset + part.row_bytes();
  }
  return offset;
}

void PlaceParts(PartPlan* plan) {
  const size_t wide = Place(/*per_row=*/false, /*side=*/false, 0, &plan->parts);
  const size_t alone = RoundUp(Place(/*per_row=*/true, /*side=*/true, 0, &plan->parts), 8);
  plan->row_stride = StrideOf(wide);
  const size_t together = Place(/*per_row=*/true, /*side=*/false, wide, &plan->parts);
  if (StrideOf(together) <= plan->row_stride + alone) {
    plan->row_stride = StrideOf(together);
    return;
  }
  Place(/*per_row=*/true, /*side=*/true, 0, &plan->parts);
  plan->side_stride = alone;
}

// The first parts in the block of rows, without gaps, as kernels/row_block_ops.cc has them; the
// others beside.
void PlaceApart(int in_block, bool gpu, PartPlan* plan) {
  constexpr size_t kRowsBegin = 16;  // addresses that vectors of four floats can be read from
  size_t offset = 0, beside = 0;
  for (size_t p = 0; p < plan->parts.size(); ++p) {
    ShardPart& part = plan->parts[p];
    part.side = static_cast<int>(p) >= in_block;
    size_t* const end = part.side ? &beside : &offset;
    part.offset = RoundUp(*end, SizeOf(part.dtype));
    *end = part.offset + part.row_bytes();
  }
  plan->row_stride = gpu ? RoundUp(offset, kRowsBegin) : StrideOf(offset);
  plan->side_stride = RoundUp(beside, 8);
}

}  // namespace

int PartPlan::Find(absl::string_view name) const {
  for (size_t p = 0; p < parts.size(); ++p) {
    if (parts[p].name == name) return static_cast<int>(p);
  }
  return -1;
}

PartPlan PlanParts(const ShardLayout& layout, const Optimizer& optimizer, bool table,
                   RowsIn rows_in) {
  PartPlan plan;
  plan.parts.push_back({"weights", layout.dtype(), layout.row_elements()});
  for (int slot = 0; slot < optimizer.slots(); ++slot) {
    ShardPart part{std::string(optimizer.slot_name(slot)), layout.value_dtype()};
    part.per_row = optimizer.slots_per_row();
    part.width = part.per_row ? 1 : layout.row_elements();
    part.initial = optimizer.slot_initial(slot);
    plan.parts.push_back(std::move(part));
  }
  if (optimizer.ema_decay() > 0) {
    plan.parts.push_back({kEmaPart, layout.value_dtype(), layout.row_elements()});
  }
  if (!table) return plan;
  if (layout.hashed()) {
    plan.parts.push_back({kIdPart, DType::kI64, 1, /*per_row=*/true});
    plan.parts.push_back({kCountPart, DType::kI32, 1, /*per_row=*/true});
    if (optimizer.SparseMovesAllRows()) {
      plan.parts.push_back({kUsedPart, DType::kI64, 1, /*per_row=*/true});
    }
  }
  plan.parts.push_back({kTouchedPart, DType::kI64, 1, /*per_row=*/true});
  if (rows_in == RowsIn::kHost) {
    PlaceParts(&plan);
  } else {
    const int averages = optimizer.ema_decay() > 0 ? 1 : 0;
    PlaceApart(1 + optimizer.slots() + averages, rows_in == RowsIn::kGpu, &plan);
  }
  return plan;
}

}  // namespace coxswain::ps
