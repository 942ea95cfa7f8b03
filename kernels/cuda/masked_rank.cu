// MaskedRank: the rank of each row's true candidate; what counts is said in kernels/masked_rank.cc.
#include "kernels/cuda/op_list.h"

namespace coxswain::cuda {
namespace {

// A block for each row.
struct RankRows {
  const float* scores;
  int64_t width, stride;  // candidates, and columns
  Indices<int64_t> truth, excluded;
  const int32_t* offsets;
  int64_t entries;
  int64_t* out;

  COX_DEVICE bool IsAbove(float score, float threshold) const { return !(score < threshold); }

  // Whether entry `at` of the row's list, which begins at `first`, takes a candidate out that none
  // before it did.
  COX_DEVICE bool TakesOut(int64_t first, int64_t at, int64_t id, int64_t true_id) const {
    if (id < 0 || id >= width || id == true_id) return false;
    for (int64_t e = first; e < at; ++e) {
      if (excluded.ids[e] == id) return false;
    }
    return true;
  }

  // What thread t adds to the row's rank.
  COX_DEVICE int64_t Count(int64_t row, int64_t true_id, int t) const {
    const float* of_row = scores + row * stride;
    const float threshold = of_row[true_id];
    int64_t above = 0;
    for (int64_t j = t; j < width; j += kThreads) {
      if (j != true_id && IsAbove(of_row[j], threshold)) ++above;
    }
    int64_t first = offsets[row], last = offsets[row + 1];
    if (first < 0 || last < first || last > entries) {
      if (t == 0) excluded.faults.Index(3, row + 1, last, entries + 1);
      return above;
    }
    for (int64_t e = first + t; e < last; e += kThreads) {
      const int64_t id = excluded.At(e, true);
      if (TakesOut(first, e, id, true_id) && IsAbove(of_row[id], threshold)) --above;
    }
    return above;
  }

  COX_DEVICE void operator()(const Block& block, int64_t row) const {
    PerThread<int64_t> above;
    block.Apart([&](int t) {
      const int64_t true_id = truth.At(row, t == 0);
      above[t] = true_id < 0 || true_id >= width ? 0 : Count(row, true_id, t);
    });
    block.Combine<kThreads>(&above, Plus());
    block.Apart([&](int t) {
      if (t == 0) out[row] = truth.ids[row] >= width ? width : above[t];
    });
  }
};

int64_t ReadCandidates(const Node& node) { return node.Integer("candidates", -1); }

Status RunMaskedRank(const int64_t& candidates, const Run& run) {
  const CoxTensor& scores = run.input(0);
  const int64_t columns = scores.dims[1];
  const RankRows rank{Data<float>(scores),
                      candidates < 0 || candidates > columns ? columns : candidates,
                      columns,
                      IndicesOf<int64_t>(run, 1, columns),
                      IndicesOf<int64_t>(run, 2, columns),
                      Data<int32_t>(run.input(3)),
                      run.input(2).dims[0],
                      Data<int64_t>(run.output(0))};
  return LaunchBlocks(run.queue(), scores.dims[0], 0, rank);
}

}  // namespace

void AddMaskedRank(OpTable* table) {
  table->Add("MaskedRank", {COX_F32}, ReadCandidates, RunMaskedRank);
}

}  // namespace coxswain::cuda
