// Ops on the shards of variables. They run on the PS that holds the shard.
//
//   ReadVariable(; shard, variable, dtype, shape, wire_dtype) -> the shard's value
//   GatherShard(ids i64 [n]; shard, variable, dtype, shape, wire_dtype) -> [n, row...]
//   ApplyDense(grad, [rate]; shard, variable)
//       the shard's optimizer takes a gradient of its shape, with this learning rate if one is
// given
//   ApplySparse(ids i64 [n], rows [n, row...], [rate]; ...)
//       the same for some rows; ids are unique
//   AssignVariable(value; ...)                  the value replaces the shard
//   AssignAddVariable(value; ...)               the value is added to it
//   AssignMovingAverageVariable(value; rate, ...)   it becomes it + rate (value - it); rate <= 1
//   FetchAddVariable(value; shard, variable, dtype, shape)   the same; returns what it was before
//   ScatterAddVariable(ids i64 [n], rows [n, row...]; ...)   rows are added; an id may come twice
//
// Attributes: shard (its number), variable (its name, for people), and for the two that read: dtype
// and shape of the shard, and averages (false when it is left out): the moving averages are read
// instead of the values. on_gpu of GatherShard and ApplySparse: the rows are in the memory of a GPU
// (function::kOnGpuAttr), where they and gradients may stay. Ids are local to the shard. With
// wire_dtype bf16 what is read of f32 travels rounded to it, to nearest; ApplyDense and ApplySparse
// take bf16 for f32. The ops that change a shard have no output, but for one: they stage an update,
// which is applied with all others of the segment at its end. ApplyDense and ApplySparse have an
// attribute rate, too (1 when it is left out), by which the optimizer multiplies its learning rate.
// The attribute update of ops that change a shard (0 when it is left out) tells several updates of
// one shard apart; NumberUpdates sets it. The ops that read have no gradient function: gradients
// are taken with respect to what they return.

#include <cmath>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "kernels/cpu/bf16.h"
#include "kernels/register_list.h"
#include "kernels/shard_target.h"
#include "kernels/validate.h"
#include "runtime/base/status.h"
#include "runtime/function/number_updates.h"
#include "runtime/function/partition.h"
#include "runtime/graph/kernel.h"

