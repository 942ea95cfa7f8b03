// A block of a tensor.
//
//   Slice(x; begin: [..], size: [..])
//     one entry per dimension; size -1: the rest
//     dx = SliceGrad(g, x)
//
//   SliceGrad(g, like; begin, size)
//     zeros of the shape of `like`, with g in the place of the block
//     dg = Slice(h; begin, size), h being the gradient that comes in
//
// A block of whole rows shares x's memory: no copy.
#include "kernels/cpu/strided_copy.h"
#include "kernels/op_util.h"
#include "kernels/register_list.h"
#include "kernels/validate.h"

namespace coxswain::kernels {
namespace {

struct SliceAttrs {
  std::vector<int64_t> begin, size;
};

absl::StatusOr<SliceAttrs> ReadSlice(const Attrs& attrs) {
  SliceAttrs a;
  ASSIGN_OR_RETURN(a.begin, graph::GetAttr<std::vector<int64_t>>(attrs, "begin"));
  ASSIGN_OR_RETURN(a.size, graph::GetAttr<std::vector<int64_t>>(attrs, "size"));
  if (a.begin.size() != a.size.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("attributes 'begin' and 'size': wanted as many, found ", a.begin.size(),
                     " and ", a.size.size()));
  }
  return a;
}

// The block's shape. Errors: InvalidArgument when it does not lie in x.
absl::StatusOr<Shape> Block(const SliceAttrs& a, const Shape& x) {
  if (static_cast<int>(a.begin.size()) != x.rank()) {
    return absl::InvalidArgumentError(absl::StrCat("attribute 'begin': wanted ", x.rank(),
                                                   " entries for ", x.ToString(), ", found ",
                                                   a.begin.size()));
  }
  Shape block = x;
  for (int i = 0; i < x.rank(); ++i) {
    const int64_t begin = a.begin[i], size = a.size[i], n = x.dim(i);
    const bool known = n != kUnknownDim;
    if (begin < 0 || size < -1 || (known && (begin > n || size > n - begin))) {
      return absl::InvalidArgumentError(absl::StrCat("dimension ", i, " of ", x.ToString(),
                                                     ": no block from ", begin, " of size ", size));
    }
    if (size >= 0) {
      block.set_dim(i, size);
    } else if (known) {
      block.set_dim(i, n - begin);
    }
  }
  return block;
}

absl::Status InferSlice(graph::InferenceContext* context) {
  ASSIGN_OR_RETURN(const SliceAttrs a, ReadSlice(context->attrs()));
  ASSIGN_OR_RETURN(Shape block, Block(a, context->shape(0)));
  context->AddOutput(context->dtype(0), std::move(block));
  return absl::OkStatus();
}

absl::Status InferSliceGrad(graph::InferenceContext* context) {
  ASSIGN_OR_RETURN(const SliceAttrs a, ReadSlice(context->attrs()));
  ASSIGN_OR_RETURN(const Shape block, Block(a, context->shape(1)));
  auto merged = MergeShapes(block, context->shape(0));
  if (!merged.ok()) return Annotate(merged.status(), "the block and input 0");
  context->AddOutput(context->dtype(0), context->shape(1));
  return absl::OkStatus();
}

Attrs SameBlock(graph::GradientContext* context) {
  return {{"begin", context->attrs().at("begin")}, {"size", context->attrs().at("size")}};
}

absl::Status SliceGradient(graph::GradientContext* context) {
  context->SetInputGradient(
      0, context->Op("SliceGrad", {context->output_gradient(0), context->input(0)},
                     SameBlock(context)));
  return absl::OkStatus();
}

absl::Status SliceGradGradient(graph::GradientContext* context) {
  context->SetInputGradient(
      0, context->Op("Slice", {context->output_gradient(0)}, SameBlock(context)));
  return absl::OkStatus();
}

// How a block lies in x: as `runs` runs of `pieces` pieces. A piece is contiguous in both. The
// pieces of a run lie `x_stride` bytes apart in x, and side by side in the block.
struct BlockWalk {
  BlockWalk(const Shape& x, const Shape& block, const SliceAttrs& a, size_t element) {
    int whole = x.rank();  // the first dimension from which on the block takes all of x
    while (whole > 0 && block.dim(whole - 1) == x.dim(whole - 1)) --whole;
    // Dimension `whole` - 1 is the last that is cut: a piece covers it and all further in.
    last = whole - 1;
    step = DimsProduct(x, whole, x.rank()) * static_cast<int64_t>(element);
    bytes = step * (last < 0 ? 1 : block.dim(last));
    x_stride = step * (last < 0 ? 1 : x.dim(last));
    first = last < 0 ? 0 : a.begin[last] * step;
    pieces = last <= 0 ? 1 : block.dim(last - 1);
    runs = last <= 1 ? 1 : DimsProduct(block, 0, last - 1);
  }

