// Ids drawn in proportion to a power of how often they occur.
//
//   FixedUnigramSampler(; unigrams: f32 tensor [V], num_sampled: int, distortion = 1, seed = 0)
//       -> ids i64 [N], expected_count f32 [N]
//
//   p(id) = unigrams[id]^distortion / sum_v unigrams[v]^distortion;  expected_count = N p(id)
//
// As TensorFlow's FixedUnigramCandidateSampler with unique = false. Each draw is one look into an
// alias table (Walker 1977; Vose 1991), made once per node. What is drawn is a function of the
// closure's seed, its step and the attribute `seed`, as in random_ops.cc. An id that never occurs
// is never drawn. No derivative.

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <vector>

#include "kernels/cpu/philox.h"
#include "kernels/op_util.h"
#include "kernels/register_list.h"
#include "runtime/tensor/limits.h"

namespace coxswain::kernels {
namespace {

struct UnigramAttrs {
  Tensor unigrams;
  int64_t sampled = 0;
  double distortion = 1;
  uint64_t seed = 0;
};

absl::StatusOr<UnigramAttrs> ReadUnigramAttrs(const Attrs& attrs) {
  UnigramAttrs a;
  ASSIGN_OR_RETURN(a.unigrams, graph::GetAttr<Tensor>(attrs, "unigrams"));
  ASSIGN_OR_RETURN(a.sampled, graph::GetAttr<int64_t>(attrs, "num_sampled"));
  ASSIGN_OR_RETURN(a.distortion, NumberAttr(attrs, "distortion", 1.0));
  ASSIGN_OR_RETURN(const int64_t seed, OptionalAttr<int64_t>(attrs, "seed", 0));
  a.seed = static_cast<uint64_t>(seed);
  if (a.unigrams.dtype() != DType::kF32 || a.unigrams.rank() != 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("attribute 'unigrams': wanted f32 of rank 1, found ",
                     DTypeName(a.unigrams.dtype()), a.unigrams.shape().ToString()));
  }
  if (a.sampled < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("attribute 'num_sampled': wanted 0 or more, found ", a.sampled));
  }
  RETURN_IF_ERROR(CheckedElements(Shape{a.sampled}).status());
  bool any = false;
  for (const float count : a.unigrams.values<float>()) {
    if (!(count >= 0) || std::isinf(count)) {
      return absl::InvalidArgumentError(
          absl::StrCat("attribute 'unigrams': wanted finite counts of at least 0, found ", count));
    }
    any = any || count > 0;
  }
  if (!any || !std::isfinite(a.distortion)) {
    return absl::InvalidArgumentError(
        any ? absl::StrCat("attribute 'distortion': wanted a finite number, found ", a.distortion)
            : "attribute 'unigrams': wanted a count above 0, found none");
  }
  return a;
}

absl::Status InferUnigram(graph::InferenceContext* c) {
  ASSIGN_OR_RETURN(const UnigramAttrs a, ReadUnigramAttrs(c->attrs()));
  c->AddOutput(DType::kI64, Shape{a.sampled});
  c->AddOutput(DType::kF32, Shape{a.sampled});
  return absl::OkStatus();
}

// Checks the sum of the counts to the power of the distortion.
// Errors: InvalidArgument when a double cannot hold it or its reciprocal.
absl::Status CheckSum(const UnigramAttrs& a) {
  double sum = 0;
  for (const float count : a.unigrams.values<float>()) {
    if (count > 0) sum += std::pow(static_cast<double>(count), a.distortion);
  }
  if (std::isfinite(sum) && std::isfinite(1 / sum)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("attribute 'distortion': the counts to the power of ", a.distortion,
                   " have no sum that a double can tell"));
}

class UnigramKernel final : public graph::Kernel {
 public:
  explicit UnigramKernel(const UnigramAttrs& a);
  absl::Status Compute(graph::KernelContext* context) const override;

 private:
  // One of V cells of the same weight, one for each id. Of the 2^64 places in it, those below
  // `split` stand for that id, the others for `alias`.
  struct Cell {
    uint64_t split;
    int64_t alias;
  };

