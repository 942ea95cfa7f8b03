// The parts of `bench_convergence` that are not the simulator.
#include <catch2/catch.hpp>
#include <cmath>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "tests/bench/convergence/convergence_plot.h"
#include "tests/bench/convergence/planted_clicks.h"

namespace coxswain {
namespace {

TEST_CASE("an AUC is the share of pairs in the right order, ties half", "[bench]") {
  CHECK(AucOf({0.1, 0.2, 0.3, 0.4}, {0, 0, 1, 1}) == 1);
  CHECK(AucOf({0.4, 0.3, 0.2, 0.1}, {0, 0, 1, 1}) == 0);
  CHECK(AucOf({1, 1, 1, 1}, {0, 1, 0, 1}) == 0.5);
  CHECK(AucOf({0.1, 0.3, 0.2, 0.4}, {0, 0, 1, 1}) == 0.75);
  CHECK(AucOf({0.1, 0.2}, {1, 1}) == 0.5);
  CHECK(AucOf({0.1, std::nan("")}, {0, 1}) == 0.5);
}

TEST_CASE("planted clicks are the same each time, and go by their chances", "[bench]") {
  const PlantedClicks clicks(7);
  const Clicks batch = clicks.Batch(3, 4000), again = PlantedClicks(7).Batch(3, 4000);
  CHECK(batch.users == again.users);
  CHECK(batch.labels == again.labels);
  CHECK(batch.users != clicks.Batch(4, 4000).users);
  std::vector<double> scores;
  for (size_t i = 0; i < batch.labels.size(); ++i) {
    scores.push_back(clicks.Logit(batch.users[i], batch.items[i]));
  }
  const double auc = AucOf(scores, batch.labels);
  CHECK(auc > 0.75);
  CHECK(auc < 0.9);
}

TEST_CASE("a point that was not reached is left out of the picture", "[bench]") {
  const std::string svg =
      PlotConvergence({1, 2}, {{"a & b", {{"one", {4.0, std::nullopt}}, {"two", {2.0, 1.0}}}}});
  CHECK(absl::StartsWith(svg, "<svg "));
  CHECK(absl::EndsWith(svg, "</svg>\n"));
  CHECK(absl::StrContains(svg, "a &amp; b"));
  CHECK(absl::StrContains(svg, "one, 1 workers: 4.0 s"));
  CHECK_FALSE(absl::StrContains(svg, "one, 2 workers"));
  CHECK(absl::StrContains(svg, "two, 2 workers: 1.0 s"));
  CHECK(absl::StartsWith(PlotConvergence({4}, {}), "<svg "));
}

}  // namespace
}  // namespace coxswain
