// Joining and splitting along one dimension.
//
//   Concat(x_0, ..., x_n-1; axis)        dx = ConcatGrad(g, x_0, ..., x_n-1)
//   ConcatGrad(g, x_0, ..., x_n-1; axis) -> n parts of g, of the sizes that the x have in the run;
//                                        dg = Concat of the parts' gradients
//   Split(x; axis, sizes: [..])          -> one part per size; dx = Concat of the parts' gradients
//
// A negative axis counts from the end. Parts along the first dimension share x's memory: no copy.
#include "kernels/cpu/strided_copy.h"
#include "kernels/op_util.h"
#include "kernels/register_list.h"
#include "kernels/validate.h"
#include "runtime/tensor/limits.h"

namespace coxswain::kernels {
namespace {

struct SplitAttrs {
  int64_t axis = 0;
  std::vector<int64_t> sizes;
};

absl::StatusOr<int64_t> ReadAxis(const Attrs& attrs) {
  return graph::GetAttr<int64_t>(attrs, "axis");
}

absl::StatusOr<SplitAttrs> ReadSplit(const Attrs& attrs) {
  SplitAttrs a;
  ASSIGN_OR_RETURN(a.axis, ReadAxis(attrs));
  ASSIGN_OR_RETURN(a.sizes, graph::GetAttr<std::vector<int64_t>>(attrs, "sizes"));
  if (a.sizes.empty()) return absl::InvalidArgumentError("attribute 'sizes': wanted one or more");
  int64_t total = 0;
  for (int64_t size : a.sizes) {
    if (size < 0 || size > kMaxElements || (total += size) > kMaxElements) {
      return absl::InvalidArgumentError(absl::StrCat(
          "attribute 'sizes': wanted 0 to 2^40 in all, found ", AttrValue(a.sizes).ToString()));
    }
  }
  return a;
}

// The shape of all parts, one after the other along `axis`. Their other dimensions must agree.
absl::StatusOr<Shape> Joined(const std::vector<Shape>& parts, int axis) {
  Shape joined = parts[0];
  if (axis >= joined.rank()) {
    return absl::InvalidArgumentError(
        absl::StrCat("part 0: wanted a dimension ", axis, ", found ", joined.ToString()));
  }
  int64_t size = 0;
  for (size_t i = 0; i < parts.size(); ++i) {
    Shape part = parts[i];
    if (part.rank() == joined.rank()) {
      const int64_t own = part.dim(axis);
      if (own == kUnknownDim || size == kUnknownDim) {
        size = kUnknownDim;
      } else if (__builtin_add_overflow(size, own, &size)) {
        return absl::InvalidArgumentError(
            absl::StrCat("the parts are too large together in dimension ", axis));
      }
      part.set_dim(axis, joined.dim(axis));
    }
    auto merged = MergeShapes(joined, part);
    if (!merged.ok()) {
      return absl::InvalidArgumentError(
          absl::StrCat("parts 0 and ", i, ": wanted the same shape but for dimension ", axis,
                       ", found ", parts[0].ToString(), " and ", parts[i].ToString()));
    }
    joined = *std::move(merged);
  }
  joined.set_dim(axis, size);
  return joined;
}

absl::Status InferConcat(graph::InferenceContext* context) {
  ASSIGN_OR_RETURN(const int64_t given, ReadAxis(context->attrs()));
  ASSIGN_OR_RETURN(const int axis, NormalizeAxis(given, context->shape(0).rank()));
  std::vector<Shape> parts;
  for (int i = 0; i < context->num_inputs(); ++i) {
    RETURN_IF_ERROR(context->WantSameDType(0, i));
    parts.push_back(context->shape(i));
  }
  ASSIGN_OR_RETURN(Shape shape, Joined(parts, axis));
  context->AddOutput(context->dtype(0), std::move(shape));
  return absl::OkStatus();
}

absl::Status InferConcatGrad(graph::InferenceContext* context) {
  ASSIGN_OR_RETURN(const int64_t given, ReadAxis(context->attrs()));
  ASSIGN_OR_RETURN(const int axis, NormalizeAxis(given, context->shape(0).rank()));
  std::vector<Shape> parts;
  for (int i = 1; i < context->num_inputs(); ++i) {
    parts.push_back(context->shape(i));
    context->AddOutput(context->dtype(0), context->shape(i));
  }
  ASSIGN_OR_RETURN(const Shape joined, Joined(parts, axis));
  auto merged = MergeShapes(joined, context->shape(0));
  if (!merged.ok()) return Annotate(merged.status(), "the joined parts and input 0");
  return absl::OkStatus();
}

absl::Status InferSplit(graph::InferenceContext* context) {
  ASSIGN_OR_RETURN(const SplitAttrs a, ReadSplit(context->attrs()));
  Shape shape = context->shape(0);
  ASSIGN_OR_RETURN(const int axis, NormalizeAxis(a.axis, shape.rank()));
  int64_t total = 0;
  for (int64_t size : a.sizes) total += size;
  if (shape.dim(axis) != kUnknownDim && shape.dim(axis) != total) {
    return context->Error(absl::StrCat("attribute 'sizes': wanted a sum of ", shape.dim(axis),
                                       ", the size of dimension ", axis, ", found ", total));
  }
  for (int64_t size : a.sizes) {
    shape.set_dim(axis, size);
    context->AddOutput(context->dtype(0), shape);
  }
  return absl::OkStatus();
}

// The gradient of part i, or zeros when nothing flows back through it.
Output PartGradient(graph::GradientContext* context, int i) {
  const Output g = context->output_gradient(i);
  return g.valid() ? g : context->Op("ZerosLike", {context->output(i)});
}

absl::Status ConcatGradient(graph::GradientContext* context) {
  ASSIGN_OR_RETURN(const int64_t axis, ReadAxis(context->attrs()));
  std::vector<Output> inputs = {context->output_gradient(0)};
  for (int i = 0; i < context->num_inputs(); ++i) inputs.push_back(context->input(i));
  for (int i = 0; i < context->num_inputs(); ++i) {
    context->SetInputGradient(i, context->Op("ConcatGrad", inputs, {{"axis", axis}}, i));
  }
  return absl::OkStatus();
}

absl::Status ConcatGradGradient(graph::GradientContext* context) {
  ASSIGN_OR_RETURN(const int64_t axis, ReadAxis(context->attrs()));
  std::vector<Output> parts;
  for (int i = 0; i + 1 < context->num_inputs(); ++i) parts.push_back(PartGradient(context, i));
  context->SetInputGradient(0, context->Op("Concat", std::move(parts), {{"axis", axis}}));
  return absl::OkStatus();
}

absl::Status SplitGradient(graph::GradientContext* context) {
  ASSIGN_OR_RETURN(const SplitAttrs a, ReadSplit(context->attrs()));
  std::vector<Output> parts;
  for (size_t i = 0; i < a.sizes.size(); ++i) {
    parts.push_back(PartGradient(context, static_cast<int>(i)));
  }
  context->SetInputGradient(0, context->Op("Concat", std::move(parts), {{"axis", a.axis}}));
  return absl::OkStatus();
}

// Bytes of one step along `axis`: of all dimensions further in.
int64_t InnerBytes(const Tensor& x, int axis) {
  return DimsProduct(x.shape(), axis + 1, x.rank()) * static_cast<int64_t>(SizeOf(x.dtype()));
}

absl::Status ConcatCompute(const int64_t& given, graph::KernelContext* context) {
  const Tensor& first = context->input(0);
  ASSIGN_OR_RETURN(const int axis, NormalizeAxis(given, first.rank()));
  std::vector<Shape> parts;
  for (int i = 0; i < context->num_inputs(); ++i) {
    RETURN_IF_ERROR(WantSameDType(*context, 0, i));
    parts.push_back(context->input(i).shape());
  }
  ASSIGN_OR_RETURN(const Shape shape, Joined(parts, axis));
  Tensor out(first.dtype(), shape);
  const int64_t inner = InnerBytes(out, axis), outer = DimsProduct(shape, 0, axis);
  const int64_t stride = shape.dim(axis) * inner;
  char* at = static_cast<char*>(out.mutable_raw());
  for (int i = 0; i < context->num_inputs(); ++i) {
    const int64_t bytes = parts[i].dim(axis) * inner;
    CopyPieces(context->input(i).raw(), bytes, at, stride, outer, bytes, context->pool());
    at += bytes;
  }
  context->set_output(0, std::move(out));
  return absl::OkStatus();
}

// Steps [begin, begin + size) of x along `axis`.
Tensor Part(const Tensor& x, int axis, int64_t begin, int64_t size, env::ComputePool* pool) {
  if (axis == 0) return x.SliceRows(begin, begin + size);
  Shape shape = x.shape();
  shape.set_dim(axis, size);
  Tensor part(x.dtype(), shape);
  const int64_t inner = InnerBytes(x, axis);
  CopyPieces(static_cast<const char*>(x.raw()) + begin * inner, x.dim(axis) * inner,
             part.mutable_raw(), size * inner, DimsProduct(shape, 0, axis), size * inner, pool);
  return part;
}

absl::Status PartAll(graph::KernelContext* context, int axis, const std::vector<int64_t>& sizes) {
  const Tensor& x = context->input(0);
  int64_t begin = 0;
  for (int64_t size : sizes) begin += size;
  if (begin != x.dim(axis)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "wanted parts of ", x.dim(axis), " in dimension ", axis, " together, found ", begin));
  }
  begin = 0;
  for (size_t i = 0; i < sizes.size(); ++i) {
    context->set_output(static_cast<int>(i), Part(x, axis, begin, sizes[i], context->pool()));
    begin += sizes[i];
  }
  return absl::OkStatus();
}