  int64_t sampled_;
  uint64_t seed_;
  std::vector<Cell> cells_;
  std::vector<float> expected_;  // by id
};

UnigramKernel::UnigramKernel(const UnigramAttrs& a) : sampled_(a.sampled), seed_(a.seed) {
  const absl::Span<const float> counts = a.unigrams.values<float>();
  std::vector<double> weights;  // in cells
  weights.reserve(counts.size());
  double sum = 0;
  for (const float count : counts) {
    weights.push_back(count > 0 ? std::pow(static_cast<double>(count), a.distortion) : 0.0);
    sum += weights.back();
  }
  const double cells = static_cast<double>(counts.size());
  std::vector<size_t> small, large;
  for (size_t i = 0; i < weights.size(); ++i) {
    expected_.push_back(static_cast<float>(static_cast<double>(sampled_) * weights[i] / sum));
    weights[i] *= cells / sum;
    (weights[i] < 1 ? small : large).push_back(i);
  }
  cells_.resize(weights.size());
  while (!small.empty() && !large.empty()) {
    const size_t less = small.back(), more = large.back();
    small.pop_back();
    // Rounding may leave a weight below 0.
    const double split = std::max(0.0, weights[less]) * 0x1p64;
    cells_[less] = {static_cast<uint64_t>(split), static_cast<int64_t>(more)};
    weights[more] -= 1 - weights[less];
    if (weights[more] < 1) {
      large.pop_back();
      small.push_back(more);
    }
  }
  // What is left has weight 1 but for rounding. Rounding may also leave an id of count 0 there,
  // when it has used up the large ones too early.
  const int64_t some = std::max_element(counts.begin(), counts.end()) - counts.begin();
  for (const std::vector<size_t>* left : {&small, &large}) {
    for (const size_t i : *left) {
      if (counts[i] > 0) {
        cells_[i] = {std::numeric_limits<uint64_t>::max(), static_cast<int64_t>(i)};
      } else {
        cells_[i] = {0, some};
      }
    }
  }
}

absl::Status UnigramKernel::Compute(graph::KernelContext* context) const {
  Tensor ids(DType::kI64, Shape{sampled_}), expected(DType::kF32, Shape{sampled_});
  int64_t* id = ids.mutable_data<int64_t>();
  float* count = expected.mutable_data<float>();
  const graph::StepInfo& step = context->step();
  const uint64_t key = PhiloxKey(step.seed, seed_, step.step);
  for (int64_t i = 0; i < sampled_; ++i) {
    const PhiloxBlock block = Philox(key, static_cast<uint64_t>(i));
    const uint64_t bits = uint64_t{block[0]} << 32 | block[1];
    // The upper half of the product is a cell, the lower one a place in it.
    __extension__ using Wide = unsigned __int128;
    const Wide product = static_cast<Wide>(bits) * cells_.size();
    const size_t cell = static_cast<size_t>(product >> 64);
    id[i] = static_cast<uint64_t>(product) < cells_[cell].split ? static_cast<int64_t>(cell)
                                                                : cells_[cell].alias;
    count[i] = expected_[static_cast<size_t>(id[i])];
  }
  context->set_output(0, std::move(ids));
  context->set_output(1, std::move(expected));
  return absl::OkStatus();
}

}  // namespace

void RegisterUnigramSampler(graph::OpRegistry* registry) {
  registry->Register({.name = "FixedUnigramSampler",
                      .stateful = true,
                      .on_host = true,
                      .not_differentiable = true,
                      .infer = InferUnigram,
                      .attrs = {"unigrams", "num_sampled", "distortion", "seed"}});
  registry->RegisterKernel(
      "FixedUnigramSampler",
      [](const graph::Node& node) -> absl::StatusOr<std::unique_ptr<graph::Kernel>> {
        ASSIGN_OR_RETURN(const UnigramAttrs a, ReadUnigramAttrs(node.attrs));
        RETURN_IF_ERROR(CheckSum(a));
        return std::unique_ptr<graph::Kernel>(new UnigramKernel(a));
      });
}

}  // namespace coxswain::kernels
