// Rows of a block: of a table whose weights and optimizer's slots lie side by side, so that a
// parameter server can keep it in a GPU's memory.
//
// A block is f32 [R, S]. In each of its R rows the weights are the columns [0, W), and slot i of
// the optimizer the columns [W (1 + i), W (2 + i)); of an optimizer whose slots have one value for
// a row, slot i is the column W + i. Columns behind these are not used.
//
//   BlockGather(block [R, S], places [n]; offset, width) -> [n, width]
//     the columns [offset, offset + width) of the rows `places`
//
//   BlockScatter(block [R, S], places [n], values [n, width]; offset) -> [R, S]
//     the block with these columns of these rows replaced
//
//   BlockApply(block [R, S], places [n], gradient [n, W], rule [k]; kind) -> [R, S]
//     the block after the optimizer `kind` has applied row i of the gradient to row places[i]
//
// Places are i64 or i32; one outside of [0, R) is an error. Gather takes a place any number of
// times, for the others the caller sees to it that no place comes twice. `rule` is the optimizer's
// Rule<float> (kernels/optimizers), byte for byte: what an update needs of the learning rate and of
// the parameters. `kind` is an optimizer that moves only the rows of its gradient. None of the ops
// has a gradient. Scatter and Apply write over a block that only their run owns, and copy any
// other.
//
// An update gives the bits that ps_server/optimizer_rows.h gives, on every instruction set, and on
// a GPU but for ftrl's powers other than the root: the build compiles this file without contraction
// to multiply-adds.
//
// The file is cut into checks, copies of columns, the loops that run a rule on rows, and schemas.
#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <tuple>
#include <type_traits>

#include "kernels/cpu/index_check.h"
#include "kernels/cpu/simd.h"
#include "kernels/op_util.h"
#include "kernels/optimizers/optimizer_list.h"
#include "kernels/register_list.h"
#include "runtime/tensor/limits.h"

