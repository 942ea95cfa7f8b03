// Looks up what a process tells Prometheus.
#pragma once

#include <algorithm>
#include <catch2/catch.hpp>
#include <string>
#include <utility>
#include <vector>

#include "runtime/metrics/family.h"

namespace coxswain::testing {

// Null: it is not there.
inline const metrics::Family* FindFamily(const metrics::Families& families,
                                         const std::string& name) {
  const auto found = std::find_if(families.begin(), families.end(),
                                  [&](const metrics::Family& f) { return f.name == name; });
  return found == families.end() ? nullptr : &*found;
}

// Of the sample with this value of its first label; without labels, of the only one. The test ends
// here when there is none.
inline double ValueOf(const metrics::Families& families, const std::string& name,
                      const std::string& label = "") {
  const metrics::Family* const family = FindFamily(families, name);
  INFO(name << " " << label);
  REQUIRE(family != nullptr);
  for (const metrics::Sample& sample : family->samples) {
    const std::string& own = sample.labels.empty() ? std::string() : sample.labels[0].value;
    if (own == label) return sample.value;
  }
  FAIL("no such sample");
  return 0;
}

}  // namespace coxswain::testing
