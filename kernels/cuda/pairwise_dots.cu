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

// The row of the lower triangle that has its element `index`, and the column. Rows begin with one
// element.
COX_DEVICE void FindInTriangle(int index, int* row, int* column) {
  int r = static_cast<int>((sqrtf(1.0f + 8.0f * static_cast<float>(index)) - 1.0f) / 2.0f);
  while (r * (r + 1) / 2 > index) --r;  // the root may be off by one
  while ((r + 1) * (r + 2) / 2 <= index) ++r;
  *row = r;
  *column = index - r * (r + 1) / 2;
}

// Copies `depth` columns of an example's vectors, from `first` on, to a tile whose rows lie
// `stride` apart; zeros where there are none, up to `rows` rows. Thread t's part of it.
template <typename T>
COX_DEVICE void LoadTile(const Vectors<const T>& x, int64_t width, int64_t example, int64_t first,
                         int depth, int rows, int stride, int t, T* tile) {
  for (int i = t; i < rows * depth; i += kThreads) {
    const int vector = i / depth, d = i - vector * depth;
    tile[vector * stride + d] =
        vector < x.count && first + d < width ? x.data[vector][example * width + first + d] : T{0};
  }
}

// Few vectors: a block for some examples, and in it a thread for each 3 x 3 pairs of an example,
// for which it reads 6 numbers of each column, not 18.
template <typename T>
struct DotsOfTiles {
  static constexpr int kSide = 3;
  static constexpr int kMostDepth = 32;
  static constexpr int64_t kShared = 32768;

  Vectors<const T> x;
  int64_t width, columns, all_examples;
  bool with_first;
  int depth, sides, tiles, examples;  // `tiles` of an example; `examples` of a block
  T* out;

  // Whether there are few enough; what follows from their number, if so.
  bool Suit() {
    sides = static_cast<int>(CeilDiv(x.count, kSide));
    tiles = sides * (sides + 1) / 2;
    depth = static_cast<int>(width < kMostDepth ? width : kMostDepth);
    if (x.count < 2 || depth < 1 || tiles > kThreads) return false;
    const int64_t fit = kShared / (example_size() * static_cast<int64_t>(sizeof(T)));
    examples = static_cast<int>(fit < kThreads / tiles ? fit : kThreads / tiles);
    return examples >= 1;
  }
  // Of an example's tile, in numbers. One column more than there are, so that threads of different
  // rows meet different banks.
  COX_DEVICE int stride() const { return depth + 1; }
  int64_t example_size() const { return int64_t{sides} * kSide * (depth + 1); }

  struct Sums {
    T of[kSide][kSide];
    int row, column;
  };

  COX_DEVICE void operator()(const Block& block, int64_t item) const {
    T* const shared = block.shared<T>();
    const int rows = sides * kSide, size = rows * stride();
    const int64_t first_example = item * examples;
    PerThread<Sums> sums;
    block.Apart([&](int t) {
      COX_UNROLL
      for (int r = 0; r < kSide; ++r) {
        COX_UNROLL
        for (int c = 0; c < kSide; ++c) sums[t].of[r][c] = 0;
      }
      FindInTriangle(t % tiles, &sums[t].row, &sums[t].column);
    });
    for (int64_t first = 0; first < width; first += depth) {
      block.Phase([&](int t) {
        for (int e = 0; e < examples && first_example + e < all_examples; ++e) {
          LoadTile(x, width, first_example + e, first, depth, rows, stride(), t, shared + e * size);
        }
      });
      block.Phase([&](int t) {
        const int e = t / tiles;
        if (e >= examples || first_example + e >= all_examples) return;
        const T* a = shared + e * size + sums[t].row * kSide * stride();
        const T* b = shared + e * size + sums[t].column * kSide * stride();
        COX_UNROLL_BY(4)
        for (int d = 0; d < depth; ++d) {
          COX_UNROLL
          for (int r = 0; r < kSide; ++r) {
            COX_UNROLL
            for (int c = 0; c < kSide; ++c) {
              sums[t].of[r][c] += a[r * stride() + d] * b[c * stride() + d];
            }
          }
        }
      });
    }
    block.Apart([&](int t) {
      const int64_t example = first_example + t / tiles;
      if (t / tiles < examples && example < all_examples) Write(example, sums[t]);
    });
    if (!with_first) return;
    block.Apart([&](int t) {
      for (int64_t i = t; i < examples * width; i += kThreads) {
        const int64_t example = first_example + i / width, d = i % width;
        if (example < all_examples) out[example * columns + d] = x.data[0][example * width + d];
      }
    });
  }

 private:
  COX_DEVICE void Write(int64_t example, const Sums& sums) const {
    T* const products = out + (example + 1) * columns - x.count * (x.count - 1) / 2;
    COX_UNROLL
    for (int r = 0; r < kSide; ++r) {
      COX_UNROLL
      for (int c = 0; c < kSide; ++c) {
        const int i = sums.row * kSide + r, j = sums.column * kSide + c;
        if (i < x.count && j < i) products[PairIndex(i, j)] = sums.of[r][c];
      }
    }
  }
};

