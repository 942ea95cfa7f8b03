// Products of all pairs of an example's vectors, and their gradient; see kernels/pairwise_dots.cc.
#include "kernels/cuda/op_list.h"

namespace coxswain::cuda {
namespace {

constexpr int kMostVectors = 256;  // their pointers are arguments of the kernel

template <typename T>
struct Vectors {
  T* data[kMostVectors];
  int count;
};

template <typename T>
Vectors<T> VectorsOf(const CoxTensor* tensors, int count) {
  Vectors<T> vectors;
  vectors.count = count;
  for (int i = 0; i < count; ++i) vectors.data[i] = Data<T>(tensors[i]);
  return vectors;
}

// The strict lower triangle by rows: 10, 20, 21, 30, ...
COX_DEVICE int PairIndex(int i, int j) { return i > j ? i * (i - 1) / 2 + j : j * (j - 1) / 2 + i; }

// A block for each example. Its vectors go through shared memory, a few columns at a time; each
// thread adds up the products of its pairs.
template <typename T>
struct DotsOfExample {
  static constexpr int kMostPairs = 4;  // that a thread works at in one go over the vectors
  static constexpr int64_t kShared = 32768;

  Vectors<const T> x;
  int64_t width, columns;  // of a vector, and of the output
  bool with_first;
  int depth;  // columns in shared memory
  T* out;

  struct Sums {
    T of[kMostPairs];
    int row[kMostPairs], column[kMostPairs];
  };

  // One column more than there are, so that threads of different rows meet different banks.
  COX_DEVICE int Row() const { return depth + 1; }

  COX_DEVICE void Load(const Block& block, int64_t example, int64_t first, T* tile) const {
    block.Phase([&](int t) {
      for (int i = t; i < x.count * depth; i += kThreads) {
        const int vector = i / depth, d = i - vector * depth;
        tile[vector * Row() + d] =
            first + d < width ? x.data[vector][example * width + first + d] : T{0};
      }
    });
  }

  // The pairs from `begin` on, kThreads apart for each thread.
  COX_DEVICE void FindPairs(int begin, int pairs, int t, Sums* sums) const {
    COX_UNROLL
    for (int p = 0; p < kMostPairs; ++p) {
      const int pair = begin + p * kThreads + t;
      int row = static_cast<int>((1.0f + sqrtf(1.0f + 8.0f * static_cast<float>(pair))) / 2.0f);
      while (row * (row - 1) / 2 > pair) --row;  // the root may be off by one
      while (row * (row + 1) / 2 <= pair) ++row;
      sums->row[p] = pair < pairs ? row : 0;
      sums->column[p] = pair < pairs ? pair - row * (row - 1) / 2 : 0;
      sums->of[p] = 0;
    }
  }

  COX_DEVICE void operator()(const Block& block, int64_t example) const {
    T* const tile = block.shared<T>();
    const int pairs = x.count * (x.count - 1) / 2;
    T* const products = out + (example + 1) * columns - pairs;
    PerThread<Sums> sums;
    for (int begin = 0; begin < pairs; begin += kThreads * kMostPairs) {
      block.Apart([&](int t) { FindPairs(begin, pairs, t, &sums[t]); });
      for (int64_t first = 0; first < width; first += depth) {
        Load(block, example, first, tile);
        block.Phase([&](int t) {
          COX_UNROLL
          for (int p = 0; p < kMostPairs; ++p) {
            const T* a = tile + sums[t].row[p] * Row();
            const T* b = tile + sums[t].column[p] * Row();
            T sum = sums[t].of[p];
            for (int d = 0; d < depth; ++d) sum += a[d] * b[d];
            sums[t].of[p] = sum;
          }
        });
      }
      block.Apart([&](int t) {
        COX_UNROLL
        for (int p = 0; p < kMostPairs; ++p) {
          const int pair = begin + p * kThreads + t;
          if (pair < pairs) products[pair] = sums[t].of[p];
        }
      });
    }
    if (!with_first) return;
    block.Apart([&](int t) {
      for (int64_t d = t; d < width; d += kThreads) {
        out[example * columns + d] = x.data[0][example * width + d];
      }
    });
  }
};

// A thread for each number of the gradients: what it reads is read by its neighbours, too, and
// stays in the cache.
template <typename T>
struct DotsGradient {
  const T* g;
  Vectors<const T> x;
  Vectors<T> dx;
  int64_t width, columns;
  bool with_first;

  COX_DEVICE void operator()(int64_t element) const {
    const int64_t d = element % width;
    const int i = static_cast<int>(element / width % x.count);
    const int64_t example = element / width / x.count;
    const T* of_example = g + (example + 1) * columns - x.count * (x.count - 1) / 2;
    T sum = 0;
    COX_UNROLL_BY(4)
    for (int j = 0; j < x.count; ++j) {
      if (j != i) sum += of_example[PairIndex(i, j)] * x.data[j][example * width + d];
    }
    if (with_first && i == 0) sum += g[example * columns + d];
    dx.data[i][example * width + d] = sum;
  }
};

bool ReadWithFirst(const Node& node) { return node.Integer("with_first", 0) != 0; }

Status RunDots(bool with_first, const Run& run) {
  const CoxTensor &x = run.input(0), &out = run.output(0);
  if (Elements(out) == 0) return Status();
  return DispatchFloat(x.dtype, [&](auto zero) {
    using T = decltype(zero);
    const int count = run.num_inputs();
    const int64_t fits = DotsOfExample<T>::kShared / static_cast<int64_t>(count * sizeof(T)) - 1;
    const int64_t width = x.dims[1];
    const int depth =
        static_cast<int>(width < 32 ? (width < fits ? width : fits) : (fits < 32 ? fits : 32));
    const DotsOfExample<T> dots{VectorsOf<const T>(&x, count), width,       out.dims[1], with_first,
                                depth < 1 ? 1 : depth,         Data<T>(out)};
    const size_t shared = static_cast<size_t>(count * (dots.depth + 1)) * sizeof(T);
    return LaunchBlocks(run.queue(), x.dims[0], shared, dots);
  });
}

Status RunDotsGrad(bool with_first, const Run& run) {
  const CoxTensor &g = run.input(0), &x = run.input(1);
  return DispatchFloat(g.dtype, [&](auto zero) {
    using T = decltype(zero);
    const int count = run.num_outputs();
    const DotsGradient<T> gradient{Data<T>(g),
                                   VectorsOf<const T>(&x, count),
                                   VectorsOf<T>(&run.output(0), count),
                                   x.dims[1],
                                   g.dims[1],
                                   with_first};
    return ForElements(run.queue(), Elements(x) * count, gradient);
  });
}

MakeFunction Maker(Status (*run)(bool, const Run&), int other_inputs) {
  return [run, other_inputs](const Node& node, OpFunction* op) {
    COX_CUDA_RETURN_IF_ERROR(WantFirst(node, Floats()));
    if (node.num_inputs() - other_inputs > kMostVectors) {
      return NotFound("no kernel for products of more than 256 vectors");
    }
    *op = [run, with_first = ReadWithFirst(node)](const Run& r) { return run(with_first, r); };
    return Status();
  };
}

}  // namespace

void AddPairwiseDots(OpTable* table) {
  table->Add("PairwiseDots", Maker(RunDots, 0));
  table->Add("PairwiseDotsGrad", Maker(RunDotsGrad, 1));
}

}  // namespace coxswain::cuda
