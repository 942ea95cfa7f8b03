// Losses of queries and their gradients; the formulas are in kernels/ranking_losses.cc.
//
// ListNet: a team of threads for each query. LambdaRank: a thread for each row goes over the rows
// of its query, for its rank and then for the pairs that it is in, so that a gradient is a sum in
// one order; what belongs to a query is summed up by a team.
#include "kernels/cuda/op_list.h"
#include "kernels/cuda/segments.h"

namespace coxswain::cuda {
namespace {

constexpr double kMostLabel = 30;

// The queries of one kernel, kTeam threads for each.
template <int kTeam>
struct Teams {
  static constexpr int64_t kPerItem = kThreads / kTeam;
  Segments queries;

  COX_DEVICE static bool Leads(int t) { return t % kTeam == 0; }

  // The query of each thread. Those beyond the last have no rows.
  COX_DEVICE void Find(const Block& block, int64_t item, PerThread<RowRange>* of) const {
    block.Apart([&](int t) {
      const int64_t query = item * kPerItem + t / kTeam;
      (*of)[t] = query < queries.count ? queries.Of(query, Leads(t)) : RowRange{query, 0, 0};
    });
  }

  // values[t] = what `join` makes of f(t, i), i being the rows of the thread's query.
  template <typename T, typename Join, typename F>
  COX_DEVICE void Combine(const Block& block, const PerThread<RowRange>& of, T start,
                          const Join& join, PerThread<T>* values, const F& f) const {
    block.Apart([&](int t) {
      T value = start;
      for (int64_t i = of[t].first + t % kTeam; i < of[t].last; i += kTeam) {
        value = join(value, f(t, i));
      }
      (*values)[t] = value;
    });
    block.Combine<kTeam>(values, join);
  }
};

// Starts the kernel that make(Teams<kTeam>) returns, with the team that suits the mean length.
template <typename Make>
Status LaunchTeams(const Run& run, const Segments& queries, const Make& make) {
  constexpr int64_t kRowsOfWarp = 1024;
  if (queries.rows <= queries.count * kRowsOfWarp) {
    using Warps = Teams<kWarp>;
    return LaunchBlocks(run.queue(), CeilDiv(queries.count, Warps::kPerItem), 0,
                        make(Warps{queries}));
  }
  return LaunchBlocks(run.queue(), queries.count, 0, make(Teams<kThreads>{queries}));
}

// `kGrad`: out is the gradient of the scores instead of the losses.
template <bool kGrad, typename T, typename Teams>
struct ListNetQueries {
  Teams teams;
  const T *g, *scores, *labels;
  T* out;

  // log sum e^x. A NaN makes it one.
  COX_DEVICE void LogSumExp(const Block& block, const PerThread<RowRange>& of, const T* x,
                            PerThread<T>* result) const {
    PerThread<T> max, sum;
    teams.Combine(block, of, -Infinity<T>(), Larger(), &max, [&](int, int64_t i) { return x[i]; });
    teams.Combine(block, of, T{0}, Plus(), &sum,
                  [&](int t, int64_t i) { return Exp(x[i] - max[t]); });
    block.Apart([&](int t) { (*result)[t] = max[t] + Log(sum[t]); });
  }

  COX_DEVICE void operator()(const Block& block, int64_t item) const {
    PerThread<RowRange> of;
    PerThread<T> of_scores, of_labels, losses;
    teams.Find(block, item, &of);
    LogSumExp(block, of, scores, &of_scores);
    LogSumExp(block, of, labels, &of_labels);
    teams.Combine(block, of, T{0}, Plus(), &losses, [&](int t, int64_t i) {
      const T wanted = Exp(labels[i] - of_labels[t]), log_p = scores[i] - of_scores[t];
      if constexpr (kGrad) out[i] = g[of[t].segment] * (Exp(log_p) - wanted);
      return -wanted * log_p;
    });
    if constexpr (!kGrad) {
      block.Apart([&](int t) {
        if (teams.Leads(t) && of[t].segment < teams.queries.count) out[of[t].segment] = losses[t];
      });
    }
  }
};

// Inputs are scores, labels and offsets, behind g if there is one.
template <bool kGrad>
Status RunListNet(const Run& run) {
  constexpr int kFirst = kGrad ? 1 : 0;
  const CoxTensor &scores = run.input(kFirst), &out = run.output(0);
  const Segments queries = SegmentsOf(run, kFirst + 2, scores.dims[0]);
  // Rows of no query.
  if (kGrad) COX_CUDA_RETURN_IF_ERROR(FillZero(run.stream(), out.data, Bytes(out)));
  return DispatchFloat(scores.dtype, [&](auto zero) {
    using T = decltype(zero);
    return LaunchTeams(run, queries, [&](auto teams) {
      return ListNetQueries<kGrad, T, decltype(teams)>{
          teams, Data<T>(run.input(0)), Data<T>(scores), Data<T>(run.input(kFirst + 1)),
          Data<T>(out)};
    });
  });
}

struct Lambda {
  double sigma;
  int64_t truncate;
};

Lambda ReadLambda(const Node& node) {
  return Lambda{node.Number("sigma", 1.0), node.Integer("truncate", 0)};
}

// Everything that LambdaRank knows; the pointers behind the inputs are scratch memory.
template <typename T>
struct Ranking {
  Segments queries;
  Lambda lambda;
  const T *scores, *labels;
  double *gains, *discounts;  // G and D of each row
  double* shares;             // what each row adds to the best DCG, and later to the loss
  double* best;               // of each query; NaN: it has a score that is no number