// More vectors: a block for each example. Its vectors go through shared memory, a few columns at a
// time; each thread adds up the products of its pairs.
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
    block.Phase([&](int t) { LoadTile(x, width, example, first, depth, x.count, Row(), t, tile); });
  }

  // The pairs from `begin` on, kThreads apart for each thread.
  COX_DEVICE void FindPairs(int begin, int pairs, int t, Sums* sums) const {
    COX_UNROLL
    for (int p = 0; p < kMostPairs; ++p) {
      const int pair = begin + p * kThreads + t;
      int row = 0, column = 0;
      if (pair < pairs) FindInTriangle(pair, &row, &column);
      sums->row[p] = pair < pairs ? row + 1 : 0;  // the triangle is strict: row 0 has no pair
      sums->column[p] = column;
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

// Few vectors: a block for each example, whose vectors and gradients go through shared memory; each
// thread works at the same column of some vectors' gradients.
template <typename T>
struct DotsGradientOfExample {
  static constexpr int kRows = 8;  // of these vectors
  static constexpr int kMostDepth = 64;
  static constexpr int64_t kShared = 32768;
  struct alignas(16) Rows {
    T of[kRows];
  };

  const T* g;
  Vectors<const T> x;
  Vectors<T> dx;
  int64_t width, columns;
  bool with_first;
  int depth, groups;  // of kRows vectors

  // Whether there are few enough; what follows from their number, if so.
  bool Suit() {
    groups = static_cast<int>(CeilDiv(x.count, kRows));
    depth = static_cast<int>(width < kMostDepth ? width : kMostDepth);
    return depth >= 1 && shared_bytes() <= kShared;
  }
  int64_t shared_bytes() const {
    return (int64_t{x.count} * groups * kRows + int64_t{x.count} * depth) *
           static_cast<int64_t>(sizeof(T));
  }

  COX_DEVICE void operator()(const Block& block, int64_t example) const {
    // weights[j, i]: the gradient of the product of vectors i and j.
    T* const weights = block.shared<T>();
    const int across = groups * kRows;
    T* const tile = weights + x.count * across;
    const T* const of_example = g + (example + 1) * columns - x.count * (x.count - 1) / 2;
    block.Phase([&](int t) {
      for (int k = t; k < x.count * across; k += kThreads) {
        const int j = k / across, i = k - j * across;
        weights[k] = i < x.count && i != j ? of_example[PairIndex(i, j)] : T{0};
      }
    });
    for (int64_t first = 0; first < width; first += depth) {
      block.Phase(
          [&](int t) { LoadTile(x, width, example, first, depth, x.count, depth, t, tile); });
      block.Phase([&](int t) {
        for (int k = t; k < groups * depth; k += kThreads) {
          const int group = k / depth, d = k - group * depth;
          if (first + d < width) AddUp(example, first + d, group * kRows, weights, tile + d);
        }
      });
    }
  }

 private:
  COX_DEVICE void AddUp(int64_t example, int64_t column, int from, const T* weights,
                        const T* tile) const {
    T sums[kRows] = {};
    for (int j = 0; j < x.count; ++j) {
      const T value = tile[j * depth];
      const Rows rows = *reinterpret_cast<const Rows*>(weights + j * groups * kRows + from);
      // A vector has no product with itself: not even 0 times a number that is not finite.
      COX_UNROLL
      for (int r = 0; r < kRows; ++r) sums[r] += from + r == j ? T{0} : rows.of[r] * value;
    }
    COX_UNROLL
    for (int r = 0; r < kRows; ++r) {
      if (from + r >= x.count) continue;
      if (with_first && from + r == 0) sums[r] += g[example * columns + column];
      dx.data[from + r][example * width + column] = sums[r];
    }
  }
};

// More vectors: a thread for each number of the gradients. What it reads is read by its neighbours,
// too, and stays in the cache.
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
    DotsOfTiles<T> few{VectorsOf<const T>(&x, count),
                       x.dims[1],
                       out.dims[1],
                       x.dims[0],
                       with_first,
                       0,
                       0,
                       0,
                       0,
                       Data<T>(out)};
    if (few.Suit()) {
      return LaunchBlocks(run.queue(), CeilDiv(x.dims[0], few.examples),
                          static_cast<size_t>(few.examples * few.example_size()) * sizeof(T), few);
    }
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
    DotsGradientOfExample<T> few{Data<T>(g),
                                 VectorsOf<const T>(&x, count),
                                 VectorsOf<T>(&run.output(0), count),
                                 x.dims[1],
                                 g.dims[1],
                                 with_first,
                                 0,
                                 0};
    if (few.Suit()) {
      return LaunchBlocks(run.queue(), x.dims[0], static_cast<size_t>(few.shared_bytes()), few);
    }
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
