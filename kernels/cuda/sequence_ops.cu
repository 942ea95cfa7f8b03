// Attention within sequences, what is behind a value, and the last row of each sequence; the
// formulas are in kernels/sequence_ops.cc.
//
// Attention: a block makes what belongs to eight rows of a head, a row for each of its warps. It
// goes over the rows that these have to do with, 32 at a time, a row for each lane: so a warp has
// the scores of its row. Sums grow in the order of the rows, in the output itself, whose numbers
// belong to one thread each. That needs no memory for the scores, of which there are as many as the
// square of a sequence's length.
#include "kernels/cuda/op_list.h"
#include "kernels/cuda/segments.h"

namespace coxswain::cuda {
namespace {

// Reports an offset with which the sequences are not all of the rows.
struct CheckOffset {
  Segments sequences;

  COX_DEVICE void operator()(int64_t i) const {
    const int64_t offset = sequences.offsets[i], before = i == 0 ? 0 : sequences.offsets[i - 1];
    const int64_t bound = i == 0 ? 1 : sequences.rows + 1;
    const bool ends = i < sequences.count || offset == sequences.rows;
    if (offset >= before && offset < bound && ends) return;
    sequences.faults.Index(sequences.input, i, offset, bound);
  }
};

Status CheckSequences(const Run& run, const Segments& sequences) {
  return ForElements(run.queue(), sequences.count + 1, CheckOffset{sequences});
}

constexpr int64_t kOwn = kThreads / kWarp;  // rows that a block makes something of
constexpr int64_t kOthers = kWarp;          // rows that they meet at a time

// Rows `own` .. own + 7 of a head, and `other` .. other + 31: thread t has one of each.
struct Tile {
  int64_t head, own, other;

  COX_DEVICE int64_t OwnOf(int t) const { return own + t / kWarp; }
  COX_DEVICE int64_t OtherOf(int t) const { return other + t % kWarp; }
};

// What the kernels of attention have in common: the tiles of the heads of all sequences.
template <typename T>
struct Heads {
  Segments sequences;
  int64_t count, width;  // of heads, and the columns of one

  static constexpr int kDepth = 32;        // columns that are in shared memory at a time
  static constexpr int kRow = kDepth + 1;  // so that threads of different rows meet different banks
  static constexpr int64_t kProducts = (kOwn + kOthers) * kRow;
  static constexpr size_t kShared = (kProducts + 2 * kThreads) * sizeof(T);

  int64_t items() const { return CeilDiv(sequences.rows, kOwn) * count; }

  COX_DEVICE Tile FirstTile(int64_t item) const {
    return Tile{item % count, item / count * kOwn, 0};
  }
  // Behind the tile's own rows.
  COX_DEVICE int64_t EndOf(const Tile& tile) const {
    return tile.own + kOwn < sequences.rows ? tile.own + kOwn : sequences.rows;
  }
  // The place of what a head has one of for each row; times `width`: of its columns.
  COX_DEVICE int64_t At(int64_t row, int64_t head) const { return row * count + head; }
  COX_DEVICE T Scale() const { return T{1} / Sqrt(static_cast<T>(width)); }

  // For each thread the rows that its own one attends to; if `keys`, those that attend to it.
  COX_DEVICE void FindOthers(const Block& block, const Tile& tile, bool keys,
                             PerThread<RowRange>* others) const {
    block.Apart([&](int t) {
      const int64_t row = tile.OwnOf(t);
      RowRange range = sequences.Find(row);
      if (range.Has(row)) {
        if (keys) {
          range.first = row;
        } else {
          range.last = row + 1;
        }
      }
      (*others)[t] = range;
    });
  }

  COX_DEVICE T Element(const T* x, int64_t row, int64_t head, int64_t column) const {
    return row < sequences.rows && column < width ? x[At(row, head) * width + column] : T{0};
  }

