#include "coordinator/core/step_pause.h"

#include <catch2/catch.hpp>

namespace coxswain::core {
namespace {

TEST_CASE("a pause begins with the first checkpoint that is wanted, and ends when it is written",
          "[step_pause]") {
  StepPause pause;
  CHECK_FALSE(pause.on());
  CHECK_FALSE(pause.Write());
  CHECK(pause.Want(nullptr));
  CHECK_FALSE(pause.Want(nullptr));  // of the same
  CHECK(pause.on());
  const auto turn = pause.Write();
  REQUIRE(turn);
  CHECK(turn->waiting.size() == 2);
  CHECK(pause.IsWriting(turn->number));
  CHECK_FALSE(pause.Write());
  CHECK(pause.Over(turn->number) == StepPause::Next::kStepsGoOn);
  CHECK_FALSE(pause.on());
  CHECK(pause.Over(turn->number) == StepPause::Next::kNothing);
}

TEST_CASE("a checkpoint that is wanted while one is written has a turn of its own, in one pause",
          "[step_pause]") {
  StepPause pause;
  pause.Want(nullptr);
  const auto first = pause.Write();
  REQUIRE(first);
  CHECK_FALSE(pause.Want(nullptr));
  CHECK_FALSE(pause.Write());
  CHECK(pause.Over(first->number) == StepPause::Next::kAnother);
  CHECK(pause.on());
  CHECK_FALSE(pause.IsWriting(first->number));
  const auto second = pause.Write();
  REQUIRE(second);
  CHECK(second->number != first->number);
  CHECK(second->waiting.size() == 1);
  CHECK(pause.Over(second->number) == StepPause::Next::kStepsGoOn);
}

TEST_CASE("who waits for a turn that has not come is told when the pause ends early",
          "[step_pause]") {
  StepPause pause;
  CHECK_FALSE(pause.End());
  pause.Want(nullptr);
  CHECK(pause.End()->size() == 1);
  pause.Want(nullptr);
  const auto turn = pause.Write();
  REQUIRE(turn);
  pause.Want(nullptr);
  CHECK(pause.End()->size() == 1);  // who waits for that turn is told of its own end
  CHECK_FALSE(pause.on());
  // That end is nothing to the next pause.
  pause.Want(nullptr);
  CHECK_FALSE(pause.IsWriting(turn->number));
  CHECK(pause.Over(turn->number) == StepPause::Next::kNothing);
  CHECK(pause.on());
}

}  // namespace
}  // namespace coxswain::core
