// BlockGather, BlockScatter and BlockApply: rows of a table in the device's memory. f32.
//
// The file is cut into checks, copies of columns, updates of element after element, and those that
// need a sum over the row first. What is copied or updated at once is a chunk of four columns where
// all sizes and addresses allow it, else one column. The build compiles this file without
// contraction to multiply-adds, so that updates give the CPU's bits (optimizer_rules.h).
#include "kernels/cuda/joined.h"
#include "kernels/cuda/op_list.h"
#include "kernels/cuda/optimizer_rules.h"
#include "kernels/cuda/pack.h"

namespace coxswain::cuda {
namespace {

template <int kSize>
using Chunk = Pack<float, kSize>;

// Places of rows in a block, and the columns of each. Numbers of columns are in chunks.
struct PlacedRows {
  AnyIndices places;
  int64_t stride, offset, width;

  // Where chunk i of all that are meant lies in the block; -1: its place is out of range.
  COX_DEVICE int64_t At(int64_t i) const {
    const int64_t row = i / width, column = i - row * width;
    const int64_t place = places.At(row, column == 0);
    return place < 0 ? -1 : place * stride + offset + column;
  }
};

// ---- checks: whoever runs the op need not have inferred shapes

Status WantColumns(const CoxTensor& block, int64_t offset, int64_t width) {
  const int64_t columns = block.dims[1];
  if (offset >= 0 && width >= 0 && offset <= columns && width <= columns - offset) return Status();
  return InvalidArgument("wanted columns within the block's " + std::to_string(columns) +
                         ", found " + std::to_string(width) + " from " + std::to_string(offset));
}

Status WantRowPerPlace(const Run& run, const CoxTensor& rows) {
  if (rows.dims[0] == run.input(1).dims[0]) return Status();
  return InvalidArgument("wanted a row for each place, found " + std::to_string(rows.dims[0]) +
                         " for " + std::to_string(run.input(1).dims[0]));
}

// Before the rows are changed, unless they are changed in place.
Status PassBlockOn(const Run& run) {
  const CoxTensor &block = run.input(0), &out = run.output(0);
  if (block.data == out.data) return Status();
  COX_CUDA_RETURN_IF_ERROR(Flush(run.stream()));
  return PassOn(run, block, out);
}

bool IsAligned(const CoxTensor& t) {
  return reinterpret_cast<uintptr_t>(t.data) % sizeof(Chunk<4>) == 0;
}

// Calls f(Chunk, rows) for columns [offset, offset + width) of `block`; `rows` has them for each
// place.
template <typename F>
Status WithChunks(const Run& run, const CoxTensor& block, const CoxTensor& rows, int64_t offset,
                  int64_t width, const F& f) {
  const AnyIndices places = AnyIndicesOf(run, 1, block.dims[0]);
  const int64_t stride = block.dims[1];
  if ((stride | offset | width) % 4 == 0 && IsAligned(block) && IsAligned(rows)) {
    return f(Chunk<4>{}, PlacedRows{places, stride / 4, offset / 4, width / 4});
  }
  return f(Chunk<1>{}, PlacedRows{places, stride, offset, width});
}

// ---- copies of columns

struct GatheredColumns {
  int64_t offset, width;
};

GatheredColumns ReadColumns(const Node& node) {
  return GatheredColumns{node.Integer("offset", 0), node.Integer("width", 0)};
}

template <typename T>
struct GatherChunks {
  PlacedRows rows;
  const T* block;

  COX_DEVICE T operator()(int64_t i) const {
    const int64_t at = rows.At(i);
    return at < 0 ? T{} : block[at];
  }
};

Status RunBlockGather(const GatheredColumns& columns, const Run& run) {
  const CoxTensor &block = run.input(0), &out = run.output(0);
  COX_CUDA_RETURN_IF_ERROR(WantColumns(block, columns.offset, columns.width));
  COX_CUDA_RETURN_IF_ERROR(WantRowPerPlace(run, out));
  if (columns.width == 0) return Status();
  return WithChunks(run, block, out, columns.offset, columns.width,
                    [&](auto chunk, const PlacedRows& rows) {
                      using T = decltype(chunk);
                      return FillJoined(run.stream(), Data<T>(out), out.dims[0] * rows.width,
                                        GatherChunks<T>{rows, Data<T>(block)},
                                        {{All(block), All(run.input(1))}, All(out)});
                    });
}

template <typename T>
struct ScatterChunks {
  PlacedRows rows;
  const T* values;
  T* block;

