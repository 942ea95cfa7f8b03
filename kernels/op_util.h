// What files of ops share: reading attributes and making kernels of functions. Checks of inputs are
// in validate.h.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "kernels/cpu/dispatch.h"
#include "kernels/validate.h"
#include "runtime/base/status.h"
#include "runtime/graph/kernel.h"
#include "runtime/graph/op.h"

namespace coxswain::kernels {

// The attribute as a T, or `fallback` when it is absent. Errors: InvalidArgument for another type.
template <typename T>
absl::StatusOr<T> OptionalAttr(const Attrs& attrs, const std::string& name, T fallback) {
  if (!attrs.contains(name)) return fallback;
  return graph::GetAttr<T>(attrs, name);
}

// A real number, which may have been given as an integer.
inline absl::StatusOr<double> NumberAttr(const Attrs& attrs, const std::string& name,
                                         double fallback) {
  const auto it = attrs.find(name);
  if (it != attrs.end() && it->second.get<int64_t>() != nullptr) {
    return static_cast<double>(*it->second.get<int64_t>());
  }
  return OptionalAttr<double>(attrs, name, fallback);
}

// 0 <= axis < rank, a negative one counting from the end.
inline absl::StatusOr<int> NormalizeAxis(int64_t axis, int rank) {
  if (axis >= -rank && axis < rank) return static_cast<int>(axis < 0 ? axis + rank : axis);
  return absl::InvalidArgumentError(
      absl::StrCat("axis: wanted ", -rank, " to ", rank - 1, ", found ", axis));
}

// Infers one output of the type of input 0.
inline absl::Status InferLikeInput(graph::InferenceContext* context) {
  context->AddOutput(context->dtype(0), context->shape(0));
  return absl::OkStatus();
}

// A kernel that calls `compute` with what `read` took from the attributes when the kernel was made.
template <typename A>
graph::KernelFactory AttrKernel(absl::StatusOr<A> (*read)(const Attrs&),
                                absl::Status (*compute)(const A&, graph::KernelContext*)) {
  class Made final : public graph::Kernel {
   public:
    Made(A a, absl::Status (*f)(const A&, graph::KernelContext*)) : a_(std::move(a)), f_(f) {}
    absl::Status Compute(graph::KernelContext* context) const override { return f_(a_, context); }

   private:
    A a_;
    absl::Status (*f_)(const A&, graph::KernelContext*);
  };
  return
      [read, compute](const graph::Node& node) -> absl::StatusOr<std::unique_ptr<graph::Kernel>> {
        ASSIGN_OR_RETURN(A a, read(node.attrs));
        return std::unique_ptr<graph::Kernel>(new Made(std::move(a), compute));
      };
}

// A constant scalar of a floating dtype, for gradients.
inline Output FloatConstant(graph::GradientContext* context, DType dtype, double value) {
  Tensor tensor = dtype == DType::kF64 ? Tensor::Scalar<double>(value)
                                       : Tensor::Scalar(static_cast<float>(value));
  return context->Op("Const", {}, {{"value", std::move(tensor)}});
}

}  // namespace coxswain::kernels