  // The factor of a pair of which i has the higher label.
  COX_DEVICE T Weight(int64_t i, int64_t j, double best_of_query) const {
    return static_cast<T>((gains[i] - gains[j]) * fabs(discounts[i] - discounts[j]) /
                          best_of_query);
  }
  COX_DEVICE T Margin(int64_t i, int64_t j) const {
    return static_cast<T>(lambda.sigma) * (scores[i] - scores[j]);
  }
  // e^-|margin|
  COX_DEVICE static T Away(T margin) { return Exp(margin < T{0} ? margin : -margin); }
};

template <typename T>
struct RankRows {
  Ranking<T> in;
  int32_t labels_input;

  // Among equal values the one that comes first is before the other.
  COX_DEVICE static bool IsBefore(const T* x, int64_t j, int64_t i) {
    return x[j] > x[i] || (x[j] == x[i] && j < i);
  }
  COX_DEVICE double Discount(int64_t rank) const {
    const bool counts = in.lambda.truncate == 0 || rank < in.lambda.truncate;
    return counts ? 1 / log2(static_cast<double>(rank) + 2) : 0.0;
  }

  COX_DEVICE void CheckLabel(int64_t i) const {
    const auto label = static_cast<double>(in.labels[i]);
    if (label >= 0 && label <= kMostLabel) return;
    if (!IsFinite(label)) {
      in.queries.faults.NotFinite(labels_input, i, 0, static_cast<double>(in.labels[i]));
      return;
    }
    constexpr double kFar = 0x1p62;
    const double value = label < 0 ? floor(label) : ceil(label);
    in.queries.faults.Index(labels_input, i,
                            static_cast<int64_t>(value < -kFar  ? -kFar
                                                 : value > kFar ? kFar
                                                                : value),
                            static_cast<int64_t>(kMostLabel) + 1);
  }

  COX_DEVICE void operator()(int64_t i) const {
    CheckLabel(i);
    const RowRange query = in.queries.Find(i);
    int64_t rank = 0, best_rank = 0;
    for (int64_t j = query.first; j < query.last; ++j) {
      if (IsBefore(in.scores, j, i)) ++rank;
      if (IsBefore(in.labels, j, i)) ++best_rank;
    }
    in.gains[i] = exp2(static_cast<double>(in.labels[i])) - 1;
    in.discounts[i] = Discount(rank);
    in.shares[i] = in.gains[i] * Discount(best_rank);
  }
};

template <typename T, typename Teams>
struct FindBest {
  Teams teams;
  Ranking<T> in;

  COX_DEVICE void operator()(const Block& block, int64_t item) const {
    PerThread<RowRange> of;
    PerThread<double> best;
    teams.Find(block, item, &of);
    teams.Combine(block, of, 0.0, Plus(), &best, [&](int, int64_t i) {
      const T score = in.scores[i];
      return score == score ? in.shares[i] : static_cast<double>(score);
    });
    block.Apart([&](int t) {
      if (teams.Leads(t) && of[t].segment < in.queries.count) in.best[of[t].segment] = best[t];
    });
  }
};

// The pairs in which row i is the one with the higher label.
template <typename T>
struct LossOfRow {
  Ranking<T> in;

  COX_DEVICE double operator()(int64_t i) const {
    const RowRange query = in.queries.Find(i);
    if (!query.Has(i)) return 0.0;
    const double best = in.best[query.segment];
    if (best != best) return best;
    if (best <= 0) return 0.0;
    double loss = 0.0;
    for (int64_t j = query.first; j < query.last; ++j) {
      if (!(in.labels[i] > in.labels[j])) continue;
      const T margin = in.Margin(i, j);
      loss += static_cast<double>(in.Weight(i, j, best) *
                                  (Log1p(in.Away(margin)) + (-margin < T{0} ? T{0} : -margin)));
    }
    return loss;
  }
};

template <typename T, typename Teams>
struct SumLosses {
  Teams teams;
  const double* of_rows;
  T* out;

