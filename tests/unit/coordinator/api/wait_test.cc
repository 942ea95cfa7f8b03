// How calls wait for the controller's answers.
#include "coordinator/api/wait.h"

#include <catch2/catch.hpp>
#include <functional>
#include <string>

#include "absl/status/status.h"

namespace coxswain {
namespace {

constexpr absl::Duration kShort = absl::Milliseconds(1);

TEST_CASE("a wait goes on for as long as it takes, and is reported again and again", "[api]") {
  std::function<void(absl::Status)> answer;
  int reports = 0;
  absl::Duration last;
  const absl::Status status =
      WaitForStatus([&](std::function<void(absl::Status)> done) { answer = std::move(done); },
                    [&](absl::Duration waited) {
                      CHECK(waited >= last);
                      last = waited;
                      if (++reports == 20) answer(absl::AbortedError("over"));
                    },
                    kShort);
  CHECK(status == absl::AbortedError("over"));
  CHECK(reports >= 20);
}

TEST_CASE("an answer that comes at once is not reported", "[api]") {
  const auto value = WaitForValue<std::string>(
      [](const std::function<void(absl::StatusOr<std::string>)>& done) { done("at once"); },
      [](absl::Duration) { FAIL("nobody waited"); }, kShort);
  CHECK(value.value() == "at once");
}

TEST_CASE("what a caller can do without is not waited for", "[api]") {
  std::function<void(absl::StatusOr<int>)> late;
  const auto value = AskForValue<int>(
      [&](std::function<void(absl::StatusOr<int>)> done) { late = std::move(done); }, kShort);
  CHECK(absl::IsDeadlineExceeded(value.status()));
  late(7);  // nobody is hurt
}

}  // namespace
}  // namespace coxswain