namespace coxswain::kernels {
namespace {

// ---- checks

absl::StatusOr<int64_t> ReadColumn(const Attrs& attrs, const std::string& name) {
  ASSIGN_OR_RETURN(const int64_t column, graph::GetAttr<int64_t>(attrs, name));
  if (column >= 0 && column <= kMaxElements) return column;
  return absl::InvalidArgumentError(
      absl::StrCat("attribute '", name, "': wanted 0 to 2^40, found ", column));
}

struct ColumnRange {
  int64_t offset = 0, width = 0;
};

absl::StatusOr<ColumnRange> ReadColumnRange(const Attrs& attrs) {
  ColumnRange range;
  ASSIGN_OR_RETURN(range.offset, ReadColumn(attrs, "offset"));
  ASSIGN_OR_RETURN(range.width, ReadColumn(attrs, "width"));
  return range;
}

absl::StatusOr<int64_t> ReadOffset(const Attrs& attrs) { return ReadColumn(attrs, "offset"); }

// Unknown dimensions fit everywhere.
absl::Status WantColumns(const Shape& block, int64_t offset, int64_t width) {
  const int64_t columns = block.dim(1), taken = offset + std::max<int64_t>(width, 0);
  if (columns == kUnknownDim || taken <= columns) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("input 0: wanted at least ", taken, " columns, found ", block.ToString()));
}

template <typename Context>
absl::Status CheckBlockAndPlaces(const Context& c) {
  RETURN_IF_ERROR(WantRank(c, 0, 2));
  RETURN_IF_ERROR(WantDType(c, 0, {DType::kF32}));
  RETURN_IF_ERROR(WantRank(c, 1, 1));
  return WantDType(c, 1, {DType::kI32, DType::kI64});
}

// Of ops that take a row of input 2 for each place.
template <typename Context>
absl::Status CheckRowPerPlace(const Context& c) {
  RETURN_IF_ERROR(CheckBlockAndPlaces(c));
  RETURN_IF_ERROR(WantRank(c, 2, 2));
  RETURN_IF_ERROR(WantDType(c, 2, {DType::kF32}));
  return MergeDims(ShapeOfInput(c, 1).dim(0), ShapeOfInput(c, 2).dim(0), "places and rows")
      .status();
}

template <typename Context>
absl::Status CheckGather(const Context& c, const ColumnRange& range) {
  RETURN_IF_ERROR(CheckBlockAndPlaces(c));
  return WantColumns(ShapeOfInput(c, 0), range.offset, range.width);
}

template <typename Context>
absl::Status CheckScatter(const Context& c, int64_t offset) {
  RETURN_IF_ERROR(CheckRowPerPlace(c));
  return WantColumns(ShapeOfInput(c, 0), offset, ShapeOfInput(c, 2).dim(1));
}

absl::Status InferBlockGather(graph::InferenceContext* context) {
  ASSIGN_OR_RETURN(const ColumnRange range, ReadColumnRange(context->attrs()));
  RETURN_IF_ERROR(CheckGather(*context, range));
  context->AddOutput(DType::kF32, Shape{context->shape(1).dim(0), range.width});
  return absl::OkStatus();
}

absl::Status InferBlockScatter(graph::InferenceContext* context) {
  ASSIGN_OR_RETURN(const int64_t offset, ReadOffset(context->attrs()));
  RETURN_IF_ERROR(CheckScatter(*context, offset));
  return InferLikeInput(context);
}

// Places in 64 bits.
Tensor WidePlaces(const Tensor& places) {
  if (places.dtype() == DType::kI64) return places;
  Tensor wide(DType::kI64, places.shape());
  const absl::Span<const int32_t> narrow = places.values<int32_t>();
  std::copy(narrow.begin(), narrow.end(), wide.mutable_data<int64_t>());
  return wide;
}

// ---- copies of columns

// Rows of that many elements that are worth a thread of their own.
int64_t GrainOf(int64_t width) { return kElementGrain / (width + 1) + 1; }

// The block to change: its own memory where only this run owns it.
Tensor OwnedBlock(graph::KernelContext* context) {
  const Tensor& block = context->input(0);
  Tensor owned = context->ForwardOrAllocate(0, block.dtype(), block.shape());
  if (owned.raw() != block.raw() && block.bytes() > 0) {
    std::memcpy(owned.mutable_raw(), block.raw(), block.bytes());
  }
  return owned;
}

absl::Status BlockGatherCompute(const ColumnRange& range, graph::KernelContext* context) {
  RETURN_IF_ERROR(CheckGather(*context, range));
  const Tensor& block = context->input(0);
  const Tensor places = WidePlaces(context->input(1));
  RETURN_IF_ERROR(CheckIndices(places, block.dim(0), "rows"));
  const Shape shape{places.dim(0), range.width};
  RETURN_IF_ERROR(CheckedElements(shape).status());
  Tensor out(DType::kF32, shape);
  if (out.bytes() > 0) {
    const int64_t stride = block.dim(1), width = range.width;
    const float* from = block.data<float>() + range.offset;
    const int64_t* at = places.data<int64_t>();
    float* to = out.mutable_data<float>();
    context->pool()->ParallelFor(places.dim(0), GrainOf(width), [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const float* row = from + at[i] * stride;
        std::copy(row, row + width, to + i * width);
      }
    });
  }
  context->set_output(0, std::move(out));
  return absl::OkStatus();
}

absl::Status BlockScatterCompute(const int64_t& offset, graph::KernelContext* context) {
  RETURN_IF_ERROR(CheckScatter(*context, offset));
  const Tensor& values = context->input(2);
  const Tensor places = WidePlaces(context->input(1));
  RETURN_IF_ERROR(CheckIndices(places, context->input(0).dim(0), "rows"));
  Tensor out = OwnedBlock(context);
  if (values.bytes() > 0) {
    const int64_t stride = out.dim(1), width = values.dim(1);
    const float* from = values.data<float>();
    const int64_t* at = places.data<int64_t>();
    float* to = out.mutable_data<float>() + offset;
    context->pool()->ParallelFor(places.dim(0), GrainOf(width), [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const float* row = from + i * width;
        std::copy(row, row + width, to + at[i] * stride);
      }
    });
  }
  context->set_output(0, std::move(out));
  return absl::OkStatus();
}

// ---- rules on rows

struct GradientRows {
  float* block;
  const int64_t* places;
  const float* gradient;
  const float* rule;
  int64_t stride, width;
};

// What an optimizer is to BlockApply.
struct BlockRule {
  int64_t slots = 0;
  bool slot_per_row = false;
  int64_t rule_size = 0;  // in floats
  // Applies rows [begin, end) of the gradient.
  void (*apply)(const GradientRows& rows, int64_t begin, int64_t end) = nullptr;

