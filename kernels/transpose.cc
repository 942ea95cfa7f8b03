// Transpose(x; perm: [..]): dimension i of the result is dimension perm[i] of x. Any dtype.
// dx = Transpose(g) by the inverse permutation.
#include <algorithm>
#include <cstring>
#include <type_traits>

#include "kernels/op_util.h"
#include "kernels/register_list.h"

namespace coxswain::kernels {
namespace {

using Perm = std::vector<int64_t>;

absl::StatusOr<Perm> ReadPerm(const Attrs& attrs) {
  ASSIGN_OR_RETURN(Perm perm, graph::GetAttr<Perm>(attrs, "perm"));
  std::vector<bool> seen(perm.size(), false);
  for (int64_t p : perm) {
    if (p < 0 || p >= static_cast<int64_t>(perm.size()) || seen[p]) {
      return absl::InvalidArgumentError(
          absl::StrCat("attribute 'perm': wanted a permutation of 0 to ", perm.size() - 1,
                       ", found ", AttrValue(perm).ToString()));
    }
    seen[p] = true;
  }
  return perm;
}

absl::StatusOr<Shape> Permuted(const Shape& x, const Perm& perm) {
  if (x.rank() != static_cast<int>(perm.size())) {
    return absl::InvalidArgumentError(absl::StrCat("input 0: wanted rank ", perm.size(),
                                                   ", the length of 'perm', found ", x.ToString()));
  }
  Shape shape;
  for (int64_t p : perm) shape.Append(x.dim(static_cast<int>(p)));
  return shape;
}

absl::Status Infer(graph::InferenceContext* context) {
  ASSIGN_OR_RETURN(const Perm perm, ReadPerm(context->attrs()));
  ASSIGN_OR_RETURN(Shape shape, Permuted(context->shape(0), perm));
  context->AddOutput(context->dtype(0), std::move(shape));
  return absl::OkStatus();
}

absl::Status Gradient(graph::GradientContext* context) {
  ASSIGN_OR_RETURN(const Perm perm, ReadPerm(context->attrs()));
  Perm inverse(perm.size());
  for (size_t i = 0; i < perm.size(); ++i) inverse[perm[i]] = static_cast<int64_t>(i);
  context->SetInputGradient(
      0, context->Op("Transpose", {context->output_gradient(0)}, {{"perm", inverse}}));
  return absl::OkStatus();
}

// The result's dimensions and the strides (in elements) of both sides, outermost first.
struct Walk {
  absl::InlinedVector<int64_t, 4> dims, from, to;

  Walk(const Shape& x, const Perm& perm) {
    const int rank = x.rank();
    absl::InlinedVector<int64_t, 4> strides(rank, 1);
    for (int i = rank - 2; i >= 0; --i) strides[i] = strides[i + 1] * x.dim(i + 1);
    for (int64_t p : perm) {
      dims.push_back(x.dim(static_cast<int>(p)));
      from.push_back(strides[p]);
    }
    to.assign(rank, 1);
    for (int i = rank - 2; i >= 0; --i) to[i] = to[i + 1] * dims[i + 1];
  }