  // The product of row x of a thread's own and row y of its other one.
  COX_DEVICE void Dots(const Block& block, const Tile& tile, const T* x, const T* y,
                       PerThread<T>* dots) const {
    T* const own = block.shared<T>();
    T* const others = own + kOwn * kRow;
    block.Apart([&](int t) { (*dots)[t] = T{0}; });
    for (int64_t first = 0; first < width; first += kDepth) {
      block.Phase([&](int t) {
        const int row = t / kDepth, column = t % kDepth;
        own[row * kRow + column] = Element(x, tile.own + row, tile.head, first + column);
        for (int r = row; r < kOthers; r += kThreads / kDepth) {
          others[r * kRow + column] = Element(y, tile.other + r, tile.head, first + column);
        }
      });
      block.Phase([&](int t) {
        T sum = (*dots)[t];
        COX_UNROLL_BY(8)
        for (int d = 0; d < kDepth; ++d) {
          sum += own[t / kWarp * kRow + d] * others[t % kWarp * kRow + d];
        }
        (*dots)[t] = sum;
      });
    }
  }

  // What is e^score for each thread's rows; -infinity of those that have nothing to do with each
  // other.
  COX_DEVICE void Scores(const Block& block, const Tile& tile, const PerThread<RowRange>& others,
                         const T* x, const T* y, PerThread<T>* scores) const {
    Dots(block, tile, x, y, scores);
    const T scale = Scale();
    block.Apart([&](int t) {
      const bool meet = others[t].Has(tile.OtherOf(t));
      (*scores)[t] = meet ? (*scores)[t] * scale : -Infinity<T>();
    });
  }

  // Shared memory for two numbers of each thread.
  COX_DEVICE T* Weights(const Block& block) const { return block.shared<T>() + kProducts; }

  // Adds a warp's share: its row of `out`, times `keep`, plus the weighted rows of x. `first`: the
  // row has nothing in it yet.
  COX_DEVICE void AddRows(const Tile& tile, const RowRange& others, int t, const T* weights,
                          const T* x, bool first, T keep, T* out) const {
    const int64_t row = tile.OwnOf(t);
    if (row >= sequences.rows) return;
    const int64_t begin = others.first > tile.other ? others.first : tile.other;
    const int64_t tile_end = tile.other + kOthers;
    const int64_t end = others.last < tile_end ? others.last : tile_end;
    const T* const of_row = weights + t / kWarp * kWarp;
    for (int64_t c = t % kWarp; c < width; c += kWarp) {
      T* const at = out + At(row, tile.head) * width + c;
      T sum = first ? T{0} : *at * keep;
      COX_UNROLL_BY(4)
      for (int64_t j = begin; j < end; ++j) {
        sum += of_row[j - tile.other] * x[At(j, tile.head) * width + c];
      }
      *at = sum;
    }
  }
};

// The softmax of each warp's scores, which come a tile at a time.
template <typename T>
struct RunningSoftmax {
  PerThread<T> max, sum;  // of the scores so far, and of e^(score - max)
  PerThread<T> factor;    // with what all sums before the last tile are to be multiplied

  COX_DEVICE void Start(const Block& block) {
    block.Apart([&](int t) {
      max[t] = -Infinity<T>();
      sum[t] = T{0};
    });
  }

  // The scores become e^(score - max).
  COX_DEVICE void Add(const Block& block, PerThread<T>* scores) {
    PerThread<T> joined = *scores;
    block.Combine<kWarp>(&joined, Larger());
    block.Apart([&](int t) {
      const T before = max[t];
      max[t] = Larger()(before, joined[t]);
      // Of infinities no difference is taken, except where the score is to become NaN.
      factor[t] = before == max[t] ? T{1} : Exp(before - max[t]);
      const T score = (*scores)[t];
      (*scores)[t] = score == -Infinity<T>() ? T{0} : Exp(score - max[t]);
      joined[t] = (*scores)[t];
    });
    block.Combine<kWarp>(&joined, Plus());
    block.Apart([&](int t) { sum[t] = sum[t] * factor[t] + joined[t]; });
  }
};

template <typename T>
struct Attend {
  Heads<T> heads;
  const T *q, *k, *v;
  T* y;

