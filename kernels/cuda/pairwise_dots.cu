// Products of all pairs of an example's vectors, and their gradient; see kernels/pairwise_dots.cc.
#include <type_traits>

#include "kernels/cuda/op_list.h"
#include "kernels/cuda/pack.h"

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

template <typename T>
bool AllSuitPacks(const Vectors<T>& vectors, int64_t width) {
  bool suit = true;
  for (int i = 0; i < vectors.count; ++i) {
    suit = suit && SuitsPacks<std::remove_const_t<T>>(vectors.data[i], width);
  }
  return suit;
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

// The vectors of some examples, which go through shared memory a few columns at a time.
template <typename T>
struct Tiles {
  using P = Pack<T>;
  static constexpr int kAhead = 4;  // reads that a thread has under way

  Vectors<const T> x;
  int64_t width, all_examples;
  bool packed;           // whether all packs of columns can be read at once
  int packs, log_packs;  // of a row of a tile: a power of two

  // At most `most` columns at a time.
  void Choose(int most) {
    packed = AllSuitPacks(x, width);
    for (packs = 1, log_packs = 0; packs * P::kSize < most && packs * P::kSize < width;) {
      packs *= 2;
      ++log_packs;
    }
  }
  COX_BOTH int depth() const { return packs * P::kSize; }

  // Columns [column, column + P::kSize) of a vector; zeros where there are none.
  COX_DEVICE P Read(int vector, int64_t example, int64_t column) const {
    P read = {};
    if (vector >= x.count || example >= all_examples || column >= width) return read;
    const T* const at = x.data[vector] + example * width + column;
    if (packed) return *reinterpret_cast<const P*>(at);
    COX_UNROLL
    for (int e = 0; e < P::kSize; ++e) {
      if (column + e < width) read.of[e] = at[e];
    }
    return read;
  }

  // Thread t's part of the columns [first, first + depth()) of `rows` vectors of each of `examples`
  // examples. Rows lie `stride` apart in `tile`, and examples `size`.
  COX_DEVICE void Load(int64_t first_example, int examples, int64_t first, int rows, int stride,
                       int size, int t, T* tile) const {
    const int column = (t & (packs - 1)) * P::kSize;
    for (int row = t >> log_packs; row < rows; row += kThreads >> log_packs) {
      for (int from = 0; from < examples; from += kAhead) {
        P read[kAhead];
        COX_UNROLL
        for (int k = 0; k < kAhead; ++k) {
          if (from + k < examples) read[k] = Read(row, first_example + from + k, first + column);
        }
        COX_UNROLL
        for (int k = 0; k < kAhead; ++k) {
          T* const to = tile + (from + k) * size + row * stride + column;
          if (from + k < examples) *reinterpret_cast<P*>(to) = read[k];
        }
      }
    }
  }
};

// Few vectors: a block for some examples, and in it a thread for each 4 x 4 pairs of an example,
// for which it reads 8 numbers of each column, not 32.
template <typename T>
struct DotsOfTiles {
  using P = Pack<T>;
  static constexpr int kSide = 4;
  static constexpr int kMostDepth = 32;
  static constexpr int64_t kShared = 40960;

  Tiles<T> in;
  int64_t columns;
  bool with_first;
  T* out;
  int sides = 0, tiles = 0, examples = 0;  // `tiles` of an example; `examples` of a block

  // Whether there are few enough; what follows from their number, if so.
  bool Suit() {
    in.Choose(kMostDepth);
    sides = static_cast<int>(CeilDiv(in.x.count, kSide));
    tiles = sides * (sides + 1) / 2;
    if (in.x.count < 2 || in.width < 1 || tiles > kThreads) return false;
    const int64_t fit = kShared / (example_size() * static_cast<int64_t>(sizeof(T)));
    examples = static_cast<int>(fit < kThreads / tiles ? fit : kThreads / tiles);
    return examples >= 1;
  }
  // Rows are longer than the columns they have, so that threads of different rows meet different
  // banks.
  COX_BOTH int stride() const { return in.depth() + P::kSize; }
  COX_BOTH int pairs() const { return in.x.count * (in.x.count - 1) / 2; }
  // Of an example, in numbers: first its tile, then its products.
  COX_BOTH int64_t example_size() const {
    const int64_t tile = int64_t{sides} * kSide * stride();
    const int64_t products = (pairs() + P::kSize - 1) / P::kSize * P::kSize;
    return tile > products ? tile : products;
  }

  struct Sums {
    T of[kSide][kSide];
    int row, column;
  };

  COX_DEVICE void operator()(const Block& block, int64_t item) const {
    T* const shared = block.shared<T>();
    const int size = static_cast<int>(example_size());
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
    for (int64_t first = 0; first < in.width; first += in.depth()) {
      block.Phase([&](int t) {
        in.Load(first_example, examples, first, sides * kSide, stride(), size, t, shared);
      });
      block.Phase([&](int t) {
        if (t < examples * tiles) AddUp(shared + t / tiles * size, &sums[t]);
      });
    }
    block.Phase([&](int t) {
      if (t < examples * tiles) Keep(shared + t / tiles * size, sums[t]);
    });
    // A warp for each example: what lies together is written together.
    block.Phase([&](int t) {
      for (int e = t / kWarp; e < examples; e += kThreads / kWarp) {
        const int64_t example = first_example + e;
        if (example < in.all_examples) Write(shared + e * size, example, t % kWarp);
      }
    });
  }

 private:
  COX_DEVICE void AddUp(const T* tile, Sums* sums) const {
    const T* const a = tile + sums->row * kSide * stride();
    const T* const b = tile + sums->column * kSide * stride();
    COX_UNROLL_BY(2)
    for (int pack = 0; pack < in.packs; ++pack) {
      P left[kSide];
      COX_UNROLL
      for (int r = 0; r < kSide; ++r) {
        left[r] = *reinterpret_cast<const P*>(a + r * stride() + pack * P::kSize);
      }
      COX_UNROLL
      for (int c = 0; c < kSide; ++c) {
        const P right = *reinterpret_cast<const P*>(b + c * stride() + pack * P::kSize);
        COX_UNROLL
        for (int r = 0; r < kSide; ++r) {
          COX_UNROLL
          for (int e = 0; e < P::kSize; ++e) sums->of[r][c] += left[r].of[e] * right.of[e];
        }
      }
    }
  }
  COX_DEVICE void Keep(T* products, const Sums& sums) const {
    COX_UNROLL
    for (int r = 0; r < kSide; ++r) {
      COX_UNROLL
      for (int c = 0; c < kSide; ++c) {
        const int i = sums.row * kSide + r, j = sums.column * kSide + c;
        if (i < in.x.count && j < i) products[PairIndex(i, j)] = sums.of[r][c];
      }
    }
  }
  COX_DEVICE void Write(const T* products, int64_t example, int lane) const {
    T* const to = out + (example + 1) * columns - pairs();
    COX_UNROLL_BY(4)
    for (int p = lane; p < pairs(); p += kWarp) to[p] = products[p];
    if (!with_first) return;
    COX_UNROLL_BY(2)
    for (int64_t d = lane; d < in.width; d += kWarp) {
      out[example * columns + d] = in.x.data[0][example * in.width + d];
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

// Few vectors: a block for some examples, whose vectors and gradients go through shared memory;
// each thread works at a pack of columns of some vectors' gradients.
template <typename T>
struct DotsGradientOfExamples {
  using P = Pack<T>;
  static constexpr int kRows = 8;  // of these vectors
  static constexpr int kMostDepth = 64;
  static constexpr int64_t kShared = 45056;
  struct alignas(16) Rows {
    T of[kRows];
  };
  struct Sums {
    P of[kRows];
  };

  const T* g;
  Tiles<T> in;
  Vectors<T> dx;
  int64_t columns;
  bool with_first;
  bool packed = false;           // whether packs of columns can be written at once
  int groups = 0, examples = 0;  // `groups` of kRows vectors; `examples` of a block

  // Whether there are few enough; what follows from their number, if so.
  bool Suit() {
    in.Choose(kMostDepth);
    packed = AllSuitPacks(dx, in.width);
    groups = static_cast<int>(CeilDiv(in.x.count, kRows));
    if (in.width < 1 || of_example() > kThreads) return false;
    const int64_t fit = kShared / (example_size() * static_cast<int64_t>(sizeof(T)));
    examples = static_cast<int>(fit < kThreads / of_example() ? fit : kThreads / of_example());
    return examples >= 1;
  }
  COX_BOTH int of_example() const { return groups * in.packs; }  // threads
  COX_BOTH int across() const { return groups * kRows; }
  // Of an example, in numbers: first weights[j, i], the gradient of the product of vectors i and j,
  // then its tile.
  COX_BOTH int64_t example_size() const { return int64_t{in.x.count} * (across() + in.depth()); }

  COX_DEVICE void operator()(const Block& block, int64_t item) const {
    T* const shared = block.shared<T>();
    const int size = static_cast<int>(example_size());
    T* const tiles = shared + in.x.count * across();
    const int64_t first_example = item * examples;
    block.Apart([&](int t) { LoadWeights(first_example, size, t, shared); });
    for (int64_t first = 0; first < in.width; first += in.depth()) {
      block.Phase([&](int t) {
        in.Load(first_example, examples, first, in.x.count, in.depth(), size, t, tiles);
      });
      block.Phase([&](int t) {
        const int e = t / of_example(), rest = t - e * of_example();
        const int group = rest >> in.log_packs;
        const int column = (rest & (in.packs - 1)) * P::kSize;
        const int64_t example = first_example + e;
        if (e >= examples || example >= in.all_examples || first + column >= in.width) return;
        Sums sums = {};
        const T* const weights = shared + e * size;
        AddUp(weights, tiles + e * size + column, group * kRows, &sums);
        Write(example, first + column, group * kRows, sums);
      });
    }
  }

 private:
  COX_DEVICE void LoadWeights(int64_t first_example, int size, int t, T* shared) const {
    const int pairs = in.x.count * (in.x.count - 1) / 2;
    for (int p = t; p < pairs; p += kThreads) {
      int i, j;
      FindInTriangle(p, &i, &j);
      ++i;  // the triangle is strict: row 0 has no pair
      for (int e = 0; e < examples && first_example + e < in.all_examples; ++e) {
        T* const weights = shared + e * size;
        const T weight = g[(first_example + e + 1) * columns - pairs + p];
        weights[j * across() + i] = weight;
        weights[i * across() + j] = weight;
      }
    }
  }
  // Vectors beyond the last have weights that nobody has written; their sums are not used.
  COX_DEVICE void AddUp(const T* weights, const T* tile, int from, Sums* sums) const {
    COX_UNROLL_BY(3)
    for (int j = 0; j < in.x.count; ++j) {
      const P value = *reinterpret_cast<const P*>(tile + j * in.depth());
      const Rows rows = *reinterpret_cast<const Rows*>(weights + j * across() + from);
      COX_UNROLL
      for (int r = 0; r < kRows; ++r) {
        // A vector has no product with itself: not even 0 times a number that is not finite.
        if (from + r == j) continue;
        COX_UNROLL
        for (int e = 0; e < P::kSize; ++e) sums->of[r].of[e] += rows.of[r] * value.of[e];
      }
    }
  }
  COX_DEVICE void Write(int64_t example, int64_t column, int from, Sums sums) const {
    if (with_first && from == 0) {
      COX_UNROLL
      for (int e = 0; e < P::kSize; ++e) {
        if (column + e < in.width) sums.of[0].of[e] += g[example * columns + column + e];
      }
    }
    COX_UNROLL
    for (int r = 0; r < kRows; ++r) {
      if (from + r >= in.x.count) break;
      T* const to = dx.data[from + r] + example * in.width + column;
      if (packed) {
        *reinterpret_cast<P*>(to) = sums.of[r];
        continue;
      }
      COX_UNROLL
      for (int e = 0; e < P::kSize; ++e) {
        if (column + e < in.width) to[e] = sums.of[r].of[e];
      }
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

template <typename T>
Tiles<T> TilesOf(const CoxTensor* x, int count) {
  return Tiles<T>{VectorsOf<const T>(x, count), x->dims[1], x->dims[0], false, 0, 0};
}

bool ReadWithFirst(const Node& node) { return node.Integer("with_first", 0) != 0; }

Status RunDots(bool with_first, const Run& run) {
  const CoxTensor &x = run.input(0), &out = run.output(0);
  if (Elements(out) == 0) return Status();
  return DispatchFloat(x.dtype, [&](auto zero) {
    using T = decltype(zero);
    const int count = run.num_inputs();
    DotsOfTiles<T> few{TilesOf<T>(&x, count), out.dims[1], with_first, Data<T>(out)};
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
    DotsGradientOfExamples<T> few{Data<T>(g), TilesOf<T>(&x, count),
                                  VectorsOf<T>(&run.output(0), count), g.dims[1], with_first};
    if (few.Suit()) {
      return LaunchBlocks(run.queue(), CeilDiv(x.dims[0], few.examples),
                          static_cast<size_t>(few.examples * few.example_size()) * sizeof(T), few);
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
