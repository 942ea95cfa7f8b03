#include <catch2/catch.hpp>
#include <vector>

#include "tests/testing/paths.h"
#include "tests/testing/recommender.h"

namespace coxswain {
namespace {

using testing::Must;
using testing::TrainRecommender;

TEST_CASE("training with a fixed seed gives the same losses in one process and in three") {
  const DataFiles dir;
  const std::string csv = testing::WriteRatings(dir);
  const std::vector<float> one = TrainRecommender(testing::MustStart(1, 1, 1), csv, FixedShards(1));
  ClusterOptions options;
  options.closures_in_flight = 1;
  options.daemon_directory = COXSWAIN_BINARY_DIR "/bin";
  const std::vector<float> three =
      TrainRecommender(Must(Cluster::Local(2, 1, options)), csv, FixedShards(2));
  REQUIRE(one.size() == 24);
  REQUIRE(three.size() == one.size());
  for (size_t i = 0; i < one.size(); ++i) {
    INFO("step " << i);
    CHECK(three[i] == Approx(one[i]).epsilon(1e-5));
  }
}

}  // namespace
}  // namespace coxswain