absl::Status ConcatGradCompute(const int64_t& given, graph::KernelContext* context) {
  const Tensor& g = context->input(0);
  ASSIGN_OR_RETURN(const int axis, NormalizeAxis(given, g.rank()));
  std::vector<Shape> parts;
  for (int i = 1; i < context->num_inputs(); ++i) parts.push_back(context->input(i).shape());
  ASSIGN_OR_RETURN(const Shape joined, Joined(parts, axis));
  RETURN_IF_ERROR(WantInputShape(*context, 0, joined));
  std::vector<int64_t> sizes;
  for (const Shape& part : parts) sizes.push_back(part.dim(axis));
  return PartAll(context, axis, sizes);
}

absl::Status SplitCompute(const SplitAttrs& a, graph::KernelContext* context) {
  ASSIGN_OR_RETURN(const int axis, NormalizeAxis(a.axis, context->input(0).rank()));
  return PartAll(context, axis, a.sizes);
}

}  // namespace

void RegisterConcatOps(graph::OpRegistry* registry) {
  registry->Register({.name = "Concat",
                      .min_inputs = 1,
                      .max_inputs = -1,
                      .infer = InferConcat,
                      .gradient = ConcatGradient,
                      .attrs = {"axis"}});
  registry->RegisterKernel("Concat", AttrKernel<int64_t>(ReadAxis, ConcatCompute));
  registry->Register({.name = "ConcatGrad",
                      .min_inputs = 2,
                      .max_inputs = -1,
                      .infer = InferConcatGrad,
                      .gradient = ConcatGradGradient,
                      .attrs = {"axis"}});
  registry->RegisterKernel("ConcatGrad", AttrKernel<int64_t>(ReadAxis, ConcatGradCompute));
  registry->Register({.name = "Split",
                      .min_inputs = 1,
                      .max_inputs = 1,
                      .infer = InferSplit,
                      .gradient = SplitGradient,
                      .attrs = {"axis", "sizes"}});
  registry->RegisterKernel("Split", AttrKernel<SplitAttrs>(ReadSplit, SplitCompute));
}

}  // namespace coxswain::kernels