  COX_DEVICE void operator()(const Block& block, int64_t item) const {
    Tile tile = heads.FirstTile(item);
    const int64_t begin = heads.sequences.Find(tile.own).first, end = heads.EndOf(tile);
    T* const weights = heads.Weights(block);
    PerThread<RowRange> others;
    PerThread<T> scores;
    RunningSoftmax<T> softmax;
    heads.FindOthers(block, tile, false, &others);
    softmax.Start(block);
    for (tile.other = begin; tile.other < end; tile.other += kOthers) {
      heads.Scores(block, tile, others, q, k, &scores);
      softmax.Add(block, &scores);
      block.Phase([&](int t) { weights[t] = scores[t]; });
      block.Phase([&](int t) {
        heads.AddRows(tile, others[t], t, weights, v, tile.other == begin, softmax.factor[t], y);
      });
    }
    block.Apart([&](int t) {
      const int64_t row = tile.OwnOf(t);
      if (row >= end) return;
      for (int64_t c = t % kWarp; c < heads.width; c += kWarp) {
        y[heads.At(row, tile.head) * heads.width + c] /= softmax.sum[t];
      }
    });
  }
};

// The matrices of a gradient, and of each row and head what its weights are made of, in scratch
// memory.
template <typename T>
struct Backward {
  struct Row {
    T max, sum;  // a_ij = e^(score - max) / sum
    T mean;      // sum_j a_ij g_i . v_j
  };

  Heads<T> heads;
  const T *g, *q, *k, *v;
  Row* rows;

  COX_DEVICE static T Weight(const Row& row, T score) { return Exp(score - row.max) / row.sum; }
  // b_ij, `slope` being g_i . v_j.
  COX_DEVICE T Slope(const Row& row, T weight, T slope) const {
    return weight * (slope - row.mean) * heads.Scale();
  }
};

// First of three kernels: the rows' softmax.
template <typename T>
struct FindRows {
  Backward<T> in;

  COX_DEVICE void operator()(const Block& block, int64_t item) const {
    Tile tile = in.heads.FirstTile(item);
    const int64_t end = in.heads.EndOf(tile);
    PerThread<RowRange> others;
    PerThread<T> scores, slopes, mean;
    RunningSoftmax<T> softmax;
    in.heads.FindOthers(block, tile, false, &others);
    softmax.Start(block);
    block.Apart([&](int t) { mean[t] = T{0}; });
    for (tile.other = in.heads.sequences.Find(tile.own).first; tile.other < end;
         tile.other += kOthers) {
      in.heads.Scores(block, tile, others, in.q, in.k, &scores);
      softmax.Add(block, &scores);
      in.heads.Dots(block, tile, in.g, in.v, &slopes);
      block.Apart([&](int t) {
        // What has nothing to do with the row may be NaN.
        slopes[t] = others[t].Has(tile.OtherOf(t)) ? scores[t] * slopes[t] : T{0};
      });
      block.Combine<kWarp>(&slopes, Plus());
      block.Apart([&](int t) { mean[t] = mean[t] * softmax.factor[t] + slopes[t]; });
    }
    block.Apart([&](int t) {
      const int64_t row = tile.OwnOf(t);
      if (row >= end || t % kWarp != 0) return;
      in.rows[in.heads.At(row, tile.head)] =
          typename Backward<T>::Row{softmax.max[t], softmax.sum[t], mean[t] / softmax.sum[t]};
    });
  }
};

template <typename T>
struct QueryGradient {
  Backward<T> in;
  T* dq;

