// Slice: a block of a tensor; SliceGrad: zeros with the block in its place. Any dtype.
#include "kernels/cuda/op_list.h"
#include "kernels/cuda/walk.h"

namespace coxswain::cuda {
namespace {

using Begin = std::vector<int64_t>;

Begin ReadBegin(const Node& node) { return node.List("begin"); }

// The walk over the block's elements, `a` being the whole tensor.
Walk BlockWalk(const CoxTensor& block, const CoxTensor& whole) {
  const std::vector<int64_t> in_whole = Strides(whole), in_block = Strides(block);
  std::vector<WalkDim> dims;
  for (int i = 0; i < block.rank; ++i) dims.push_back({block.dims[i], in_whole[i], in_block[i]});
  return MakeWalk(dims);
}

int64_t FirstElement(const Begin& begin, const CoxTensor& whole) {
  const std::vector<int64_t> strides = Strides(whole);
  int64_t first = 0;
  for (int i = 0; i < whole.rank; ++i) first += begin[i] * strides[i];
  return first;
}

template <typename T>
struct TakeBlock {
  const T* first;
  Walk walk;
  COX_DEVICE T operator()(int64_t i) const { return first[walk.FindA(i)]; }
};

template <typename T>
struct PutBlock {
  const T* block;
  T* first;
  Walk walk;
  COX_DEVICE void operator()(int64_t i) const { first[walk.FindA(i)] = block[i]; }
};

Status RunSlice(const Begin& begin, const Run& run) {
  const CoxTensor &x = run.input(0), &out = run.output(0);
  if (Elements(out) == 0) return Status();
  return DispatchBytes(x.dtype, [&](auto zero) {
    using T = decltype(zero);
    const TakeBlock<T> take{Data<T>(x) + FirstElement(begin, x), BlockWalk(out, x)};
    if (take.first == Data<T>(out)) return Status();  // whole rows that share x's memory
    return FillElements(run.queue(), Data<T>(out), Elements(out), take);
  });
}

Status RunSliceGrad(const Begin& begin, const Run& run) {
  const CoxTensor &g = run.input(0), &out = run.output(0);
  if (SameShape(g, out)) return PassOn(run, g, out);
  COX_CUDA_RETURN_IF_ERROR(FillZero(run.stream(), out.data, Bytes(out)));
  if (Elements(g) == 0) return Status();
  return DispatchBytes(g.dtype, [&](auto zero) {
    using T = decltype(zero);
    const PutBlock<T> put{Data<T>(g), Data<T>(out) + FirstElement(begin, out), BlockWalk(g, out)};
    return ForElements(run.queue(), Elements(g), put);
  });
}

}  // namespace

void AddSliceOps(OpTable* table) {
  table->Add("Slice", AllTypes(), ReadBegin, RunSlice);
  table->Add("SliceGrad", AllTypes(), ReadBegin, RunSliceGrad);
}

}  // namespace coxswain::cuda
