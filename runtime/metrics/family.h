// What a process tells of itself to Prometheus, in structs of our own: whoever collects it includes
// no header of a library.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace coxswain::metrics {

// A counter only grows for as long as its process lives; a gauge goes up and down.
enum class Kind { kCounter, kGauge, kHistogram };

struct Label {
  std::string name, value;
};

struct Bucket {
  double most = 0;        // an upper bound, which belongs to it
  uint64_t until_it = 0;  // values up to this bound, those of the buckets before included
};

struct Sample {
  std::vector<Label> labels;
  double value = 0;             // of a histogram: the sum of its values
  std::vector<Bucket> buckets;  // of a histogram; the one without a bound is not among them
  uint64_t count = 0;           // of a histogram: all its values
};

// All samples of one name. The name says the unit, and of a counter ends with _total.
struct Family {
  std::string name, help;
  Kind kind = Kind::kGauge;
  std::vector<Sample> samples;
};

using Families = std::vector<Family>;

inline Family* Add(Kind kind, std::string name, std::string help, Families* families) {
  families->push_back({std::move(name), std::move(help), kind, {}});
  return &families->back();
}
inline void AddGauge(std::string name, std::string help, double value, Families* families) {
  Add(Kind::kGauge, std::move(name), std::move(help), families)->samples = {{{}, value, {}, 0}};
}
inline void AddCounter(std::string name, std::string help, double value, Families* families) {
  Add(Kind::kCounter, std::move(name), std::move(help), families)->samples = {{{}, value, {}, 0}};
}
inline void AddSample(std::vector<Label> labels, double value, Family* family) {
  family->samples.push_back({std::move(labels), value, {}, 0});
}

}  // namespace coxswain::metrics
