// PairDot: products of pairs of rows, named by their places; and its gradient. f32, f64.
#include "kernels/cuda/op_list.h"
#include "kernels/cuda/segment_sum.h"

namespace coxswain::cuda {
namespace {

// A warp for each pair.
template <typename T, typename Id>
struct PairDots {
  static constexpr int64_t kPairs = kThreads / kWarp;  // of an item
  const T *a, *b;
  Indices<Id> ia, ib;
  int64_t pairs, width;
  T* out;

  COX_DEVICE void operator()(const Block& block, int64_t item) const {
    PerThread<T> sums;
    block.Apart([&](int t) {
      T sum = 0;
      const int64_t pair = item * kPairs + t / kWarp, lane = t % kWarp;
      if (pair < pairs) {
        const int64_t u = ia.At(pair, lane == 0), w = ib.At(pair, lane == 0);
        if (u >= 0 && w >= 0) {
          for (int64_t j = lane; j < width; j += kWarp) sum += a[u * width + j] * b[w * width + j];
        }
      }
      sums[t] = sum;
    });
    block.Combine<kWarp>(&sums, Plus());
    block.Apart([&](int t) {
      const int64_t pair = item * kPairs + t / kWarp;
      if (t % kWarp == 0 && pair < pairs) out[pair] = sums[t];
    });
  }
};

template <typename F>
Status DispatchBoth(const Run& run, const F& f) {
  return DispatchFloat(run.input(0).dtype, [&](auto value) {
    return DispatchIndex(run.input(2).dtype, [&](auto index) { return f(value, index); });
  });
}

Status RunPairDot(const Run& run) {
  const CoxTensor &a = run.input(0), &b = run.input(1), &out = run.output(0);
  return DispatchBoth(run, [&](auto value, auto index) {
    using T = decltype(value);
    using Id = decltype(index);
    const PairDots<T, Id> dots{Data<T>(a),
                               Data<T>(b),
                               IndicesOf<Id>(run, 2, a.dims[0]),
                               IndicesOf<Id>(run, 3, b.dims[0]),
                               Elements(out),
                               a.dims[1],
                               Data<T>(out)};
    return LaunchBlocks(run.queue(), CeilDiv(dots.pairs, dots.kPairs), 0, dots);
  });
}

template <typename Id>
struct PairKeys {
  Indices<Id> ia, ib;
  uint32_t* keys;

  COX_DEVICE void operator()(int64_t pair) const {
    const int64_t u = ia.At(pair, true), w = ib.At(pair, true);
    keys[pair] = static_cast<uint32_t>(u < 0 || w < 0 ? ia.bound : u);
  }
};

// Read only for pairs whose places are rows.
template <typename T, typename Id>
struct PairGradient {
  const T *g, *b;
  const Id* ib;
  int64_t width;

  COX_DEVICE T operator()(int64_t pair, int64_t column) const {
    return g[pair] * b[static_cast<int64_t>(ib[pair]) * width + column];
  }
};

Status RunPairDotGrad(const Run& run) {
  const CoxTensor &g = run.input(0), &b = run.input(1), &out = run.output(0);
  const int64_t rows = out.dims[0], width = out.dims[1];
  return DispatchBoth(run, [&](auto value, auto index) {
    using T = decltype(value);
    using Id = decltype(index);
    const auto write_keys = [&](uint32_t* keys) {
      return ForElements(
          run.queue(), Elements(g),
          PairKeys<Id>{IndicesOf<Id>(run, 2, rows), IndicesOf<Id>(run, 3, b.dims[0]), keys});
    };
    const PairGradient<T, Id> source{Data<T>(g), Data<T>(b), Data<Id>(run.input(3)), width};
    SumParts<T, PairGradient<T, Id>> parts;
    parts.width = width;
    parts.Add(source, Data<T>(out), Elements(g), rows);
    return SegmentSums(run.stream(), parts, write_keys);
  });
}

}  // namespace

void AddPairDot(OpTable* table) {
  table->Add("PairDot", Floats(), RunPairDot);
  table->Add("PairDotGrad", Floats(), RunPairDotGrad);
}

}  // namespace coxswain::cuda
