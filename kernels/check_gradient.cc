// Checks a gradient on its way to a parameter server: all of its numbers must be finite.
//
//   CheckGradient(values f32, f64 or bf16; variable, [what]) -> values
//   CheckGradient(rows [n, ...], ids i64 [n]; variable, strategy, index, count, rows, row_begin)
//       -> rows
//
// The output is the very same tensor. The error names the variable, what of it this is ("the
// gradient" where that is left out) and, of rows, the id of the first that has a NaN or an infinite
// number. `ids` are those of the shard, number `index` of `count`; the other attributes tell which
// ids these are of the whole variable, see UniqueShards.
// Errors: InvalidArgument with the detail NotFinite. It has no gradient.

#include "kernels/check_gradient.h"

#include <cmath>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "kernels/cpu/finite.h"
#include "kernels/cpu/shard_ids.h"
#include "kernels/register_list.h"
#include "kernels/validate.h"
#include "runtime/base/not_finite.h"
#include "runtime/base/status.h"
#include "runtime/graph/kernel.h"

namespace coxswain::kernels {
namespace {

constexpr char kWhatAttr[] = "what";

struct Target {
  std::string what = "the gradient";
  std::string variable;
  ShardIds ids;  // of rows
};

absl::StatusOr<Target> ParseTarget(const Attrs& attrs, bool by_id) {
  Target target;
  ASSIGN_OR_RETURN(target.variable, graph::GetAttr<std::string>(attrs, "variable"));
  if (attrs.contains(kWhatAttr)) {
    ASSIGN_OR_RETURN(target.what, graph::GetAttr<std::string>(attrs, kWhatAttr));
  }
  if (!by_id) return target;
  ASSIGN_OR_RETURN(target.ids, ParseShardIds(attrs));
  return target;
}

absl::Status InferCheckGradient(graph::InferenceContext* c) {
  RETURN_IF_ERROR(c->WantDType(0, {DType::kF32, DType::kF64, DType::kBF16}));
  const bool by_id = c->num_inputs() == 2;
  RETURN_IF_ERROR(ParseTarget(c->attrs(), by_id).status());
  if (by_id) {
    RETURN_IF_ERROR(c->WantDType(1, {DType::kI64}));
    RETURN_IF_ERROR(c->WantRank(1, 1));
    if (c->shape(0).rank() < 1) {
      return c->Error(absl::StrCat("input 0: wanted rows, found ", c->input(0).ToString()));
    }
    RETURN_IF_ERROR(MergeDims(c->shape(0).dim(0), c->shape(1).dim(0), "rows and ids").status());
  }
  c->AddOutput(c->input(0).dtype, c->shape(0));
  return absl::OkStatus();
}

double Number(const Tensor& values, int64_t at) {
  switch (values.dtype()) {
    case DType::kF32:
      return values.data<float>()[at];
    case DType::kF64:
      return values.data<double>()[at];
    default:
      return values.data<BFloat16>()[at].ToFloat();
  }
}

// `where`: of what this is.
absl::Status Error(absl::string_view what, absl::string_view where, double number,
                   const NotFinite& detail) {
  const char* const is = std::isnan(number) ? "NaN" : number > 0 ? "infinite" : "minus infinite";
  return WithNotFinite(absl::InvalidArgumentError(
                           absl::StrCat(what, " of ", where, " is ", is, "; it is not applied")),
                       detail);
}

std::string Variable(const std::string& name) { return absl::StrCat("variable '", name, "'"); }

// `id`: of the shard's row, where there are ids.
absl::Status ErrorOf(const Target& target, std::optional<int64_t> id, double number) {
  if (!id) {
    return Error(target.what, Variable(target.variable), number, {target.variable, std::nullopt});
  }
  const int64_t global = target.ids.Global(*id);
  return Error(target.what, absl::StrCat("table '", target.variable, "', id ", global), number,
               {target.variable, global});
}

// Of one that ran on a device.
absl::Status NotFiniteOnDevice(const graph::Node& node, int64_t id, double number) {
  const bool by_id = node.inputs.size() == 2;
  ASSIGN_OR_RETURN(const Target target, ParseTarget(node.attrs, by_id));
  return ErrorOf(target, by_id ? std::optional<int64_t>(id) : std::nullopt, number);
}

class CheckGradientKernel final : public graph::Kernel {
 public:
  explicit CheckGradientKernel(Target target) : target_(std::move(target)) {}

  absl::Status Compute(graph::KernelContext* context) const override {
    const Tensor& values = context->input(0);
    const int64_t n = values.num_elements();
    const int64_t at = FindNotFinite(values.dtype(), values.raw(), n);
    if (at >= 0) return Found(*context, at);
    context->set_output(0, values);
    return absl::OkStatus();
  }

 private:
  absl::Status Found(const graph::KernelContext& context, int64_t at) const {
    const Tensor& values = context.input(0);
    std::optional<int64_t> id;
    if (context.num_inputs() == 2) {
      RETURN_IF_ERROR(WantDType(context, 1, {DType::kI64}));
      RETURN_IF_ERROR(WantRank(context, 1, 1));
      const Tensor& ids = context.input(1);
      if (values.rank() < 1 || ids.dim(0) != values.dim(0)) {
        return absl::InvalidArgumentError(absl::StrCat("wanted one row per id, found ", ids.dim(0),
                                                       " ids and rows ",
                                                       values.shape().ToString()));
      }
      const int64_t row = at / (values.num_elements() / values.dim(0));
      id = ids.data<int64_t>()[row];
    }
    return ErrorOf(target_, id, Number(values, at));
  }

  const Target target_;
};

}  // namespace

absl::Status CheckWholeGradient(const std::string& variable, const Tensor& gradient) {
  const int64_t at = FindNotFinite(gradient.dtype(), gradient.raw(), gradient.num_elements());
  if (at < 0) return absl::OkStatus();
  return Error(Target().what, Variable(variable), Number(gradient, at), {variable, std::nullopt});
}

void RegisterCheckGradient(graph::OpRegistry* registry) {
  registry->Register(
      {.name = "CheckGradient",
       .min_inputs = 1,
       .max_inputs = 2,
       .on_host = true,
       .on_device_for_gpu_rows = true,
       .passes_on = true,
       .not_differentiable = true,
       .infer = InferCheckGradient,
       .not_finite = NotFiniteOnDevice,
       .attrs = {"variable", kWhatAttr, "strategy", "index", "count", "rows", "row_begin"}});
  registry->RegisterKernel(
      "CheckGradient",
      [](const graph::Node& node) -> absl::StatusOr<std::unique_ptr<graph::Kernel>> {
        ASSIGN_OR_RETURN(Target target, ParseTarget(node.attrs, node.inputs.size() == 2));
        return std::unique_ptr<graph::Kernel>(new CheckGradientKernel(std::move(target)));
      });
}

}  // namespace coxswain::kernels
