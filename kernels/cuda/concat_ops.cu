// Concat, ConcatGrad and Split: joining and parting along one dimension. Any dtype.
#include "kernels/cuda/op_list.h"
#include "kernels/cuda/ranges.h"

namespace coxswain::cuda {
namespace {

constexpr int kMostParts = 32;  // of one launch; their pointers are arguments of the kernel

// Parts that lie side by side in the rows of a whole: part k in columns [begin[k], begin[k + 1]).
template <typename T>
struct Parts {
  T* data[kMostParts];
  int64_t begin[kMostParts + 1];
  int count = 0;

  int64_t columns() const { return begin[count] - begin[0]; }

  // Where element i of the columns that these parts cover is in its part.
  COX_DEVICE T* Find(int64_t row, int64_t column) const {
    const int part = FindRange(begin, count, column);
    return data[part] + row * (begin[part + 1] - begin[part]) + column - begin[part];
  }
};

template <typename T>
struct JoinParts {
  Parts<T> parts;
  T* whole;
  int64_t row_size;  // of the whole

  COX_DEVICE void operator()(int64_t i) const {
    const int64_t columns = parts.begin[parts.count] - parts.begin[0];
    const int64_t row = i / columns, column = parts.begin[0] + i - row * columns;
    whole[row * row_size + column] = *parts.Find(row, column);
  }
};

template <typename T>
struct TakeParts {
  Parts<T> parts;
  const T* whole;
  int64_t row_size;

  COX_DEVICE void operator()(int64_t i) const {
    const int64_t columns = parts.begin[parts.count] - parts.begin[0];
    const int64_t row = i / columns, column = parts.begin[0] + i - row * columns;
    *parts.Find(row, column) = whole[row * row_size + column];
  }
};

// Joins the tensors to `whole`, or parts it into them.
template <template <typename> typename Op, typename T>
Status Move(const Run& run, const CoxTensor* tensors, int count, int axis, const CoxTensor& whole) {
  const int64_t inner = DimsProduct(whole, axis + 1, whole.rank);
  const int64_t rows = DimsProduct(whole, 0, axis), row_size = whole.dims[axis] * inner;
  int64_t column = 0;
  for (int next = 0; next < count;) {
    Parts<T> parts;
    parts.begin[0] = column;
    while (next < count && parts.count < kMostParts) {
      const CoxTensor& tensor = tensors[next++];
      parts.data[parts.count++] = Data<T>(tensor);
      column += tensor.dims[axis] * inner;
      parts.begin[parts.count] = column;
    }
    COX_CUDA_RETURN_IF_ERROR(
        ForElements(run.queue(), rows * parts.columns(), Op<T>{parts, Data<T>(whole), row_size}));
  }
  return Status();
}

int64_t ReadAxis(const Node& node) { return node.Integer("axis", 0); }

Status RunConcat(const int64_t& axis, const Run& run) {
  const CoxTensor& out = run.output(0);
  return DispatchBytes(out.dtype, [&](auto zero) {
    return Move<JoinParts, decltype(zero)>(run, &run.input(0), run.num_inputs(),
                                           NormalizeAxis(axis, out.rank), out);
  });
}

// ConcatGrad and Split: the outputs say how large the parts are.
Status RunSplit(const int64_t& axis, const Run& run) {
  const CoxTensor& x = run.input(0);
  return DispatchBytes(x.dtype, [&](auto zero) {
    return Move<TakeParts, decltype(zero)>(run, &run.output(0), run.num_outputs(),
                                           NormalizeAxis(axis, x.rank), x);
  });
}

}  // namespace

void AddConcatOps(OpTable* table) {
  table->Add("Concat", AllTypes(), ReadAxis, RunConcat);
  table->Add("ConcatGrad", AllTypes(), ReadAxis, RunSplit);
  table->Add("Split", AllTypes(), ReadAxis, RunSplit);
}

}  // namespace coxswain::cuda
