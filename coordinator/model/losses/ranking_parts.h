// Code shared by losses of rankings: common keys, and parts of their graphs.
#pragma once

#include "coordinator/job/bound_key.h"
#include "coordinator/job/loss_kind.h"
#include "coxswain/function_builder.h"

namespace coxswain::model {

template <auto Member>
constexpr job::SchemaKey TemperatureKey() {
  return job::Key<Member>("temperature", "1",
                          "temperature that the dot products are divided by; an item's bias is "
                          "added behind that")
      .Above(0);
}

constexpr job::SchemaKey DistortionKey() {
  return job::Key<&job::SamplingSpec::distortion>(
             "distortion", "1",
             "with `distribution: popularity`: exponent of the items' frequencies")
      .Min(0)
      .Max(10);
}

template <auto Member>
constexpr job::SchemaKey RejectKnownKey(const char* fallback) {
  return job::Key<Member>(
      "reject_known", fallback,
      "exclude from an example's negatives its own item and the items of its `history` feature; "
      "`bpr` and `in_batch_softmax` exclude its own item in any case");
}

// Reports an error if `distortion` is given but negatives are not drawn by popularity.
void CheckDistortion(const job::JobReader& reader, const job::SamplingSpec& options);

// Ranking::others with the biases added, f32 [B, N].
Output BiasedOthers(FunctionBuilder& f, const job::Ranking& ranking);
// `scores`, f32 [B, N], with the scores of the example's known items lowered so far that they do
// not count in a sum of exponentials; its own item is not considered.
Output WithoutKnown(FunctionBuilder& f, Output scores, const job::Ranking& ranking);
// f32 [B, N]: 0 for the example's own item and its known items, else 1.
Output Unknown(FunctionBuilder& f, const job::Ranking& ranking);

}  // namespace coxswain::model