  COX_DEVICE void operator()(const Block& block, int64_t item) const {
    PerThread<RowRange> of;
    PerThread<double> losses;
    teams.Find(block, item, &of);
    teams.Combine(block, of, 0.0, Plus(), &losses, [&](int, int64_t i) { return of_rows[i]; });
    block.Apart([&](int t) {
      if (!teams.Leads(t) || of[t].segment >= teams.queries.count) return;
      out[of[t].segment] = static_cast<T>(losses[t]);
    });
  }
};

template <typename T>
struct GradientOfRow {
  Ranking<T> in;
  const T* g;

  // By how much the pair pulls its rows apart; i has the higher label.
  COX_DEVICE T Pull(int64_t i, int64_t j, double best, T of_query) const {
    const T margin = in.Margin(i, j), away = in.Away(margin);
    const T missed = margin > T{0} ? away / (T{1} + away) : T{1} / (T{1} + away);
    return of_query * in.Weight(i, j, best) * static_cast<T>(in.lambda.sigma) * missed;
  }

  COX_DEVICE T operator()(int64_t i) const {
    const RowRange query = in.queries.Find(i);
    if (!query.Has(i)) return T{0};
    const double best = in.best[query.segment];
    if (best != best) return static_cast<T>(best);
    if (best <= 0) return T{0};
    const T of_query = g[query.segment];
    T sum = 0;
    for (int64_t j = query.first; j < query.last; ++j) {
      if (in.labels[i] > in.labels[j]) sum -= Pull(i, j, best, of_query);
      if (in.labels[j] > in.labels[i]) sum += Pull(j, i, best, of_query);
    }
    return sum;
  }
};

// Finds ranks and the best DCG; then finish(Ranking<T>) enqueues the rest. `first`: the input of
// scores.
template <typename T, typename Finish>
Status Rank(const Lambda& lambda, const Run& run, int first, const Finish& finish) {
  const CoxTensor& scores = run.input(first);
  const int64_t rows = scores.dims[0];
  const Segments queries = SegmentsOf(run, first + 2, rows);
  Scratch scratch;
  COX_CUDA_RETURN_IF_ERROR(scratch.Allocate(
      run.stream(), static_cast<size_t>(3 * rows + queries.count) * sizeof(double)));
  double* const memory = scratch.data<double>();
  const Ranking<T> ranking{queries, lambda,        Data<T>(scores),   Data<T>(run.input(first + 1)),
                           memory,  memory + rows, memory + 2 * rows, memory + 3 * rows};
  COX_CUDA_RETURN_IF_ERROR(ForElements(run.queue(), rows, RankRows<T>{ranking, first + 1}));
  COX_CUDA_RETURN_IF_ERROR(LaunchTeams(run, queries, [&](auto teams) {
    return FindBest<T, decltype(teams)>{teams, ranking};
  }));
  return finish(ranking);
}

Status RunLambdaRank(const Lambda& lambda, const Run& run) {
  return DispatchFloat(run.input(0).dtype, [&](auto zero) {
    using T = decltype(zero);
    return Rank<T>(lambda, run, 0, [&](const Ranking<T>& in) {
      COX_CUDA_RETURN_IF_ERROR(
          FillElements(run.queue(), in.shares, in.queries.rows, LossOfRow<T>{in}));
      return LaunchTeams(run, in.queries, [&](auto teams) {
        return SumLosses<T, decltype(teams)>{teams, in.shares, Data<T>(run.output(0))};
      });
    });
  });
}

Status RunLambdaRankGrad(const Lambda& lambda, const Run& run) {
  return DispatchFloat(run.input(0).dtype, [&](auto zero) {
    using T = decltype(zero);
    return Rank<T>(lambda, run, 1, [&](const Ranking<T>& in) {
      return FillElements(run.queue(), Data<T>(run.output(0)), in.queries.rows,
                          GradientOfRow<T>{in, Data<T>(run.input(0))});
    });
  });
}

}  // namespace

void AddRankingLosses(OpTable* table) {
  table->Add("ListNet", Floats(), RunListNet<false>);
  table->Add("ListNetGrad", Floats(), RunListNet<true>);
  table->Add("LambdaRank", Floats(), ReadLambda, RunLambdaRank);
  table->Add("LambdaRankGrad", Floats(), ReadLambda, RunLambdaRankGrad);
}

}  // namespace coxswain::cuda
