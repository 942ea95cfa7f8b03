// Losses of queries, each a list of rows of which some should come before others: query q is the
// rows offsets_q .. offsets_{q+1} - 1 of the scores s and the labels l.
//
//   ListNet(s [B], l [B], offsets i32 [Q+1]) -> [Q]                      (Cao et al., 2007)
//     y_q = -sum_i P_i log p_i,   p = softmax of the query's scores, P = softmax of its labels
//     ds_i = g_q (p_i - P_i)
//
//   LambdaRank(s, l, offsets; sigma = 1, truncate = 0) -> [Q]            (Burges, 2010)
//     y_q = sum_{i, j: l_i > l_j} w_ij log(1 + e^(-sigma (s_i - s_j)))
//     w_ij = |G_i - G_j| |D_i - D_j| / best: by how much the query's NDCG changes when the two
//     change places; G_i = 2^l_i - 1, D_i = 1 / log2(r_i + 2) where r_i, the number of rows that
//     score higher (of equal ones: that come before), is below `truncate`, else 0; 0: no bound.
//     `best` is the DCG of the query in the order of its labels; where it is 0, y_q is 0.
//     Ranks are steps, so the derivative goes through the logarithm alone:
//     ds_i += -g_q w_ij sigma / (1 + e^(sigma (s_i - s_j))), ds_j the same without the minus
//
// ListNetGrad and LambdaRankGrad take g [Q] before these inputs and give ds [B]. Labels have no
// gradient. A query with a score that is no number has a loss that is none.
//
// Errors: InvalidArgument unless 0 <= offsets_0 <= .. <= offsets_Q <= B, and for labels of
// LambdaRank that are not from 0 to 30.
#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <vector>

#include "kernels/cpu/index_check.h"
#include "kernels/op_util.h"
#include "kernels/register_list.h"
#include "runtime/base/status.h"
#include "runtime/graph/builder.h"
#include "runtime/graph/kernel.h"

