#include "tests/bench/convergence/planted_clicks.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "tests/sim/random.h"

namespace coxswain {
namespace {

std::vector<double> Normals(sim::Random* random, int64_t count, double stddev) {
  constexpr double kTwoPi = 6.283185307179586;
  std::vector<double> values;
  for (int64_t i = 0; i < count; ++i) {
    const double radius = std::sqrt(-2 * std::log(1 - random->Real()));
    values.push_back(stddev * radius * std::cos(kTwoPi * random->Real()));
  }
  return values;
}

}  // namespace

PlantedClicks::PlantedClicks(uint64_t seed) : seed_(seed) {
  sim::Random random(seed);
  user_vectors_ = Normals(&random, kUsers * kDim, 1);
  item_vectors_ = Normals(&random, kItems * kDim, 1);
  user_biases_ = Normals(&random, kUsers, 0.7);
  item_biases_ = Normals(&random, kItems, 0.7);
}

double PlantedClicks::Logit(int64_t user, int64_t item) const {
  const auto u = static_cast<size_t>(user), i = static_cast<size_t>(item), dim = size_t{kDim};
  double logit = user_biases_[u] + item_biases_[i];
  for (size_t d = 0; d < dim; ++d) logit += user_vectors_[u * dim + d] * item_vectors_[i * dim + d];
  return logit;
}

Clicks PlantedClicks::Batch(int64_t number, int64_t size) const {
  sim::Random random(seed_ * 0x9e3779b97f4a7c15 + static_cast<uint64_t>(number) + 1);
  Clicks batch;
  for (int64_t i = 0; i < size; ++i) {
    const int64_t user = random.Below(kUsers), item = random.Below(kItems);
    batch.users.push_back(user);
    batch.items.push_back(item);
    batch.labels.push_back(random.Chance(1 / (1 + std::exp(-Logit(user, item)))) ? 1 : 0);
  }
  return batch;
}

double AucOf(const std::vector<double>& scores, const std::vector<float>& labels) {
  if (std::any_of(scores.begin(), scores.end(), [](double s) { return std::isnan(s); })) return 0.5;
  std::vector<size_t> order(scores.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return scores[a] < scores[b]; });
  double clicks = 0, others = 0, pairs = 0;
  for (size_t begin = 0; begin < order.size();) {
    size_t end = begin;
    double tied_clicks = 0, tied_others = 0;
    for (; end < order.size() && scores[order[end]] == scores[order[begin]]; ++end) {
      (labels[order[end]] > 0.5f ? tied_clicks : tied_others) += 1;
    }
    pairs += tied_clicks * (others + tied_others / 2);
    clicks += tied_clicks;
    others += tied_others;
    begin = end;
  }
  return clicks > 0 && others > 0 ? pairs / (clicks * others) : 0.5;
}

}  // namespace coxswain