namespace coxswain::kernels {
namespace {

template <typename Context>
absl::Status WantIds(const Context& c) {
  RETURN_IF_ERROR(WantDType(c, 0, {DType::kI64}));
  return WantRank(c, 0, 1);
}

// Input 0: ids; input 1: a row for each.
template <typename Context>
absl::Status WantIdsAndRows(const Context& c) {
  RETURN_IF_ERROR(WantIds(c));
  RETURN_IF_ERROR(WantRows(c, 1));
  return MergeDims(ShapeOfInput(c, 0).dim(0), ShapeOfInput(c, 1).dim(0), "ids and rows").status();
}

// The dtype in which values travel: `dtype`, or what it is narrowed to on the way.
absl::StatusOr<DType> ParseWireDType(const Attrs& attrs, DType dtype) {
  if (!attrs.contains("wire_dtype")) return dtype;
  ASSIGN_OR_RETURN(const DType wire, graph::GetAttr<DType>(attrs, "wire_dtype"));
  if (wire == dtype || (wire == DType::kBF16 && dtype == DType::kF32)) return wire;
  return absl::InvalidArgumentError(
      absl::StrCat("attribute 'wire_dtype': wanted ", DTypeName(dtype),
                   dtype == DType::kF32 ? " or bf16" : "", ", found ", DTypeName(wire)));
}

absl::Status InferRead(graph::InferenceContext* c) {
  RETURN_IF_ERROR(ParseShardTarget(c->attrs()).status());
  ASSIGN_OR_RETURN(TensorType type, ParseShardType(c->attrs()));
  ASSIGN_OR_RETURN(type.dtype, ParseWireDType(c->attrs(), type.dtype));
  c->AddOutput(type.dtype, std::move(type.shape));
  return absl::OkStatus();
}

absl::Status InferGather(graph::InferenceContext* c) {
  RETURN_IF_ERROR(ParseShardTarget(c->attrs()).status());
  RETURN_IF_ERROR(WantIds(*c));
  ASSIGN_OR_RETURN(TensorType type, ParseShardType(c->attrs()));
  ASSIGN_OR_RETURN(type.dtype, ParseWireDType(c->attrs(), type.dtype));
  if (type.shape.rank() < 1) return c->Error("attribute 'shape': wanted rows, found a scalar");
  type.shape.set_dim(0, c->shape(0).dim(0));
  c->AddOutput(type.dtype, std::move(type.shape));
  return absl::OkStatus();
}

absl::Status InferWhole(graph::InferenceContext* c) {
  RETURN_IF_ERROR(ParseUpdateKey(c->attrs()).status());
  RETURN_IF_ERROR(ParseRate(c->attrs()).status());
  return ParseShardTarget(c->attrs()).status();
}

absl::Status InferMovingAverage(graph::InferenceContext* c) {
  RETURN_IF_ERROR(InferWhole(c));
  RETURN_IF_ERROR(WantDType(*c, 0, {DType::kF32, DType::kF64}));
  ASSIGN_OR_RETURN(const double rate, ParseRate(c->attrs()));
  if (rate <= 1) return absl::OkStatus();
  return c->Error(absl::StrCat("attribute 'rate': wanted at most 1, found ", rate));
}

absl::Status InferRows(graph::InferenceContext* c) {
  RETURN_IF_ERROR(InferWhole(c));
  return WantIdsAndRows(*c);
}

Tensor Narrowed(const Tensor& f32) {
  Tensor bf16(DType::kBF16, f32.shape());
  ToBf16(f32.data<float>(), f32.num_elements(), bf16.mutable_data<BFloat16>());
  return bf16;
}

Tensor Widened(const Tensor& bf16) {
  Tensor f32(DType::kF32, bf16.shape());
  FromBf16(bf16.data<BFloat16>(), bf16.num_elements(), f32.mutable_data<float>());
  return f32;
}

// Reads the shard, or the rows that input 0 names.
class ReadKernel final : public graph::Kernel {
 public:
  ReadKernel(ShardTarget target, TensorType type, DType wire, bool on_gpu)
      : target_(std::move(target)), type_(std::move(type)), wire_(wire), on_gpu_(on_gpu) {}

  absl::Status Compute(graph::KernelContext* context) const override {
    ASSIGN_OR_RETURN(graph::VariableAccess * shards, ShardsOf(*context));
    const bool whole = context->num_inputs() == 0;
    if (!whole) RETURN_IF_ERROR(WantIds(*context));
    absl::StatusOr<Tensor> value = whole ? ReadTarget(shards, target_)
                                   : on_gpu_
                                       ? shards->GatherForDevice(target_.shard, context->input(0))
                                       : GatherTarget(shards, target_, context->input(0));
    if (!value.ok()) return Named(value.status(), target_);
    Shape wanted = type_.shape;
    if (!whole) wanted.set_dim(0, context->input(0).dim(0));
    if (value->dtype() != type_.dtype || !wanted.Accepts(value->shape())) {
      return Named(absl::InvalidArgumentError(absl::StrCat(
                       "wanted ", TensorType{type_.dtype, wanted}.ToString(), ", found ",
                       TensorType{value->dtype(), value->shape()}.ToString())),
                   target_);
    }
    context->set_output(0, wire_ == type_.dtype ? *std::move(value) : Narrowed(*value));
    return absl::OkStatus();
  }

 private:
  const ShardTarget target_;
  const TensorType type_;
  const DType wire_;
  const bool on_gpu_;  // and they are wanted as they are
};

bool TakesGradient(graph::Update::Kind kind) {
  return kind == graph::Update::Kind::kSparse || kind == graph::Update::Kind::kDense;
}

absl::Status ReadRate(const Tensor& given, double* rate) {
  if (given.dtype() == DType::kF32 && given.num_elements() == 1) *rate = given.data<float>()[0];
  if (given.dtype() == DType::kF64 && given.num_elements() == 1) *rate = given.data<double>()[0];
  if (std::isfinite(*rate) && *rate >= 0) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("wanted a learning rate, one number >= 0, found ", given.ToString()));
}

// Stages an update: with ids and rows, or with one value.
class UpdateKernel final : public graph::Kernel {
 public:
  UpdateKernel(graph::Update::Kind kind, bool rows, ShardTarget target, uint32_t key, double rate)
      : kind_(kind), rows_(rows), target_(std::move(target)), key_(key), rate_(rate) {}