  // Where run `r` begins in x, in bytes.
  int64_t Offset(const Shape& x, const Shape& block, const SliceAttrs& a, int64_t r) const {
    int64_t offset = first, stride = x_stride;
    if (last >= 1) {
      offset += a.begin[last - 1] * stride;
      stride *= x.dim(last - 1);
    }
    for (int i = last - 2; i >= 0; --i) {
      offset += (a.begin[i] + r % block.dim(i)) * stride;
      r /= block.dim(i);
      stride *= x.dim(i);
    }
    return offset;
  }

  int last;          // the last dimension that is cut, -1 for none
  int64_t step;      // bytes of one step along it
  int64_t bytes;     // of one piece
  int64_t x_stride;  // between pieces, in x; in the block they lie side by side
  int64_t first;     // where the first piece begins in its row
  int64_t pieces, runs;
};

absl::Status SliceCompute(const SliceAttrs& a, graph::KernelContext* context) {
  const Tensor& x = context->input(0);
  ASSIGN_OR_RETURN(const Shape block, Block(a, x.shape()));
  const BlockWalk walk(x.shape(), block, a, SizeOf(x.dtype()));
  if (walk.last < 0) {
    context->set_output(0, x);
    return absl::OkStatus();
  }
  if (walk.last == 0) {
    context->set_output(0, x.SliceRows(a.begin[0], a.begin[0] + block.dim(0)));
    return absl::OkStatus();
  }
  Tensor out(x.dtype(), block);
  if (block.num_elements() > 0) {
    const char* from = static_cast<const char*>(x.raw());
    char* to = static_cast<char*>(out.mutable_raw());
    for (int64_t r = 0; r < walk.runs; ++r) {
      CopyPieces(from + walk.Offset(x.shape(), block, a, r), walk.x_stride,
                 to + r * walk.pieces * walk.bytes, walk.bytes, walk.pieces, walk.bytes,
                 context->pool());
    }
  }
  context->set_output(0, std::move(out));
  return absl::OkStatus();
}

absl::Status SliceGradCompute(const SliceAttrs& a, graph::KernelContext* context) {
  const Tensor& g = context->input(0);
  const Shape& like = context->input(1).shape();
  ASSIGN_OR_RETURN(const Shape block, Block(a, like));
  RETURN_IF_ERROR(WantInputShape(*context, 0, block));
  if (block == like) {
    context->set_output(0, g);
    return absl::OkStatus();
  }
  Tensor out = Tensor::Zeros(g.dtype(), like);
  if (block.num_elements() > 0) {
    const BlockWalk walk(like, block, a, SizeOf(g.dtype()));
    const char* from = static_cast<const char*>(g.raw());
    char* to = static_cast<char*>(out.mutable_raw());
    for (int64_t r = 0; r < walk.runs; ++r) {
      CopyPieces(from + r * walk.pieces * walk.bytes, walk.bytes,
                 to + walk.Offset(like, block, a, r), walk.x_stride, walk.pieces, walk.bytes,
                 context->pool());
    }
  }
  context->set_output(0, std::move(out));
  return absl::OkStatus();
}

}  // namespace

void RegisterSliceOps(graph::OpRegistry* registry) {
  registry->Register({.name = "Slice",
                      .min_inputs = 1,
                      .max_inputs = 1,
                      .infer = InferSlice,
                      .gradient = SliceGradient,
                      .attrs = {"begin", "size"}});
  registry->RegisterKernel("Slice", AttrKernel<SliceAttrs>(ReadSlice, SliceCompute));
  registry->Register({.name = "SliceGrad",
                      .min_inputs = 2,
                      .max_inputs = 2,
                      .infer = InferSliceGrad,
                      .gradient = SliceGradGradient,
                      .attrs = {"begin", "size"}});
  registry->RegisterKernel("SliceGrad", AttrKernel<SliceAttrs>(ReadSlice, SliceGradCompute));
}

}  // namespace coxswain::kernels