  // The columns that it uses of a row with so many weights.
  int64_t ColumnsFor(int64_t width) const {
    return slot_per_row ? width + slots : width * (1 + slots);
  }
};

template <typename Rule>
Rule ReadRule(const float* given) {
  const auto read = [given]<typename Numbers>() {
    std::array<float, sizeof(Numbers) / sizeof(float)> numbers;
    std::copy(given, given + numbers.size(), numbers.begin());
    return std::bit_cast<Numbers>(numbers);
  };
  if constexpr (requires(const Rule& rule) { rule.square_root; }) {
    // The flag may be any byte, which no bool may be: the power says the same.
    const auto numbers = read.template operator()<typename Rule::Numbers>();
    return {numbers, numbers.minus_power == 0.5f};
  } else {
    return read.template operator()<Rule>();
  }
}

// The mean of (g + l2 w)^2. The order of summation is that of MeanSquare in
// ps_server/optimizer_rows.h and of kernels/cuda/row_block_ops.cu: the bits are to be the same.
COX_SIMD_INLINE float MeanSquareOfRow(const float* g, float l2, const float* w, int64_t width) {
  constexpr int64_t kLanes = 16;
  float sums[kLanes] = {};
  for (int64_t at = 0; at < width; at += kLanes) {
    const int64_t n = width - at < kLanes ? width - at : kLanes;
    COX_SIMD_LOOP
    for (int64_t e = 0; e < n; ++e) {
      const float v = g[at + e] + l2 * w[at + e];
      sums[e] += v * v;
    }
  }
  for (int64_t half = kLanes / 2; half > 0; half /= 2) {
    for (int64_t e = 0; e < half; ++e) sums[e] += sums[e + half];
  }
  return sums[0] / static_cast<float>(width);
}

template <typename Rule>
COX_SIMD_INLINE void UpdateRow(const Rule& rule, float* w, int64_t width, const float* g) {
  float *a = w + width, *b = a + width;
  if constexpr (requires(float* slot) { rule.OfRow(0.0f, *slot); }) {
    UpdateRow(rule.OfRow(MeanSquareOfRow(g, rule.l2, w, width), *a), w, width, g);
  } else if constexpr (std::is_invocable_v<const Rule&, float, float&>) {
    COX_SIMD_LOOP
    for (int64_t e = 0; e < width; ++e) rule(g[e], w[e]);
  } else if constexpr (std::is_invocable_v<const Rule&, float, float&, float&>) {
    COX_SIMD_LOOP
    for (int64_t e = 0; e < width; ++e) rule(g[e], w[e], a[e]);
  } else {
    COX_SIMD_LOOP
    for (int64_t e = 0; e < width; ++e) rule(g[e], w[e], a[e], b[e]);
  }
}

template <typename Rule>
COX_SIMD_INLINE void UpdateGivenRows(const Rule& rule, const GradientRows& rows, int64_t begin,
                                     int64_t end) {
  for (int64_t i = begin; i < end; ++i) {
    UpdateRow(rule, rows.block + rows.places[i] * rows.stride, rows.width,
              rows.gradient + i * rows.width);
  }
}

struct AnyRule {
  template <typename Rule>
  void operator()(const Rule&) const;
};

// A rule that stands for several is asked which, and there is a loop for each.
template <typename Rule>
void ApplyRule(const GradientRows& rows, int64_t begin, int64_t end) {
  const Rule given = ReadRule<Rule>(rows.rule);
  RunSimd([=]() COX_SIMD_BODY {
    const GradientRows local = rows;  // no store to a row can change it
    if constexpr (requires { given.Choose(AnyRule{}); }) {
      given.Choose([&](const auto& rule)
                       COX_SIMD_BODY { UpdateGivenRows(rule, local, begin, end); });
    } else {
      const Rule rule = given;
      UpdateGivenRows(rule, local, begin, end);
    }
  });
}

