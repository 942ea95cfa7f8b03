// Random tensors.
//
//   RandomUniform(; shape, low = 0, high = 1, seed = 0)   -> f32 in [low, high)
//   RandomNormal(; shape, mean = 0, stddev = 1, seed = 0) -> f32 (Box-Muller)
//   RandomInt(; shape, low = 0, high, seed = 0)           -> i64 in [low, high)
//     the probabilities of RandomInt's values are equal within 2^-64 of the range
//
// An element is a function of the closure's seed, its step, the attribute `seed` and the element's
// index: so a closure that is run again, after a worker was lost, draws the same numbers. Two nodes
// with the same seed draw the same numbers: give each its own, as FunctionBuilder::Op does where a
// program gives none. No derivative.
#include <algorithm>
#include <cmath>

#include "kernels/cpu/philox.h"
#include "kernels/op_util.h"
#include "kernels/register_list.h"
#include "runtime/tensor/limits.h"

namespace coxswain::kernels {
namespace {

struct RandomAttrs {
  Shape shape;
  uint64_t seed = 0;
  double a = 0.0, b = 1.0;    // low and high, or mean and stddev
  int64_t low = 0, high = 0;  // RandomInt's
};

absl::StatusOr<RandomAttrs> ReadCommon(const Attrs& attrs) {
  RandomAttrs r;
  ASSIGN_OR_RETURN(r.shape, graph::GetAttr<Shape>(attrs, "shape"));
  ASSIGN_OR_RETURN(const int64_t seed, OptionalAttr<int64_t>(attrs, "seed", 0));
  r.seed = static_cast<uint64_t>(seed);
  if (r.shape.IsFullyKnown()) {
    RETURN_IF_ERROR(CheckedElements(r.shape).status());
    return r;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("attribute 'shape': wanted known dimensions, found ", r.shape.ToString()));
}

absl::StatusOr<RandomAttrs> ReadUniform(const Attrs& attrs) {
  ASSIGN_OR_RETURN(RandomAttrs r, ReadCommon(attrs));
  ASSIGN_OR_RETURN(r.a, NumberAttr(attrs, "low", 0.0));
  ASSIGN_OR_RETURN(r.b, NumberAttr(attrs, "high", 1.0));
  // As f32, which is what is drawn.
  if (static_cast<float>(r.a) < static_cast<float>(r.b) && std::isfinite(r.b - r.a)) return r;
  return absl::InvalidArgumentError(
      absl::StrCat("attributes 'low' and 'high': wanted low < high, found ", r.a, " and ", r.b));
}

absl::StatusOr<RandomAttrs> ReadNormal(const Attrs& attrs) {
  ASSIGN_OR_RETURN(RandomAttrs r, ReadCommon(attrs));
  ASSIGN_OR_RETURN(r.a, NumberAttr(attrs, "mean", 0.0));
  ASSIGN_OR_RETURN(r.b, NumberAttr(attrs, "stddev", 1.0));
  if (r.b >= 0.0 && std::isfinite(r.b) && std::isfinite(r.a)) return r;
  return absl::InvalidArgumentError(
      absl::StrCat("attributes 'mean' and 'stddev': wanted finite ones and stddev >= 0, found ",
                   r.a, " and ", r.b));
}

absl::StatusOr<RandomAttrs> ReadInt(const Attrs& attrs) {
  ASSIGN_OR_RETURN(RandomAttrs r, ReadCommon(attrs));
  ASSIGN_OR_RETURN(r.low, OptionalAttr<int64_t>(attrs, "low", 0));
  ASSIGN_OR_RETURN(r.high, graph::GetAttr<int64_t>(attrs, "high"));
  if (r.low < r.high) return r;
  return absl::InvalidArgumentError(absl::StrCat(
      "attributes 'low' and 'high': wanted low < high, found ", r.low, " and ", r.high));
}

using Read = absl::StatusOr<RandomAttrs> (*)(const Attrs&);

template <Read kRead>
absl::Status Infer(graph::InferenceContext* context) {
  ASSIGN_OR_RETURN(const RandomAttrs r, kRead(context->attrs()));
  context->AddOutput(kRead == ReadInt ? DType::kI64 : DType::kF32, r.shape);
  return absl::OkStatus();
}

// Calls fill(block, first element, count) for every block, each of which makes `kPerBlock`
// elements.
template <int kPerBlock, typename Fill>
void ForBlocks(const RandomAttrs& r, graph::KernelContext* context, int64_t n, Fill fill) {
  const graph::StepInfo& step = context->step();
  const uint64_t key = PhiloxKey(step.seed, r.seed, step.step);
  const int64_t blocks = (n + kPerBlock - 1) / kPerBlock;
  context->pool()->ParallelFor(blocks, kElementGrain / 16, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      fill(Philox(key, static_cast<uint64_t>(i)), i * kPerBlock,
           std::min<int64_t>(kPerBlock, n - i * kPerBlock));
    }
  });
}