  COX_DEVICE void operator()(int64_t i) const {
    const T value = values[i];
    const int64_t at = rows.At(i);
    if (at >= 0) block[at] = value;
  }
};

int64_t ReadOffset(const Node& node) { return node.Integer("offset", 0); }

Status RunBlockScatter(const int64_t& offset, const Run& run) {
  const CoxTensor &values = run.input(2), &out = run.output(0);
  COX_CUDA_RETURN_IF_ERROR(WantColumns(out, offset, values.dims[1]));
  COX_CUDA_RETURN_IF_ERROR(WantRowPerPlace(run, values));
  COX_CUDA_RETURN_IF_ERROR(PassBlockOn(run));
  if (values.dims[1] == 0) return Status();
  return WithChunks(run, out, values, offset, values.dims[1],
                    [&](auto chunk, const PlacedRows& rows) {
                      using T = decltype(chunk);
                      return ForJoined(run.stream(), values.dims[0] * rows.width,
                                       ScatterChunks<T>{rows, Data<T>(values), Data<T>(out)},
                                       {{All(run.input(1)), All(values)}, All(out)});
                    });
}

// ---- updates of element after element

KernelMemory MemoryOfApply(const Run& run) {
  return {{All(run.input(1)), All(run.input(2)), All(run.input(3))}, All(run.output(0))};
}

// A thread reads the rule from the device's memory and updates one chunk.
template <typename Rule, typename T>
struct ApplyToChunk {
  static constexpr int kSize = static_cast<int>(sizeof(T) / sizeof(float));
  PlacedRows rows;
  const Rule* rule;
  const T* gradient;
  T* block;

  COX_DEVICE void operator()(int64_t i) const {
    const int64_t at = rows.At(i);
    if (at < 0) return;
    const Rule local = *rule;
    const T g = gradient[i];
    T parts[1 + Rule::kSlots];
    COX_UNROLL
    for (int p = 0; p <= Rule::kSlots; ++p) parts[p] = block[at + p * rows.width];
    COX_UNROLL
    for (int e = 0; e < kSize; ++e) Update(local, g.of[e], e, parts);
    COX_UNROLL
    for (int p = 0; p <= Rule::kSlots; ++p) block[at + p * rows.width] = parts[p];
  }

  COX_DEVICE static void Update(const Rule& rule, float g, int e, T* parts) {
    if constexpr (Rule::kSlots == 0) {
      rule(g, parts[0].of[e]);
    } else if constexpr (Rule::kSlots == 1) {
      rule(g, parts[0].of[e], parts[1].of[e]);
    } else {
      rule(g, parts[0].of[e], parts[1].of[e], parts[2].of[e]);
    }
  }
};

template <typename Rule>
Status ApplyToElements(const Run& run) {
  const CoxTensor &gradient = run.input(2), &out = run.output(0);
  return WithChunks(
      run, out, gradient, 0, gradient.dims[1], [&](auto chunk, const PlacedRows& rows) {
        using T = decltype(chunk);
        const ApplyToChunk<Rule, T> apply{rows, Data<Rule>(run.input(3)), Data<T>(gradient),
                                          Data<T>(out)};
        return ForJoined(run.stream(), gradient.dims[0] * rows.width, apply, MemoryOfApply(run));
      });
}

// ---- updates by the mean of squares of a row

// Threads of a row, each with the sum of the columns that lie so far apart. The order of summation
// is that of MeanSquareOfRow in kernels/row_block_ops.cc: the bits are to be the same.
constexpr int kLanes = 16;

COX_DEVICE float SumOfLanes(const float* lanes) {
  float sums[kLanes];
  COX_UNROLL
  for (int e = 0; e < kLanes; ++e) sums[e] = lanes[e];
  COX_UNROLL
  for (int half = kLanes / 2; half > 0; half /= 2) {
    COX_UNROLL
    for (int e = 0; e < half; ++e) sums[e] += sums[e + half];
  }
  return sums[0];
}

template <typename Rule>
struct ApplyToRows {
  static constexpr int kRows = kThreads / kLanes;  // of an item
  AnyIndices places;
  int64_t count, stride, width;
  const Rule* rule;
  const float* gradient;
  float* block_rows;

