// What a checkpoint remembers of a job's evaluations and of its learning rates.
#include "coordinator/runner/run_state.h"

#include <catch2/catch.hpp>
#include <string>
#include <utility>
#include <vector>

namespace coxswain::runner {
namespace {

TEST_CASE("scores of another metric or of other examples are not compared", "[job]") {
  RunState state;
  state.batch_size = 10;
  state.best = 0.7;
  state.best_of = "auc of the validation part";
  state.evaluations_without_gain = 2;
  state.best_file = "best-1";
  state.plateau.best = 0.7;
  state.plateau.best_of = state.best_of;
  const std::string json = ToJson(state);
  const auto resumed = [&](const std::string& stopping, const std::string& plateau) {
    RunState read = ParseRunState(json).value();
    return std::pair{ForgetOtherScores(stopping, plateau, &read).size(), read};
  };
  const std::string other = "logloss of the validation part";
  const auto [none, same] = resumed(state.best_of, state.best_of);
  CHECK(none == 0);
  CHECK(same.best == 0.7);
  CHECK(same.evaluations_without_gain == 2);
  CHECK(same.best_file == "best-1");
  const auto [one, changed] = resumed(other, state.best_of);
  CHECK(one == 1);
  CHECK_FALSE(changed.best.has_value());
  CHECK(changed.evaluations_without_gain == 0);
  CHECK(changed.best_file.empty());
  CHECK(changed.plateau.best == 0.7);
  const auto [two, both] = resumed(other, other);
  CHECK(two == 2);
  CHECK_FALSE(both.plateau.best.has_value());
  // Without early stopping what was the best is kept for when it comes back.
  CHECK(resumed("", "").first == 0);
  // Older checkpoints do not say what a score was of.
  state.best_of.clear();
  RunState old = ParseRunState(ToJson(state)).value();
  CHECK(ForgetOtherScores(other, "", &old).empty());
  CHECK(old.best == 0.7);
}

TEST_CASE("a step of a checkpoint has the learning rate of its place in the data", "[job]") {
  RunState state;
  state.plateau.factor = 0.25;
  // Older checkpoints do not say; all that they have goes on with the rates that there are.
  CHECK(RateFactorAt(state, {0, 0}) == 0.25);
  state.batch_size = 10;
  RunState resumed = StateToResume(state, {}, EpochSizes::Same(10, 1000));
  CHECK(RateFactorAt(resumed, {0, 0}) == 0.25);
  resumed.rate_changes.push_back({{7, 0}, 0.125});
  CHECK(RateFactorAt(resumed, {6, 990}) == 0.25);
  CHECK(RateFactorAt(resumed, {7, 0}) == 0.125);

  state.rate_changes = {{{1, 1000}, 0.5}, {{3, 200}, 0.25}};
  const auto read = ParseRunState(ToJson(state));
  REQUIRE(read.ok());
  CHECK(RateFactorAt(*read, {0, 0}) == 1);
  CHECK(RateFactorAt(*read, {1, 990}) == 1);
  CHECK(RateFactorAt(*read, {2, 0}) == 0.5);
  CHECK(RateFactorAt(*read, {3, 190}) == 0.5);
  CHECK(RateFactorAt(*read, {3, 200}) == 0.25);
  CHECK(RateFactorAt(*read, {9, 0}) == 0.25);
  state.rate_changes[0].factor = -1;
  CHECK_FALSE(ParseRunState(ToJson(state)).ok());
}

TEST_CASE("updates are counted by the batches of each, also where steps were over within one",
          "[job]") {
  RunState state;
  state.batch_size = 10;
  const auto updates = [&](int64_t steps) { return UpdatesOf(state, steps, 4, 90); };
  CHECK(updates(0) == 0);
  CHECK(updates(1) == 1);
  CHECK(updates(48) == 12);
  CHECK(updates(90) == 23);  // the last one of an epoch has 2
  CHECK(updates(91) == 24);
  CHECK(updates(270) == 69);
  state.short_updates = {49, 185};
  CHECK(updates(49) == 13);
  CHECK(updates(53) == 14);
  CHECK(updates(90) == 13 + 11);
  CHECK(updates(180) == 13 + 11 + 23);
  CHECK(updates(185) == 13 + 11 + 23 + 2);
  CHECK(updates(189) == 13 + 11 + 23 + 2 + 1);
  CHECK(updates(270) == 13 + 11 + 23 + 2 + 22);

  // What was not scheduled yet when the checkpoint was written is forgotten.
  const std::string json = ToJson(state);
  state.position = {1, 100};
  const RunState resumed = StateToResume(state, {}, EpochSizes::Same(10, 900));
  CHECK(resumed.short_updates == std::vector<int64_t>{49});
  CHECK(ParseRunState(json)->short_updates == std::vector<int64_t>{49, 185});
  state.short_updates = {49, 49};
  CHECK_FALSE(ParseRunState(ToJson(state)).ok());
}

}  // namespace
}  // namespace coxswain::runner
