#include <catch2/catch.hpp>
#include <vector>

#include "tests/testing/recommender.h"

namespace coxswain {
namespace {

using testing::MustStart;
using testing::TrainRecommender;

TEST_CASE("training with a fixed seed gives the same losses on one PS and on several", "[api]") {
  const DataFiles dir;
  const std::string csv = testing::WriteRatings(dir);
  const std::vector<float> one = TrainRecommender(MustStart(1, 1, 1), csv, FixedShards(1));
  REQUIRE(one.size() == 24);
  CHECK(one.back() < 0.8f * one.front());  // it learns
  const std::vector<float> again = TrainRecommender(MustStart(1, 1, 1), csv, FixedShards(1));
  CHECK(again == one);
  for (const int shards : {2, 5}) {
    INFO(shards << " shards");
    const std::vector<float> two = TrainRecommender(MustStart(2, 1, 1), csv, FixedShards(shards));
    CHECK(two == one);  // to the last bit: shards change no order of summing
  }
}

}  // namespace
}  // namespace coxswain
