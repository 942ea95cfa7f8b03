// Clusters in this process, and the small steps that tests of the public interface take on them.
#pragma once

#include <catch2/catch.hpp>
#include <string>
#include <utility>
#include <vector>

#include "coxswain/cluster.h"
#include "coxswain/cluster_coordinator.h"
#include "coxswain/optimizers.h"
#include "coxswain/strategy.h"

namespace coxswain::testing {

// The value; the test ends here when there is none.
template <typename T>
T Must(absl::StatusOr<T> value) {
  INFO(value.status().ToString());
  REQUIRE(value.ok());
  return *std::move(value);
}
inline void Must(const absl::Status& status) {
  INFO(status.ToString());
  REQUIRE(status.ok());
}

inline Cluster MustStart(int num_ps, int num_workers, int in_flight = 2, int threads = 2) {
  ClusterOptions options;
  options.closures_in_flight = in_flight;
  options.threads = threads;
  return Must(Cluster::InProcess(num_ps, num_workers, options));
}

inline Tensor Floats(const std::vector<float>& values) { return Tensor::FromVector<float>(values); }

template <typename T>
std::vector<T> ToVector(const Tensor& t) {
  return {t.values<T>().begin(), t.values<T>().end()};
}

// The bytes of f32 tensors as numbers, and their shapes.
inline bool Same(const Tensor& a, const Tensor& b) { return AttrValue(a) == AttrValue(b); }

}  // namespace coxswain::testing