  COX_DEVICE void operator()(const Block& block, int64_t item) const {
    float* const squares = block.shared<float>();
    PerThread<int64_t> at;    // of the row's place; -1: none
    PerThread<float> before;  // the row's slot, which one thread changes once all have read it
    block.Phase([&](int t) {
      const int64_t row = item * kRows + t / kLanes;
      at[t] = row < count ? places.At(row, t % kLanes == 0) : -1;
      if (at[t] < 0) return;
      const float* const w = block_rows + at[t] * stride;
      before[t] = w[width];
      squares[t] = SumOfSquares(gradient + row * width, w, t % kLanes);
    });
    block.Phase([&](int t) {
      if (at[t] < 0) return;
      const int64_t row = item * kRows + t / kLanes;
      float* const w = block_rows + at[t] * stride;
      const float* const sums = squares + t / kLanes * kLanes;
      const float slot = before[t] + SumOfLanes(sums) / static_cast<float>(width);
      const auto elements = rule->OfRow(slot);
      if (t % kLanes == 0) w[width] = slot;
      for (int64_t e = t % kLanes; e < width; e += kLanes)
        elements(gradient[row * width + e], w[e]);
    });
  }

  COX_DEVICE float SumOfSquares(const float* g, const float* w, int lane) const {
    const float l2 = rule->l2;
    float sum = 0;
    for (int64_t e = lane; e < width; e += kLanes) {
      const float v = g[e] + l2 * w[e];
      sum += v * v;
    }
    return sum;
  }
};

template <typename Rule>
Status ApplyByRow(const Run& run) {
  const CoxTensor &gradient = run.input(2), &out = run.output(0);
  using Apply = ApplyToRows<Rule>;
  const Apply apply{
      AnyIndicesOf(run, 1, out.dims[0]), gradient.dims[0],      out.dims[1],     gradient.dims[1],
      Data<Rule>(run.input(3)),          Data<float>(gradient), Data<float>(out)};
  return LaunchJoined(run.stream(), CeilDiv(gradient.dims[0], Apply::kRows),
                      kThreads * sizeof(float), apply, MemoryOfApply(run));
}

template <typename Rule>
Status RunBlockApply(const Run& run) {
  const CoxTensor &gradient = run.input(2), &rule = run.input(3), &out = run.output(0);
  const int64_t width = gradient.dims[1], numbers = rule.dims[0];
  COX_CUDA_RETURN_IF_ERROR(
      WantColumns(out, 0, Rule::kPerRow ? width + Rule::kSlots : width * (1 + Rule::kSlots)));
  COX_CUDA_RETURN_IF_ERROR(WantRowPerPlace(run, gradient));
  if (numbers * static_cast<int64_t>(sizeof(float)) < static_cast<int64_t>(sizeof(Rule))) {
    return InvalidArgument("wanted the numbers of a rule, found " + std::to_string(numbers));
  }
  COX_CUDA_RETURN_IF_ERROR(PassBlockOn(run));
  if (width == 0) return Status();
  if constexpr (Rule::kPerRow) {
    return ApplyByRow<Rule>(run);
  } else {
    return ApplyToElements<Rule>(run);
  }
}

Status MakeBlockApply(const Node& node, OpFunction* made) {
  COX_CUDA_RETURN_IF_ERROR(WantFirst(node, {COX_F32}));
  const std::string kind = node.Text("kind", "");
#define COX_MAKE_APPLY(name, Rule) \
  if (kind == name) {              \
    *made = RunBlockApply<Rule>;   \
    return Status();               \
  }
  COX_CUDA_RULES(COX_MAKE_APPLY)
#undef COX_MAKE_APPLY
  return NotFound("no kernel for op 'BlockApply' and optimizer '" + kind + "'");
}

}  // namespace

void AddRowBlockOps(OpTable* table) {
  table->Add("BlockGather", {COX_F32}, ReadColumns, RunBlockGather);
  table->Add("BlockScatter", {COX_F32}, ReadOffset, RunBlockScatter);
  table->Add("BlockApply", MakeBlockApply);
  table->SetPending({"BlockGather", "BlockScatter", "BlockApply"});
}

}  // namespace coxswain::cuda