  // Takes a dimension out of the walk; returns its size and strides.
  struct Dim {
    int64_t n, from, to;
  };
  Dim Remove(int i) {
    const Dim d{dims[i], from[i], to[i]};
    dims.erase(dims.begin() + i);
    from.erase(from.begin() + i);
    to.erase(to.begin() + i);
    return d;
  }
  int64_t size() const {
    int64_t n = 1;
    for (int64_t d : dims) n *= d;
    return n;
  }
  // Offsets of step `index` of what is left.
  std::pair<int64_t, int64_t> Offsets(int64_t index) const {
    int64_t f = 0, t = 0;
    for (int i = static_cast<int>(dims.size()) - 1; i >= 0; --i) {
      f += index % dims[i] * from[i];
      t += index % dims[i] * to[i];
      index /= dims[i];
    }
    return {f, t};
  }
};

constexpr int64_t kTile = 16;

// Rows [i0, i1) of one plane. `a` is the dimension along which x is dense, `b` the one along which
// the result is. In tiles, so that both sides are read and written by whole cache lines.
template <typename T>
void TransposeTiles(const T* from, const Walk::Dim& a, const Walk::Dim& b, int64_t i0, int64_t i1,
                    T* to) {
  for (int64_t j0 = 0; j0 < b.n; j0 += kTile) {
    const int64_t j1 = std::min(b.n, j0 + kTile);
    for (int64_t i = i0; i < i1; ++i) {
      for (int64_t j = j0; j < j1; ++j) to[i * a.to + j] = from[i + j * b.from];
    }
  }
}

// Rows of `bytes`, one for each step of `steps`. Those of a few numbers are one load and one store.
template <typename T>
void CopyRows(const T* from, const Walk::Dim& steps, size_t bytes, T* to) {
  const auto copy = [&](auto size) {
    for (int64_t i = 0; i < steps.n; ++i) {
      std::memcpy(to + i * steps.to, from + i * steps.from, size);
    }
  };
  switch (bytes) {
    case 4:
      return copy(std::integral_constant<size_t, 4>());
    case 8:
      return copy(std::integral_constant<size_t, 8>());
    case 16:
      return copy(std::integral_constant<size_t, 16>());
    case 32:
      return copy(std::integral_constant<size_t, 32>());
    case 64:
      return copy(std::integral_constant<size_t, 64>());
    default:
      return copy(bytes);
  }
}

template <typename T>
void TransposeAll(const T* from, const Shape& x, const Perm& perm, T* to, env::ComputePool* pool) {
  const int rank = x.rank();
  Walk walk(x, perm);
  if (perm[rank - 1] == rank - 1) {  // whole rows move
    const Walk::Dim row = walk.Remove(rank - 1);
    const Walk::Dim rows = rank > 1 ? walk.Remove(rank - 2) : Walk::Dim{1, 0, 0};
    const size_t bytes = static_cast<size_t>(row.n) * sizeof(T);
    const int64_t grain = kElementGrain / std::max<int64_t>(1, row.n * rows.n) + 1;
    pool->ParallelFor(walk.size(), grain, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const auto [f, t] = walk.Offsets(i);
        CopyRows(from + f, rows, bytes, to + t);
      }
    });
    return;
  }
  const Walk::Dim b = walk.Remove(rank - 1);
  const int dense = static_cast<int>(std::find(perm.begin(), perm.end(), rank - 1) - perm.begin());
  const Walk::Dim a = walk.Remove(dense);
  const int64_t strips = (a.n + kTile - 1) / kTile;  // of one plane
  pool->ParallelFor(walk.size() * strips, kElementGrain / (kTile * b.n) + 1,
                    [&](int64_t begin, int64_t end) {
                      for (int64_t i = begin; i < end; ++i) {
                        const auto [f, t] = walk.Offsets(i / strips);
                        const int64_t i0 = i % strips * kTile;
                        TransposeTiles(from + f, a, b, i0, std::min(a.n, i0 + kTile), to + t);
                      }
                    });
}

absl::Status Compute(const Perm& perm, graph::KernelContext* context) {
  const Tensor& x = context->input(0);
  ASSIGN_OR_RETURN(const Shape shape, Permuted(x.shape(), perm));
  if (std::is_sorted(perm.begin(), perm.end())) {
    context->set_output(0, x);
    return absl::OkStatus();
  }
  Tensor out(x.dtype(), shape);
  if (x.num_elements() > 0) {
    RETURN_IF_ERROR(DispatchBytes(x.dtype(), [&](auto t) {
      using T = decltype(t);
      TransposeAll(static_cast<const T*>(x.raw()), x.shape(), perm,
                   static_cast<T*>(out.mutable_raw()), context->pool());
      return absl::OkStatus();
    }));
  }
  context->set_output(0, std::move(out));
  return absl::OkStatus();
}

}  // namespace

void RegisterTranspose(graph::OpRegistry* registry) {
  registry->Register({.name = "Transpose",
                      .min_inputs = 1,
                      .max_inputs = 1,
                      .infer = Infer,
                      .gradient = Gradient,
                      .attrs = {"perm"}});
  registry->RegisterKernel("Transpose", AttrKernel<Perm>(ReadPerm, Compute));
}

}  // namespace coxswain::kernels
