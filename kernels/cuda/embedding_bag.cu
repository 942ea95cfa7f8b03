// Sums of table rows over bags, and their gradient; the formulas are in kernels/embedding_bag.cc.
#include "kernels/cuda/op_list.h"
#include "kernels/cuda/segment_sum.h"

namespace coxswain::cuda {
namespace {

enum class Combiner { kSum, kMean, kSqrtN };

Combiner ReadCombiner(const Node& node) {
  const std::string name = node.Text("combiner", "sum");
  return name == "mean" ? Combiner::kMean : name == "sqrtn" ? Combiner::kSqrtN : Combiner::kSum;
}

template <typename T>
struct Bags {
  Indices<int32_t> inverse;
  const int32_t* offsets;
  const T* weights;  // null: all 1
  int64_t bags, entries;
  int32_t offsets_input;
  Combiner combiner;

  // The entries of bag b; none, and a fault if `report`, when its offsets are not in order.
  COX_DEVICE void Find(int64_t b, bool report, int64_t* first, int64_t* last) const {
    *first = offsets[b];
    *last = offsets[b + 1];
    if (0 <= *first && *first <= *last && *last <= entries) return;
    if (report) inverse.faults.Index(offsets_input, b + 1, *last, entries + 1);
    *last = *first;
  }

  // 1, 1 / sum w or 1 / sqrt(sum w^2); 0 for an empty bag.
  COX_DEVICE T Scale(int64_t first, int64_t last) const {
    if (combiner == Combiner::kSum) return T{1};
    T sum = 0;
    if (weights == nullptr) {
      sum = static_cast<T>(last - first);
    } else if (combiner == Combiner::kMean) {
      for (int64_t e = first; e < last; ++e) sum += weights[e];
    } else {
      for (int64_t e = first; e < last; ++e) sum += weights[e] * weights[e];
    }
    if (sum == T{0}) return T{0};
    return T{1} / (combiner == Combiner::kMean ? sum : Sqrt(sum));
  }

  COX_DEVICE T Weight(T scale, int64_t e) const {
    return weights == nullptr ? scale : scale * weights[e];
  }
};

// `first`: the input that is `inverse`; offsets and weights follow.
template <typename T>
Bags<T> ReadBags(const Run& run, int first, int64_t rows, Combiner combiner) {
  const bool weighted = run.num_inputs() > first + 2;
  return Bags<T>{IndicesOf<int32_t>(run, first, rows),
                 Data<int32_t>(run.input(first + 1)),
                 weighted ? Data<T>(run.input(first + 2)) : nullptr,
                 run.input(first + 1).dims[0] - 1,
                 run.input(first).dims[0],
                 first + 1,
                 combiner};
}

template <typename T>
struct CombineOp {
  Bags<T> bags;
  const T* rows;
  int64_t width;

  COX_DEVICE T operator()(int64_t i) const {
    const int64_t b = i / width, column = i - b * width;
    int64_t first, last;
    bags.Find(b, column == 0, &first, &last);
    const T scale = bags.Scale(first, last);
    T sum = 0;
    if (scale == T{0}) return sum;
    for (int64_t e = first; e < last; ++e) {
      const int64_t row = bags.inverse.At(e, column == 0);
      if (row >= 0) sum += bags.Weight(scale, e) * rows[row * width + column];
    }
    return sum;
  }
};

Status RunBag(const Combiner& combiner, const Run& run) {
  const CoxTensor &rows = run.input(0), &out = run.output(0);
  return DispatchFloat(rows.dtype, [&](auto zero) {
    using T = decltype(zero);
    const CombineOp<T> combine{ReadBags<T>(run, 1, rows.dims[0], combiner), Data<T>(rows),
                               rows.dims[1]};
    return FillElements(run.queue(), Data<T>(out), Elements(out), combine);
  });
}

// Writes the key of each entry of a bag, and its bag and weight. Entries of no bag keep the key
// that counts nowhere.
template <typename T>
struct SpreadKeys {
  Bags<T> bags;
  uint32_t *keys, *bag_of;
  T* weight_of;

  COX_DEVICE void operator()(int64_t b) const {
    int64_t first, last;
    bags.Find(b, true, &first, &last);
    const T scale = bags.Scale(first, last);
    for (int64_t e = first; e < last; ++e) {
      const int64_t row = bags.inverse.At(e, true);
      keys[e] = static_cast<uint32_t>(row < 0 ? bags.inverse.bound : row);
      bag_of[e] = static_cast<uint32_t>(b);
      weight_of[e] = bags.Weight(scale, e);
    }
  }
};

struct NoKey {
  uint32_t key;
  COX_DEVICE uint32_t operator()(int64_t) const { return key; }
};

template <typename T>
struct WeightedGradient {
  const T* grad;
  const uint32_t* bag_of;
  const T* weight_of;
  int64_t width;

  COX_DEVICE T operator()(int64_t entry, int64_t column) const {
    return weight_of[entry] * grad[bag_of[entry] * width + column];
  }
};

template <typename T>
Status SpreadBags(const Run& run, Combiner combiner) {
  const CoxTensor &grad = run.input(0), &out = run.output(0);
  const int64_t rows = out.dims[0], width = out.dims[1];
  const Bags<T> bags = ReadBags<T>(run, 2, rows, combiner);
  if (bags.bags > int64_t{UINT32_MAX}) return InvalidArgument("wanted fewer than 2^32 bags");
  Scratch bag_of, weight_of;
  const auto entries = static_cast<size_t>(bags.entries);
  COX_CUDA_RETURN_IF_ERROR(bag_of.Allocate(run.stream(), entries * sizeof(uint32_t)));
  COX_CUDA_RETURN_IF_ERROR(weight_of.Allocate(run.stream(), entries * sizeof(T)));
  const auto write_keys = [&](uint32_t* keys) {
    COX_CUDA_RETURN_IF_ERROR(
        FillElements(run.queue(), keys, bags.entries, NoKey{static_cast<uint32_t>(rows)}));
    const SpreadKeys<T> spread{bags, keys, bag_of.data<uint32_t>(), weight_of.data<T>()};
    return ForElements(run.queue(), bags.bags, spread);
  };
  const WeightedGradient<T> source{Data<T>(grad), bag_of.data<uint32_t>(), weight_of.data<T>(),
                                   width};
  SumParts<T, WeightedGradient<T>> parts;
  parts.width = width;
  parts.Add(source, Data<T>(out), bags.entries, rows);
  return SegmentSums(run.stream(), parts, write_keys);
}

Status RunBagGrad(const Combiner& combiner, const Run& run) {
  return DispatchFloat(run.input(0).dtype,
                       [&](auto zero) { return SpreadBags<decltype(zero)>(run, combiner); });
}

}  // namespace

void AddEmbeddingBag(OpTable* table) {
  table->Add("EmbeddingBag", Floats(), ReadCombiner, RunBag);
  table->Add("EmbeddingBagGrad", Floats(), ReadCombiner, RunBagGrad);
}

}  // namespace coxswain::cuda