  absl::Status Compute(graph::KernelContext* context) const override {
    ASSIGN_OR_RETURN(graph::VariableAccess * shards, ShardsOf(*context));
    graph::Update update;
    update.kind = kind_;
    update.shard = target_.shard;
    update.key = key_;
    update.rate = rate_;
    if (rows_) {
      if (const absl::Status fits = WantIdsAndRows(*context); !fits.ok()) {
        return Named(fits, target_);
      }
      update.ids = context->input(0);
    }
    const int at = rows_ ? 1 : 0;
    update.values = context->input(at);
    if (context->num_inputs() > at + 1) {
      RETURN_IF_ERROR(Named(ReadRate(context->input(at + 1), &update.learning_rate), target_));
    }
    if (TakesGradient(kind_) && update.values.dtype() == DType::kBF16) {
      if (update.values.device() != Device{}) {
        return Named(absl::InvalidArgumentError("wanted bf16 in host memory"), target_);
      }
      update.values = Widened(update.values);
    }
    return Named(shards->Stage(std::move(update)), target_);
  }

 private:
  const graph::Update::Kind kind_;
  const bool rows_;
  const ShardTarget target_;
  const uint32_t key_;
  const double rate_;
};

// Adds to the shard, and returns what it was before.
class FetchAddKernel final : public graph::Kernel {
 public:
  FetchAddKernel(ShardTarget target, TensorType type, uint32_t key)
      : target_(std::move(target)), type_(std::move(type)), key_(key) {}

  absl::Status Compute(graph::KernelContext* context) const override {
    ASSIGN_OR_RETURN(graph::VariableAccess * shards, ShardsOf(*context));
    graph::Update update;
    update.kind = graph::Update::Kind::kAssignAdd;
    update.shard = target_.shard;
    update.key = key_;
    update.values = context->input(0);
    absl::StatusOr<Tensor> before =
        shards->FetchAdd(std::move(update), context->step().closure, context->step().step);
    if (!before.ok()) return Named(before.status(), target_);
    if (before->dtype() != type_.dtype || !type_.shape.Accepts(before->shape())) {
      return Named(absl::InvalidArgumentError(
                       absl::StrCat("wanted ", type_.ToString(), ", found ",
                                    TensorType{before->dtype(), before->shape()}.ToString())),
                   target_);
    }
    context->set_output(0, *std::move(before));
    return absl::OkStatus();
  }

