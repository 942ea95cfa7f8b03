// How workers train together (docs/consistency.md).
#pragma once

#include <cstdint>

namespace coxswain {

enum class ConsistencyMode : uint8_t {
  kAsync,    // each batch's gradients are applied as they come
  kBounded,  // the same, but no batch begins that is too far ahead of the oldest one
  kSync      // the gradients of several batches are one update
};

// How a synchronous step makes one gradient of those of its batches.
enum class GradientReduction : uint8_t { kMean, kSum };

struct Consistency {
  ConsistencyMode mode = ConsistencyMode::kAsync;
  // kBounded: how many steps the oldest one that is not applied may be behind one that begins, at
  // least 0. 0: one after another.
  int64_t max_staleness = 0;
  // kSync: batches of a step, 1 to kMostReplicas; a program decides how many it schedules together.
  int64_t replicas = 1;
  GradientReduction reduce = GradientReduction::kMean;

  static constexpr int64_t kMostReplicas = 4096;
};

}  // namespace coxswain
