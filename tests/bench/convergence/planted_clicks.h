// Clicks whose chances are known: of users and items with planted vectors. There is no end of them,
// so no example comes twice, and the best possible AUC is known.
#pragma once

#include <cstdint>
#include <vector>

namespace coxswain {

struct Clicks {
  std::vector<int64_t> users, items;
  std::vector<float> labels;
};

class PlantedClicks {
 public:
  static constexpr int64_t kUsers = 100, kItems = 100, kDim = 2;

  explicit PlantedClicks(uint64_t seed);

  // Batch `number`, the same whenever it is asked for.
  Clicks Batch(int64_t number, int64_t size) const;
  // A click's log odds.
  double Logit(int64_t user, int64_t item) const;

 private:
  const uint64_t seed_;
  std::vector<double> user_vectors_, item_vectors_;
  std::vector<double> user_biases_, item_biases_;
};

// The chance that a click has a higher score than what is no click; ties count half. 0.5 where a
// score is no number.
double AucOf(const std::vector<double>& scores, const std::vector<float>& labels);

}  // namespace coxswain