 private:
  const ShardTarget target_;
  const TensorType type_;
  const uint32_t key_;
};

absl::Status InferFetchAdd(graph::InferenceContext* c) {
  RETURN_IF_ERROR(InferWhole(c));
  ASSIGN_OR_RETURN(TensorType type, ParseShardType(c->attrs()));
  RETURN_IF_ERROR(WantDType(*c, 0, {type.dtype}));
  c->AddOutput(type.dtype, std::move(type.shape));
  return absl::OkStatus();
}

void AddFetchAdd(graph::OpRegistry* registry) {
  const char* const name = "FetchAddVariable";
  registry->Register({.name = name,
                      .min_inputs = 1,
                      .max_inputs = 1,
                      .stateful = true,
                      .on_parameter_server = true,
                      .not_differentiable = true,
                      .infer = InferFetchAdd,
                      .attrs = {"shard", "variable", "dtype", "shape", function::kUpdateAttr}});
  registry->RegisterKernel(
      name, [](const graph::Node& node) -> absl::StatusOr<std::unique_ptr<graph::Kernel>> {
        ASSIGN_OR_RETURN(ShardTarget target, ParseShardTarget(node.attrs));
        ASSIGN_OR_RETURN(TensorType type, ParseShardType(node.attrs));
        ASSIGN_OR_RETURN(const uint32_t key, ParseUpdateKey(node.attrs));
        return std::unique_ptr<graph::Kernel>(
            new FetchAddKernel(std::move(target), std::move(type), key));
      });
}

void RegisterRead(graph::OpRegistry* registry, const char* name, int inputs,
                  absl::Status (*infer)(graph::InferenceContext*)) {
  registry->Register({.name = name,
                      .min_inputs = inputs,
                      .max_inputs = inputs,
                      .stateful = true,
                      .on_parameter_server = true,
                      .not_differentiable = true,
                      .infer = infer,
                      .attrs = {"shard", "variable", "dtype", "shape", "wire_dtype", kAveragesAttr,
                                function::kOnGpuAttr}});
  registry->RegisterKernel(
      name, [](const graph::Node& node) -> absl::StatusOr<std::unique_ptr<graph::Kernel>> {
        ASSIGN_OR_RETURN(ShardTarget target, ParseShardTarget(node.attrs));
        ASSIGN_OR_RETURN(TensorType type, ParseShardType(node.attrs));
        ASSIGN_OR_RETURN(const DType wire, ParseWireDType(node.attrs, type.dtype));
        const bool on_gpu = graph::AttrOr<bool>(node.attrs, function::kOnGpuAttr, false) &&
                            wire == type.dtype && !target.averages;
        return std::unique_ptr<graph::Kernel>(
            new ReadKernel(std::move(target), std::move(type), wire, on_gpu));
      });
}

void RegisterUpdate(graph::OpRegistry* registry, const char* name, graph::Update::Kind kind,
                    bool rows) {
  const bool average = kind == graph::Update::Kind::kAssignMovingAverage;
  std::vector<std::string> attrs = {"shard", "variable", function::kUpdateAttr};
  if (TakesGradient(kind) || average) attrs.push_back(kRateAttr);
  if (kind == graph::Update::Kind::kSparse) attrs.push_back(function::kOnGpuAttr);
  registry->Register({.name = name,
                      .min_inputs = rows ? 2 : 1,
                      .max_inputs = (rows ? 2 : 1) + (TakesGradient(kind) ? 1 : 0),
                      .stateful = true,
                      .on_parameter_server = true,
                      .not_differentiable = true,
                      .infer = rows      ? InferRows
                               : average ? InferMovingAverage
                                         : InferWhole,
                      .attrs = std::move(attrs)});
  registry->RegisterKernel(
      name,
      [kind, rows](const graph::Node& node) -> absl::StatusOr<std::unique_ptr<graph::Kernel>> {
        ASSIGN_OR_RETURN(ShardTarget target, ParseShardTarget(node.attrs));
        ASSIGN_OR_RETURN(const uint32_t key, ParseUpdateKey(node.attrs));
        ASSIGN_OR_RETURN(const double rate, ParseRate(node.attrs));
        return std::unique_ptr<graph::Kernel>(
            new UpdateKernel(kind, rows, std::move(target), key, rate));
      });
}

}  // namespace

void RegisterParameterOps(graph::OpRegistry* registry) {
  RegisterRead(registry, "ReadVariable", 0, InferRead);
  RegisterRead(registry, "GatherShard", 1, InferGather);
  RegisterUpdate(registry, "ApplyDense", graph::Update::Kind::kDense, false);
  RegisterUpdate(registry, "ApplySparse", graph::Update::Kind::kSparse, true);
  RegisterUpdate(registry, "AssignVariable", graph::Update::Kind::kAssign, false);
  RegisterUpdate(registry, "AssignAddVariable", graph::Update::Kind::kAssignAdd, false);
  RegisterUpdate(registry, "AssignMovingAverageVariable", graph::Update::Kind::kAssignMovingAverage,
                 false);
  AddFetchAdd(registry);
  RegisterUpdate(registry, "ScatterAddVariable", graph::Update::Kind::kScatterAdd, true);
}

}  // namespace coxswain::kernels