  COX_DEVICE void operator()(const Block& block, int64_t item) const {
    const Heads<T>& heads = in.heads;
    Tile tile = heads.FirstTile(item);
    const int64_t begin = heads.sequences.Find(tile.own).first, end = heads.EndOf(tile);
    T* const weights = heads.Weights(block);
    PerThread<RowRange> others;
    PerThread<T> scores, slopes;
    heads.FindOthers(block, tile, false, &others);
    for (tile.other = begin; tile.other < end; tile.other += kOthers) {
      heads.Scores(block, tile, others, in.q, in.k, &scores);
      heads.Dots(block, tile, in.g, in.v, &slopes);
      block.Phase([&](int t) {
        if (!others[t].Has(tile.OtherOf(t))) return;
        const auto& row = in.rows[heads.At(tile.OwnOf(t), tile.head)];
        weights[t] = in.Slope(row, in.Weight(row, scores[t]), slopes[t]);
      });
      block.Phase([&](int t) {
        heads.AddRows(tile, others[t], t, weights, in.k, tile.other == begin, T{1}, dq);
      });
    }
  }
};

template <typename T>
struct KeyGradient {
  Backward<T> in;
  T *dk, *dv;

  COX_DEVICE void operator()(const Block& block, int64_t item) const {
    const Heads<T>& heads = in.heads;
    Tile tile = heads.FirstTile(item);
    // What is behind the sequence of the last row attends to none of them.
    const int64_t end = heads.sequences.Find(heads.EndOf(tile) - 1).last;
    T* const weights = heads.Weights(block);
    T* const changes = weights + kThreads;
    PerThread<RowRange> others;
    PerThread<T> scores, slopes;
    heads.FindOthers(block, tile, true, &others);
    for (tile.other = tile.own; tile.other < end; tile.other += kOthers) {
      heads.Scores(block, tile, others, in.k, in.q, &scores);
      heads.Dots(block, tile, in.v, in.g, &slopes);
      block.Phase([&](int t) {
        if (!others[t].Has(tile.OtherOf(t))) return;
        const auto& row = in.rows[heads.At(tile.OtherOf(t), tile.head)];
        weights[t] = in.Weight(row, scores[t]);
        changes[t] = in.Slope(row, weights[t], slopes[t]);
      });
      block.Phase([&](int t) {
        const bool first = tile.other == tile.own;
        heads.AddRows(tile, others[t], t, changes, in.q, first, T{1}, dk);
        heads.AddRows(tile, others[t], t, weights, in.g, first, T{1}, dv);
      });
    }
  }
};

int64_t ReadHeads(const Node& node) { return node.Integer("heads", 1); }

// The heads of a matrix, whose sequences are in the input that comes behind all matrices.
template <typename T>
Status FindHeads(const Run& run, int64_t count, Heads<T>* heads) {
  const CoxTensor& matrix = run.input(0);
  const int64_t columns = matrix.dims[1];
  if (count < 1 || columns % count != 0) return InvalidArgument("wanted heads of equal width");
  *heads = Heads<T>{SegmentsOf(run, run.num_inputs() - 1, matrix.dims[0]), count, columns / count};
  return CheckSequences(run, heads->sequences);
}

Status RunAttention(const int64_t& count, const Run& run) {
  return DispatchFloat(run.input(0).dtype, [&](auto zero) {
    using T = decltype(zero);
    Heads<T> heads;
    COX_CUDA_RETURN_IF_ERROR(FindHeads(run, count, &heads));
    if (Elements(run.output(0)) == 0) return Status();
    const Attend<T> attend{heads, Data<T>(run.input(0)), Data<T>(run.input(1)),
                           Data<T>(run.input(2)), Data<T>(run.output(0))};
    return LaunchBlocks(run.queue(), heads.items(), Heads<T>::kShared, attend);
  });
}

Status RunAttentionGrad(const int64_t& count, const Run& run) {
  return DispatchFloat(run.input(0).dtype, [&](auto zero) {
    using T = decltype(zero);
    using Row = typename Backward<T>::Row;
    Heads<T> heads;
    COX_CUDA_RETURN_IF_ERROR(FindHeads(run, count, &heads));
    if (Elements(run.output(0)) == 0) return Status();
    Scratch rows;
    COX_CUDA_RETURN_IF_ERROR(rows.Allocate(
        run.stream(), static_cast<size_t>(heads.sequences.rows * count) * sizeof(Row)));
    const Backward<T> in{heads,
                         Data<T>(run.input(0)),
                         Data<T>(run.input(1)),
                         Data<T>(run.input(2)),
                         Data<T>(run.input(3)),
                         rows.data<Row>()};
    const auto launch = [&](const auto& kernel) {
      return LaunchBlocks(run.queue(), heads.items(), Heads<T>::kShared, kernel);
    };
    COX_CUDA_RETURN_IF_ERROR(launch(FindRows<T>{in}));
    COX_CUDA_RETURN_IF_ERROR(launch(QueryGradient<T>{in, Data<T>(run.output(0))}));
    return launch(KeyGradient<T>{in, Data<T>(run.output(1)), Data<T>(run.output(2))});
  });
}

struct FromEnd {
  Segments sequences;
  int64_t most;

