// The training loss that a job reports.
#include "coordinator/runner/meter.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <string>

#include "coordinator/runner/run_state.h"

namespace coxswain::runner {
namespace {

Ticket Examples(int64_t n) { return Ticket{Part::kTraining, 0, 0, n}; }

TEST_CASE("the mean loss is that of the examples, by their weights", "[job]") {
  TrainingMeter meter;
  CHECK(meter.Read().mean_loss == 0);
  CHECK(meter.Add(Examples(30), 1, 1, 2, 30).ok());
  CHECK(meter.Add(Examples(30), 1, 2, 5, 10).ok());
  CHECK(meter.Add(Examples(30), 1, 3, 0, 0).ok());  // all weights are 0: it says nothing
  CHECK(meter.Read().mean_loss == Approx((30 * 2 + 10 * 5) / 40.0));
  CHECK(meter.Read().recent_loss == Approx(3.5));
  CHECK(meter.Read().steps == 3);
  CHECK(meter.Read().examples == 90);
  meter.ResetMean();
  CHECK(meter.Read().mean_loss == 0);
  CHECK(absl::IsAborted(meter.Add(Examples(30), 1, 4, NAN, 0)));
}

TEST_CASE("the first losses do not stay in the recent one", "[job]") {
  TrainingMeter meter;
  for (int i = 0; i < 20; ++i) CHECK(meter.Add(Examples(1), 1, i, 1, 1).ok());
  CHECK(meter.Read().recent_loss == Approx(1));
  for (int i = 0; i < 20; ++i) CHECK(meter.Add(Examples(1), 1, i, 0, 1).ok());
  CHECK(meter.Read().recent_loss == Approx(0.5));
  for (int i = 0; i < 200; ++i) CHECK(meter.Add(Examples(1), 1, i, 0, 1).ok());
  CHECK(meter.Read().recent_loss < 0.02);
}

TEST_CASE("a checkpoint keeps the mean loss, also one that has it by closures", "[job]") {
  RunState state;
  state.batch_size = 10;
  state.steps_per_function = 2;
  state.meter.loss_sum = 90;
  state.meter.loss_weight = 30;
  std::string json = ToJson(state);
  const auto again = ParseRunState(json);
  REQUIRE(again.ok());
  CHECK(again->meter.loss_sum == 90);
  CHECK(again->meter.loss_weight == 30);
  const std::string now = "\"loss_weight\":30.0", before = "\"loss_count\":30";
  const size_t at = json.find(now);
  REQUIRE(at != std::string::npos);
  json.replace(at, now.size(), before);
  const auto old = ParseRunState(json);
  REQUIRE(old.ok());
  CHECK(old->meter.loss_sum / old->meter.loss_weight == Approx(3));
  CHECK(old->meter.loss_weight == 600);
}

}  // namespace
}  // namespace coxswain::runner