namespace coxswain::kernels {
namespace {

constexpr double kMostLabel = 30;

struct Lambda {
  double sigma = 1;
  int64_t truncate = 0;
};

absl::StatusOr<Lambda> ReadLambda(const Attrs& attrs) {
  Lambda lambda;
  ASSIGN_OR_RETURN(lambda.sigma, NumberAttr(attrs, "sigma", 1.0));
  ASSIGN_OR_RETURN(lambda.truncate, OptionalAttr<int64_t>(attrs, "truncate", 0));
  if (lambda.sigma > 0 && lambda.truncate >= 0) return lambda;
  return absl::InvalidArgumentError(
      absl::StrCat("attributes 'sigma' and 'truncate': wanted above 0, and 0 or more; found ",
                   lambda.sigma, " and ", lambda.truncate));
}

struct None {};
absl::StatusOr<None> ReadNone(const Attrs&) { return None{}; }

// Scores, labels and offsets are inputs `first` and behind. Returns the number of queries.
template <typename Context>
absl::StatusOr<int64_t> CheckQueries(const Context& c, int first) {
  for (const int i : {first, first + 1, first + 2}) RETURN_IF_ERROR(WantRank(c, i, 1));
  RETURN_IF_ERROR(WantFloat(c, first));
  RETURN_IF_ERROR(WantSameDType(c, first, first + 1));
  RETURN_IF_ERROR(WantDType(c, first + 2, {DType::kI32}));
  RETURN_IF_ERROR(
      MergeDims(ShapeOfInput(c, first).dim(0), ShapeOfInput(c, first + 1).dim(0), "rows").status());
  const int64_t offsets = ShapeOfInput(c, first + 2).dim(0);
  if (offsets == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("input ", first + 2, ": wanted one offset more than queries, found none"));
  }
  return offsets == kUnknownDim ? kUnknownDim : offsets - 1;
}

template <typename Context>
absl::Status CheckGradInputs(const Context& c) {
  RETURN_IF_ERROR(WantRank(c, 0, 1));
  RETURN_IF_ERROR(WantSameDType(c, 0, 1));
  ASSIGN_OR_RETURN(const int64_t queries, CheckQueries(c, 1));
  return MergeDims(ShapeOfInput(c, 0).dim(0), queries, "queries").status();
}

absl::Status InferLoss(graph::InferenceContext* c) {
  RETURN_IF_ERROR(ReadLambda(c->attrs()).status());
  ASSIGN_OR_RETURN(const int64_t queries, CheckQueries(*c, 0));
  c->AddOutput(c->dtype(0), Shape{queries});
  return absl::OkStatus();
}

absl::Status InferGrad(graph::InferenceContext* c) {
  RETURN_IF_ERROR(ReadLambda(c->attrs()).status());
  RETURN_IF_ERROR(CheckGradInputs(*c));
  ASSIGN_OR_RETURN(const int64_t rows, MergeDims(c->shape(1).dim(0), c->shape(2).dim(0), "rows"));
  c->AddOutput(c->dtype(1), Shape{rows});
  return absl::OkStatus();
}

absl::Status GradientBy(graph::GradientContext* c, const char* op) {
  c->SetInputGradient(
      0, c->Op(op, {c->output_gradient(0), c->input(0), c->input(1), c->input(2)}, c->attrs()));
  return absl::OkStatus();
}
absl::Status ListNetGradient(graph::GradientContext* c) { return GradientBy(c, "ListNetGrad"); }
absl::Status LambdaRankGradient(graph::GradientContext* c) {
  return GradientBy(c, "LambdaRankGrad");
}

// One query. `ds`: where its gradient goes, times `g`; null: only the loss is wanted.
template <typename T>
struct Query {
  const T* scores;
  const T* labels;
  int64_t rows;
  T g;
  T* ds;
};

template <typename T>
bool HasNumbers(const Query<T>& q) {
  return std::all_of(q.scores, q.scores + q.rows, [](T s) { return s == s; });
}

template <typename T>
T NoLoss(const Query<T>& q) {
  const T nan = std::numeric_limits<T>::quiet_NaN();
  if (q.ds != nullptr) std::fill(q.ds, q.ds + q.rows, nan);
  return nan;
}

// log sum e^x.
template <typename T>
T LogSumExp(const T* x, int64_t n) {
  const T most = *std::max_element(x, x + n);
  T sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += std::exp(x[i] - most);
  return most + std::log(sum);
}

template <typename T>
T LossOf(const None&, const Query<T>& q) {
  if (q.rows == 0) return 0;
  if (!HasNumbers(q)) return NoLoss(q);
  const T of_scores = LogSumExp(q.scores, q.rows), of_labels = LogSumExp(q.labels, q.rows);
  T loss = 0;
  for (int64_t i = 0; i < q.rows; ++i) {
    const T wanted = std::exp(q.labels[i] - of_labels), log_p = q.scores[i] - of_scores;
    loss -= wanted * log_p;
    if (q.ds != nullptr) q.ds[i] = q.g * (std::exp(log_p) - wanted);
  }
  return loss;
}

// 1 / log2(rank + 2) for ranks below the bound.
double Discount(int64_t rank, const Lambda& lambda) {
  const bool counts = lambda.truncate == 0 || rank < lambda.truncate;
  return counts ? 1 / std::log2(static_cast<double>(rank) + 2) : 0;
}

template <typename T>
double Gain(T label) {
  return std::exp2(static_cast<double>(label)) - 1;
}

template <typename T>
double BestDcg(const Lambda& lambda, const Query<T>& q) {
  std::vector<T> labels(q.labels, q.labels + q.rows);
  std::sort(labels.begin(), labels.end(), std::greater<T>());
  double best = 0;
  for (size_t r = 0; r < labels.size(); ++r) {
    best += Gain(labels[r]) * Discount(static_cast<int64_t>(r), lambda);
  }
  return best;
}

template <typename T>
std::vector<double> DiscountsOf(const Lambda& lambda, const Query<T>& q) {
  std::vector<int64_t> order(static_cast<size_t>(q.rows));
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](int64_t a, int64_t b) { return q.scores[a] > q.scores[b]; });
  std::vector<double> discounts(order.size());
  for (size_t r = 0; r < order.size(); ++r) {
    discounts[static_cast<size_t>(order[r])] = Discount(static_cast<int64_t>(r), lambda);
  }
  return discounts;
}

template <typename T>
T LossOf(const Lambda& lambda, const Query<T>& q) {
  if (!HasNumbers(q)) return NoLoss(q);
  if (q.ds != nullptr) std::fill(q.ds, q.ds + q.rows, T{0});
  const double best = BestDcg(lambda, q);
  if (best <= 0) return 0;
  const std::vector<double> discounts = DiscountsOf(lambda, q);
  std::vector<double> gains(discounts.size());
  std::transform(q.labels, q.labels + q.rows, gains.begin(), Gain<T>);
  const T sigma = static_cast<T>(lambda.sigma);
  double loss = 0;
  for (int64_t i = 0; i < q.rows; ++i) {
    const double discount = discounts[static_cast<size_t>(i)], gain = gains[static_cast<size_t>(i)];
    for (int64_t j = 0; j < q.rows; ++j) {
      if (!(q.labels[i] > q.labels[j])) continue;
      const double change = discount - discounts[static_cast<size_t>(j)];
      // With a bound most pairs are of two rows behind it.
      if (change == 0) continue;
      const T weight =
          static_cast<T>((gain - gains[static_cast<size_t>(j)]) * std::abs(change) / best);
      const T margin = sigma * (q.scores[i] - q.scores[j]);
      const T away = std::exp(-std::abs(margin));
      loss += static_cast<double>(weight * (std::log1p(away) + std::max(-margin, T{0})));
      if (q.ds == nullptr) continue;
      // 1 / (1 + e^margin)
      const T missed = margin > 0 ? away / (1 + away) : 1 / (1 + away);
      const T pull = q.g * weight * sigma * missed;
      q.ds[i] -= pull;
      q.ds[j] += pull;
    }
  }
  return static_cast<T>(loss);
}