template <typename O>
absl::StatusOr<BlockRule> BlockRuleOf() {
  if constexpr (requires { requires O::kMovesAllRows; }) {
    return absl::InvalidArgumentError(
        absl::StrCat("attribute 'kind': wanted an optimizer that moves only the rows of its "
                     "gradient, found ",
                     O::kKind));
  } else {
    using Rule = typename O::template Rule<float>;
    static_assert(std::is_trivially_copyable_v<Rule> && sizeof(Rule) % sizeof(float) == 0);
    BlockRule made;
    made.slots = std::tuple_size_v<decltype(std::declval<const O&>().Slots())>;
    made.slot_per_row = requires(const Rule& rule, float* slot) { rule.OfRow(0.0f, *slot); };
    made.rule_size = sizeof(Rule) / sizeof(float);
    made.apply = ApplyRule<Rule>;
    return made;
  }
}

absl::StatusOr<BlockRule> ReadBlockRule(const Attrs& attrs) {
  ASSIGN_OR_RETURN(const std::string kind, graph::GetAttr<std::string>(attrs, "kind"));
  std::string known;
#define COX_FIND_RULE(O)                         \
  if (kind == O::kKind) return BlockRuleOf<O>(); \
  if (BlockRuleOf<O>().ok()) absl::StrAppend(&known, known.empty() ? "" : ", ", O::kKind);
  COX_OPTIMIZERS(COX_FIND_RULE)
#undef COX_FIND_RULE
  return absl::InvalidArgumentError(
      absl::StrCat("attribute 'kind': wanted one of ", known, ", found '", kind, "'"));
}

template <typename Context>
absl::Status CheckApply(const Context& c, const BlockRule& rule) {
  RETURN_IF_ERROR(CheckRowPerPlace(c));
  RETURN_IF_ERROR(WantRank(c, 3, 1));
  RETURN_IF_ERROR(WantDType(c, 3, {DType::kF32}));
  RETURN_IF_ERROR(
      MergeDims(rule.rule_size, ShapeOfInput(c, 3).dim(0), "numbers of the rule").status());
  const int64_t width = ShapeOfInput(c, 2).dim(1);
  return WantColumns(ShapeOfInput(c, 0), 0, width == kUnknownDim ? 0 : rule.ColumnsFor(width));
}

absl::Status InferBlockApply(graph::InferenceContext* context) {
  ASSIGN_OR_RETURN(const BlockRule rule, ReadBlockRule(context->attrs()));
  RETURN_IF_ERROR(CheckApply(*context, rule));
  return InferLikeInput(context);
}

absl::Status BlockApplyCompute(const BlockRule& rule, graph::KernelContext* context) {
  RETURN_IF_ERROR(CheckApply(*context, rule));
  const Tensor& gradient = context->input(2);
  const Tensor places = WidePlaces(context->input(1));
  RETURN_IF_ERROR(CheckIndices(places, context->input(0).dim(0), "rows"));
  Tensor out = OwnedBlock(context);
  if (gradient.bytes() > 0) {
    const GradientRows rows{out.mutable_data<float>(),
                            places.data<int64_t>(),
                            gradient.data<float>(),
                            context->input(3).data<float>(),
                            out.dim(1),
                            gradient.dim(1)};
    context->pool()->ParallelFor(places.dim(0), GrainOf(4 * rows.width),
                                 [&](int64_t begin, int64_t end) { rule.apply(rows, begin, end); });
  }
  context->set_output(0, std::move(out));
  return absl::OkStatus();
}

// ---- schemas

void AddBlockOp(graph::OpRegistry* registry, const char* name, int inputs,
                std::vector<std::string> attrs, absl::Status (*infer)(graph::InferenceContext*),
                graph::KernelFactory kernel) {
  registry->Register({.name = name,
                      .min_inputs = inputs,
                      .max_inputs = inputs,
                      .not_differentiable = true,
                      .infer = infer,
                      .attrs = std::move(attrs)});
  registry->RegisterKernel(name, std::move(kernel));
}

}  // namespace

void RegisterRowBlockOps(graph::OpRegistry* registry) {
  AddBlockOp(registry, "BlockGather", 2, {"offset", "width"}, InferBlockGather,
             AttrKernel<ColumnRange>(ReadColumnRange, BlockGatherCompute));
  AddBlockOp(registry, "BlockScatter", 3, {"offset"}, InferBlockScatter,
             AttrKernel<int64_t>(ReadOffset, BlockScatterCompute));
  AddBlockOp(registry, "BlockApply", 4, {"kind"}, InferBlockApply,
             AttrKernel<BlockRule>(ReadBlockRule, BlockApplyCompute));
}

}  // namespace coxswain::kernels