  COX_DEVICE int64_t operator()(int64_t i) const {
    const int64_t behind = sequences.Find(i).last - 1 - i;
    return behind < most ? behind : most;
  }
};

int64_t ReadMost(const Node& node) { return node.Integer("most", INT32_MAX); }

Status RunFromEnd(const int64_t& most, const Run& run) {
  const CoxTensor& out = run.output(0);
  const Segments sequences = SegmentsOf(run, 0, out.dims[0]);
  COX_CUDA_RETURN_IF_ERROR(CheckSequences(run, sequences));
  return FillElements(run.queue(), Data<int64_t>(out), out.dims[0], FromEnd{sequences, most});
}

template <typename T>
struct TakeLast {
  Segments sequences;
  int64_t width;
  const T* x;

  COX_DEVICE T operator()(int64_t i) const {
    const int64_t s = i / width, column = i - s * width;
    const RowRange of = sequences.Of(s, false);
    return of.first == of.last ? T{0} : x[(of.last - 1) * width + column];
  }
};

template <typename T>
struct PutLast {
  Segments sequences;
  int64_t width;
  const T* g;
  T* dx;

  COX_DEVICE void operator()(int64_t i) const {
    const int64_t s = i / width, column = i - s * width;
    const RowRange of = sequences.Of(s, false);
    if (of.first != of.last) dx[(of.last - 1) * width + column] = g[i];
  }
};

Status RunLastRows(const Run& run) {
  const CoxTensor &x = run.input(0), &out = run.output(0);
  const Segments sequences = SegmentsOf(run, 1, x.dims[0]);
  COX_CUDA_RETURN_IF_ERROR(CheckSequences(run, sequences));
  return DispatchFloat(x.dtype, [&](auto zero) {
    using T = decltype(zero);
    return FillElements(run.queue(), Data<T>(out), Elements(out),
                        TakeLast<T>{sequences, x.dims[1], Data<T>(x)});
  });
}

Status RunLastRowsGrad(const Run& run) {
  const CoxTensor &g = run.input(0), &dx = run.output(0);
  const Segments sequences = SegmentsOf(run, 2, dx.dims[0]);
  COX_CUDA_RETURN_IF_ERROR(CheckSequences(run, sequences));
  COX_CUDA_RETURN_IF_ERROR(FillZero(run.stream(), dx.data, Bytes(dx)));
  return DispatchFloat(g.dtype, [&](auto zero) {
    using T = decltype(zero);
    return ForElements(run.queue(), Elements(g),
                       PutLast<T>{sequences, g.dims[1], Data<T>(g), Data<T>(dx)});
  });
}

}  // namespace

void AddSequenceOps(OpTable* table) {
  table->Add("CausalAttention", Floats(), ReadHeads, RunAttention);
  table->Add("CausalAttentionGrad", Floats(), ReadHeads, RunAttentionGrad);
  table->Add("FromEnd", {COX_I32}, ReadMost, RunFromEnd);
  table->Add("LastRows", Floats(), RunLastRows);
  table->Add("LastRowsGrad", Floats(), RunLastRowsGrad);
}

}  // namespace coxswain::cuda