absl::Status UniformCompute(const RandomAttrs& r, graph::KernelContext* context) {
  Tensor out(DType::kF32, r.shape);
  float* values = out.mutable_data<float>();
  const float low = static_cast<float>(r.a), high = static_cast<float>(r.b);
  const float below_high = std::nextafterf(high, low);
  ForBlocks<4>(r, context, out.num_elements(),
               [=](const PhiloxBlock& block, int64_t at, int64_t n) {
                 for (int64_t i = 0; i < n; ++i) {
                   const float unit = static_cast<float>(block[i] >> 8) * 0x1p-24f;  // [0, 1)
                   values[at + i] =
                       std::min(low + unit * (high - low), below_high);  // rounding may reach high
                 }
               });
  context->set_output(0, std::move(out));
  return absl::OkStatus();
}

absl::Status NormalCompute(const RandomAttrs& r, graph::KernelContext* context) {
  Tensor out(DType::kF32, r.shape);
  float* values = out.mutable_data<float>();
  const double mean = r.a, stddev = r.b;
  ForBlocks<4>(
      r, context, out.num_elements(), [=](const PhiloxBlock& block, int64_t at, int64_t n) {
        double normal[4];
        for (int pair = 0; pair < 2; ++pair) {
          const double u = (static_cast<double>(block[2 * pair]) + 0.5) * 0x1p-32;  // (0, 1)
          const double angle = static_cast<double>(block[2 * pair + 1]) * (0x1p-31 * M_PI);
          const double radius = std::sqrt(-2.0 * std::log(u));
          normal[2 * pair] = radius * std::cos(angle);
          normal[2 * pair + 1] = radius * std::sin(angle);
        }
        for (int64_t i = 0; i < n; ++i)
          values[at + i] = static_cast<float>(mean + stddev * normal[i]);
      });
  context->set_output(0, std::move(out));
  return absl::OkStatus();
}

absl::Status IntCompute(const RandomAttrs& r, graph::KernelContext* context) {
  Tensor out(DType::kI64, r.shape);
  int64_t* values = out.mutable_data<int64_t>();
  const uint64_t low = static_cast<uint64_t>(r.low);
  const uint64_t range = static_cast<uint64_t>(r.high) - low;
  ForBlocks<2>(
      r, context, out.num_elements(), [=](const PhiloxBlock& block, int64_t at, int64_t n) {
        for (int64_t i = 0; i < n; ++i) {
          const uint64_t bits = uint64_t{block[2 * i]} << 32 | block[2 * i + 1];
          // The upper half of bits * range is uniform in [0, range).
          __extension__ using Wide = unsigned __int128;
          const uint64_t offset = static_cast<uint64_t>((static_cast<Wide>(bits) * range) >> 64);
          values[at + i] = static_cast<int64_t>(low + offset);
        }
      });
  context->set_output(0, std::move(out));
  return absl::OkStatus();
}

template <Read kRead>
void RegisterRandom(graph::OpRegistry* registry, const char* name, std::vector<std::string> attrs,
                    absl::Status (*compute)(const RandomAttrs&, graph::KernelContext*)) {
  attrs.insert(attrs.end(), {"shape", "seed"});
  registry->Register({.name = name,
                      .stateful = true,
                      .not_differentiable = true,
                      .infer = Infer<kRead>,
                      .attrs = std::move(attrs)});
  registry->RegisterKernel(name, AttrKernel<RandomAttrs>(kRead, compute));
}

}  // namespace

void RegisterRandomOps(graph::OpRegistry* registry) {
  RegisterRandom<ReadUniform>(registry, "RandomUniform", {"low", "high"}, UniformCompute);
  RegisterRandom<ReadNormal>(registry, "RandomNormal", {"mean", "stddev"}, NormalCompute);
  RegisterRandom<ReadInt>(registry, "RandomInt", {"low", "high"}, IntCompute);
}

}  // namespace coxswain::kernels
