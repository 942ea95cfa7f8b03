// Metrics that closures add to, variables on parameter servers: means, and areas under ROC curves.
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "coordinator/api/function_state.h"
#include "coordinator/api/strategy_state.h"
#include "coordinator/api/variable_info.h"
#include "coxswain/function_builder.h"
#include "coxswain/strategy.h"
#include "kernels/validate.h"
#include "runtime/base/status.h"
#include "runtime/graph/builder.h"

namespace coxswain {
namespace {

Output InF64(FunctionBuilder* f, Output x) {
  return f->type(x).dtype == DType::kF64 ? x : f->Cast(x, DType::kF64);
}

Output F64(FunctionBuilder* f, double value) { return f->Constant(Tensor::Scalar<double>(value)); }

// Whether a shape is, or is broadcast to, the other one and no larger one. A batch may be unknown.
bool BroadcastsTo(const Shape& from, const Shape& to) {
  if (from.rank() > to.rank()) return false;
  for (int i = 1; i <= from.rank(); ++i) {
    const int64_t dim = from.dim(from.rank() - i), wanted = to.dim(to.rank() - i);
    if (dim == 1 || dim == wanted) continue;
    if (wanted != kUnknownDim && (dim != kUnknownDim || wanted == 1)) return false;
  }
  return true;
}

// The weight of each value, in f64: 1 without `weights`. Errors (sticky): InvalidArgument.
Output WeightsOf(FunctionBuilder* f, Output values, Output weights) {
  const Output ones = f->Op("OnesLike", {InF64(f, values)});
  if (!weights.valid()) return ones;
  if (!BroadcastsTo(f->type(weights).shape, f->type(values).shape)) {
    f->Fail(absl::InvalidArgumentError(absl::StrCat("Update: wanted weights for values ",
                                                    f->type(values).shape.ToString(), ", found ",
                                                    f->type(weights).shape.ToString())));
    return {};
  }
  return f->Mul(ones, InF64(f, weights));
}

// 1 where x is from 0 to 1, else 0; also where it is none.
Output IsShare(FunctionBuilder* f, Output x) {
  return f->Op("LogicalAnd",
               {f->Op("GreaterEqual", {x, F64(f, 0)}), f->Op("LessEqual", {x, F64(f, 1)})});
}

// The number of the interval between two thresholds that each x [n] is in, which has its upper end
// and not its lower one, as in Keras; -1 where `fits` is false.
Output Intervals(FunctionBuilder* f, Output x, Output fits, int64_t intervals) {
  const Output scaled = f->Mul(x, F64(f, static_cast<double>(intervals)));
  const Output whole = f->Cast(f->Cast(scaled, DType::kI64), DType::kF64);
  const Output above = f->Cast(f->Op("Greater", {scaled, whole}), DType::kF64);
  const Output place = f->Op("Maximum", {f->Sub(f->Add(whole, above), F64(f, 1)), F64(f, 0)});
  const Output none = f->Op("BroadcastLike", {F64(f, -1), place});
  return f->Cast(f->Op("Select", {fits, place, none}), DType::kI64);
}

}  // namespace

absl::StatusOr<MeanMetric> ParameterServerStrategy::CreateMean(const std::string& name) {
  VariableOptions options;
  options.shape = Shape{2};
  options.dtype = DType::kF64;
  options.partitioner = FixedShards(1);  // both sums at once
  ASSIGN_OR_RETURN(Variable sums, CreateVariable(name, options));
  return MeanMetric(std::move(sums));
}

absl::StatusOr<double> ParameterServerStrategy::Read(const MeanMetric& metric) {
  ASSIGN_OR_RETURN(const Tensor sums, Read(metric.sums()));
  const double* const of = sums.data<double>();
  return of[1] == 0 ? 0 : of[0] / of[1];
}

absl::Status ParameterServerStrategy::Reset(const MeanMetric& metric) {
  return Assign(metric.sums(), Tensor::Zeros(DType::kF64, Shape{2}));
}

absl::StatusOr<AucMetric> ParameterServerStrategy::CreateAuc(const std::string& name,
                                                             int64_t thresholds) {
  if (thresholds < 2) {
    return absl::InvalidArgumentError(
        absl::StrCat("AUC '", name, "': wanted two thresholds or more, found ", thresholds));
  }
  VariableOptions options;
  options.shape = Shape{thresholds - 1, 2};
  options.dtype = DType::kF64;
  options.partitioner = FixedShards(1);  // all of a closure at once
  ASSIGN_OR_RETURN(Variable histogram, CreateVariable(name, options));
  return AucMetric(std::move(histogram));
}

// By trapezoids, from the largest predictions on.
absl::StatusOr<double> ParameterServerStrategy::Read(const AucMetric& metric) {
  ASSIGN_OR_RETURN(const Tensor histogram, Read(metric.histogram()));
  const absl::Span<const double> weights = histogram.values<double>();
  double area = 0, positive = 0, negative = 0;
  for (size_t i = weights.size(); i >= 2; i -= 2) {
    const double more_positive = weights[i - 2], more_negative = weights[i - 1];
    area += more_negative * (positive + more_positive / 2);
    positive += more_positive;
    negative += more_negative;
  }
  if (positive > 0 && negative > 0) return area / positive / negative;
  return absl::FailedPreconditionError(absl::StrCat(
      "AUC '", metric.histogram().name(),
      "': wanted positive and negative labels, found the weights ", positive, " and ", negative));
}

absl::Status ParameterServerStrategy::Reset(const AucMetric& metric) {
  RETURN_IF_ERROR(state_->CheckOwner(metric.histogram().info()));
  return Assign(metric.histogram(), Tensor::Zeros(DType::kF64, metric.histogram().info().shape));
}

Operation FunctionBuilder::Update(const MeanMetric& metric, Output values, Output weights) {
  if (graph().failed()) return {};
  const Output counts = WeightsOf(this, values, weights);
  if (!counts.valid()) return {};
  const auto sum = [this](Output x) { return Reshape(Sum(x), Shape{1}); };
  return AssignAdd(metric.sums(), Concat({sum(Mul(InF64(this, values), counts)), sum(counts)}, 0));
}

Operation FunctionBuilder::Update(const AucMetric& metric, Output labels, Output predictions,
                                  Output weights) {
  const VariableInfo& histogram = metric.histogram().info();
  if (!state_->Owns(histogram)) return {};
  const Shape &wanted = type(predictions).shape, &found = type(labels).shape;
  if (!kernels::MergeShapes(wanted, found).ok()) {
    Fail(absl::InvalidArgumentError(absl::StrCat("Update: wanted labels for predictions ",
                                                 wanted.ToString(), ", found ", found.ToString())));
    return {};
  }
  const Output each = WeightsOf(this, predictions, weights);
  if (!each.valid()) return {};
  const auto flat = [this](Output x) { return Reshape(InF64(this, x), Shape{kUnknownDim}); };
  const Output p = flat(predictions), y = flat(labels), w = flat(each);
  const Output fits = Op("LogicalAnd", {IsShare(this, p), IsShare(this, y)});
  const Output places = Intervals(this, p, fits, histogram.shape.dim(0));
  const Output positive = Mul(w, y);
  const auto column = [this](Output x) { return Reshape(x, Shape{kUnknownDim, 1}); };
  const Output both = Concat({column(positive), column(Sub(w, positive))}, 1);
  const Output none = Constant(Tensor::Zeros(DType::kF64, histogram.shape));
  // The node's name is what the error of one that is -1 begins with.
  const std::string node =
      absl::StrCat("'", metric.histogram().name(), "' wants labels and predictions from 0 to 1");
  return AssignAdd(metric.histogram(),
                   graph().Op("SegmentSumLike", {both, places, none}, {}, node));
}

}  // namespace coxswain