template <typename T>
absl::Status CheckLabels(const Lambda&, const T* labels, int64_t rows) {
  for (int64_t i = 0; i < rows; ++i) {
    const auto label = static_cast<double>(labels[i]);
    if (label >= 0 && label <= kMostLabel) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("label ", i, ": wanted 0 to ", kMostLabel, ", found ", label));
  }
  return absl::OkStatus();
}
template <typename T>
absl::Status CheckLabels(const None&, const T*, int64_t) {
  return absl::OkStatus();
}

// `grad`: input 0 is what the losses' gradients are, and the result that of the scores.
template <typename Loss, bool grad>
absl::Status Compute(const Loss& loss, graph::KernelContext* context) {
  constexpr int kFirst = grad ? 1 : 0;
  if (grad) RETURN_IF_ERROR(CheckGradInputs(*context));
  ASSIGN_OR_RETURN(const int64_t queries, CheckQueries(*context, kFirst));
  const Tensor &scores = context->input(kFirst), &labels = context->input(kFirst + 1);
  const absl::Span<const int32_t> offsets = context->input(kFirst + 2).values<int32_t>();
  RETURN_IF_ERROR(CheckOffsets(offsets, scores.dim(0)));
  return DispatchFloat(scores.dtype(), [&](auto type) -> absl::Status {
    using T = decltype(type);
    RETURN_IF_ERROR(CheckLabels(loss, labels.data<T>(), labels.dim(0)));
    Tensor out(scores.dtype(), Shape{grad ? scores.dim(0) : queries});
    T* const result = out.template mutable_data<T>();
    if (grad) std::fill(result, result + scores.dim(0), T{0});  // of rows that no query has
    const T* const g = grad ? context->input(0).template data<T>() : nullptr;
    context->pool()->ParallelFor(queries, 1, [&](int64_t begin, int64_t end) {
      for (int64_t q = begin; q < end; ++q) {
        const int64_t first = offsets[static_cast<size_t>(q)];
        Query<T> query{scores.data<T>() + first, labels.data<T>() + first,
                       offsets[static_cast<size_t>(q) + 1] - first, T{0}, nullptr};
        if (grad) {
          query.g = g[q];
          query.ds = result + first;
          LossOf(loss, query);
        } else {
          result[q] = LossOf(loss, query);
        }
      }
    });
    context->set_output(0, std::move(out));
    return absl::OkStatus();
  });
}

}  // namespace

void RegisterRankingLosses(graph::OpRegistry* registry) {
  const auto add = [registry](const char* name, bool grad, auto gradient,
                              std::vector<std::string> attrs) {
    registry->Register({.name = name,
                        .min_inputs = grad ? 4 : 3,
                        .max_inputs = grad ? 4 : 3,
                        .not_differentiable = grad,  // nobody takes second derivatives
                        .infer = grad ? InferGrad : InferLoss,
                        .gradient = gradient,
                        .attrs = std::move(attrs)});
  };
  const std::vector<std::string> of_lambda = {"sigma", "truncate"};
  add("ListNet", false, ListNetGradient, {});
  add("ListNetGrad", true, nullptr, {});
  add("LambdaRank", false, LambdaRankGradient, of_lambda);
  add("LambdaRankGrad", true, nullptr, of_lambda);
  registry->RegisterKernel("ListNet", AttrKernel<None>(ReadNone, Compute<None, false>));
  registry->RegisterKernel("ListNetGrad", AttrKernel<None>(ReadNone, Compute<None, true>));
  registry->RegisterKernel("LambdaRank", AttrKernel<Lambda>(ReadLambda, Compute<Lambda, false>));
  registry->RegisterKernel("LambdaRankGrad", AttrKernel<Lambda>(ReadLambda, Compute<Lambda, true>));
}

}  // namespace coxswain::kernels
