// Metrics of lists, against values that were worked out by hand.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "coordinator/model/metrics.h"
#include "coordinator/model/metrics/ranked_lists.h"
#include "runtime/base/stable_hash.h"

namespace coxswain::model {
namespace {

using Ids = std::vector<int64_t>;

std::vector<job::MetricSpec> Specs() {
  std::vector<job::MetricSpec> specs;
  for (const char* name : {"ndcg", "map", "precision", "recall", "hit_rate"}) {
    specs.push_back({job::FindMetricKind(std::string(name) + "@10"), 3, name});
    REQUIRE(specs.back().kind != nullptr);
  }
  specs.push_back({job::FindMetricKind("mrr"), 0, "mrr"});
  return specs;
}

// 1 / log2(place + 2)
double Gain(int place) { return 1 / std::log2(place + 2.0); }

TEST_CASE("places of a list's items follow from how many candidates are above each", "[metrics]") {
  // Of the others' own: each that is above moves an item down.
  CHECK(PlacesOf({{4}, {0}, {1}}) == Ids{0, 2, 6});
  CHECK(PlacesOf({{2}, {2}, {2}}) == Ids{2, 3, 4});
  // They are counted already; those of equal scores count each other.
  CHECK(PlacesOf({{6, 11}, {0, 12}, {2, 13}}) == Ids{0, 2, 6});
  CHECK(PlacesOf({{2, 11}, {2, 12}, {3, 13}}) == Ids{1, 2, 3});
  CHECK(PlacesOf({{1, 11}, {1, 12}}) == Ids{0, 1});
  CHECK(PlacesOf({{0, 11}, {0, 12}}) == Ids{0, 1});  // of different users' scores
  CHECK(PlacesOf({}).empty());
}

// By the definition: all candidates, and what else the list has, in the order of their scores.
Ids PlacesByScore(const std::vector<double>& scores, const std::vector<bool>& candidate,
                  const Ids& list) {
  std::vector<std::pair<double, bool>> all;  // -score, in the list
  const std::set<int64_t> items(list.begin(), list.end());
  for (size_t item = 0; item < scores.size(); ++item) {
    const bool listed = items.count(static_cast<int64_t>(item)) > 0;
    if (candidate[item]) all.emplace_back(-scores[item], listed);
  }
  std::set<int64_t> taken;
  for (const int64_t item : list) {
    const auto at = static_cast<size_t>(item);
    if (!candidate[at] || !taken.insert(item).second) all.emplace_back(-scores[at], true);
  }
  std::sort(all.begin(), all.end());
  Ids places;
  for (size_t i = 0; i < all.size(); ++i) {
    if (all[i].second) places.push_back(static_cast<int64_t>(i));
  }
  return places;
}

TEST_CASE("places of lists with items that are no candidates, and with repetitions", "[metrics]") {
  for (uint64_t seed = 0; seed < 300; ++seed) {
    INFO(seed);
    const auto draw = [&](uint64_t what, uint64_t below) {
      return Mix64(Mix64(seed) + what) % below;
    };
    std::vector<double> scores;
    std::vector<bool> candidate;
    for (uint64_t item = 0; item < 12; ++item) {
      scores.push_back(static_cast<double>(draw(item, 1000000)));
      candidate.push_back(draw(100 + item, 3) > 0);
    }
    Ids list;
    for (uint64_t row = 0; row <= draw(200, 9); ++row) {
      list.push_back(static_cast<int64_t>(draw(300 + row, 12)));
    }
    // Items of a list may have equal scores, which are no other candidate's.
    if (seed % 2 == 0) {
      for (const int64_t item : list) scores[static_cast<size_t>(item)] = scores[12 - 1];
      candidate[12 - 1] = true;
      list.push_back(12 - 1);
    }
    std::vector<RankedItem> ranked;
    for (const int64_t item : list) {
      const auto own = static_cast<size_t>(item);
      RankedItem of{0, candidate[own] ? item : -1};
      for (size_t other = 0; other < scores.size(); ++other) {
        of.rank += candidate[other] && other != own && scores[other] >= scores[own];
      }
      ranked.push_back(of);
    }
    CHECK(PlacesOf(ranked) == PlacesByScore(scores, candidate, list));
  }
}

TEST_CASE("metrics of lists are means over users of what is said of each user's items",
          "[metrics]") {
  MetricAccumulator m(Specs());
  // User 7 has items at 0 and 2 and 6, user 5 one at 1, user 9 one at 8: in two batches.
  m.AddRanks(Ids{4, 1, 0}, {.groups = Ids{7, 5, 7}});
  m.AddRanks(Ids{1, 8}, {.groups = Ids{7, 9}});
  CHECK(m.examples() == 5);
  const auto values = m.Compute();
  const double best = Gain(0) + Gain(1) + Gain(2);
  CHECK(values.at("ndcg") == Approx(((Gain(0) + Gain(2)) / best + Gain(1) / Gain(0) + 0) / 3));
  CHECK(values.at("map") == Approx(((1.0 + 2.0 / 3) / 3 + 1.0 / 2 + 0) / 3));
  CHECK(values.at("precision") == Approx((2.0 / 3 + 1.0 / 3 + 0) / 3));
  CHECK(values.at("recall") == Approx((2.0 / 3 + 1.0 + 0) / 3));
  CHECK(values.at("mrr") == Approx((1.0 + 1.0 / 2 + 1.0 / 9) / 3));
  // By row, and without the user's other items: 4, 1, 0, 1 and 8 are above.
  CHECK(values.at("hit_rate") == Approx(3.0 / 5));
}

TEST_CASE("without users each row is a list of its own", "[metrics]") {
  MetricAccumulator m(Specs());
  m.AddRanks(Ids{0, 2, 9});
  const auto values = m.Compute();
  CHECK(values.at("ndcg") == Approx((1 + Gain(2)) / 3));
  CHECK(values.at("map") == Approx((1 + 1.0 / 3) / 3));
  CHECK(values.at("precision") == Approx(2.0 / 9));
  CHECK(values.at("recall") == Approx(2.0 / 3));
  CHECK(values.at("recall") == values.at("hit_rate"));
  CHECK(values.at("mrr") == Approx((1 + 1.0 / 3 + 1.0 / 10) / 3));
}

TEST_CASE("a list counts as much as the mean weight of its rows", "[metrics]") {
  MetricAccumulator m(Specs());
  const std::vector<float> weights = {1, 5, 2, 0};
  m.AddRanks(Ids{0, 0, 3, 0}, {.weights = weights, .groups = Ids{1, 1, 2, 3}});
  CHECK(m.Compute().at("mrr") == Approx((3 * 1.0 + 2 * 0.25) / 5));
  MetricAccumulator rows(Specs());
  rows.AddRanks(Ids{0, 3}, {.weights = std::vector<float>{1, 3}});
  CHECK(rows.Compute().at("mrr") == Approx((1 + 3 * 0.25) / 4));
  MetricAccumulator none(Specs());
  none.AddRanks(Ids{0}, {.weights = std::vector<float>{0}, .groups = Ids{1}});
  CHECK(std::isnan(none.Compute().at("ndcg")));
  CHECK(none.Undefined().at("ndcg") == "all weights are 0");
  CHECK(MetricAccumulator(Specs()).Compute().empty());
}

TEST_CASE("ranks beside predictions are of the rows that are items of a user's list", "[metrics]") {
  std::vector<job::MetricSpec> specs = Specs();
  specs.push_back({job::FindMetricKind("rmse"), 0, "rmse"});
  MetricAccumulator m(specs);
  const Tensor numbers = Tensor::FromVector<float>({1, 2, 3});
  const Ids groups = {4, 4, 4};
  REQUIRE(m.AddPredictions(numbers, Tensor::FromVector<float>({1, 2, 6}),
                           {.groups = groups, .ranks = Ids{1, -1, 2}})
              .ok());
  const auto values = m.Compute();
  CHECK(values.at("rmse") == Approx(std::sqrt(3.0)));
  CHECK(values.at("mrr") == Approx(0.5));  // places 1 and 3
  CHECK(values.at("recall") == Approx(0.5));
  CHECK(values.at("hit_rate") == Approx(1));
  CHECK_FALSE(m.AddPredictions(numbers, numbers, {.ranks = Ids{1}}).ok());
  CHECK(m.Undefined().empty());
  MetricAccumulator none(Specs());
  REQUIRE(none.AddPredictions(numbers, numbers, {.groups = groups, .ranks = Ids{-1, -1, -1}}).ok());
  for (const char* name : {"mrr", "hit_rate"}) {
    CHECK(std::isnan(none.Compute().at(name)));
    CHECK(none.Undefined().at(name) == "no example is an item that its user has");
  }
}

}  // namespace
}  // namespace coxswain::model
