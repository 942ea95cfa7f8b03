#include <catch2/catch.hpp>

#include "runtime/base/pace.h"

namespace coxswain {
namespace {

TEST_CASE("what was never done may take for ever", "[pace]") {
  CHECK(Pace().expected() == absl::InfiniteDuration());
}

TEST_CASE("what took seconds is expected to take long for a good while", "[pace]") {
  Pace pace;
  pace.Add(absl::Seconds(6));
  CHECK(pace.expected() == absl::Seconds(6));
  for (int i = 0; i < 50; ++i) pace.Add(absl::Microseconds(10));
  CHECK(pace.expected() > kBorrowedTime);
  for (int i = 0; i < 1000; ++i) pace.Add(absl::Microseconds(10));
  CHECK(pace.expected() < kBorrowedTime);
  pace.Add(absl::Seconds(6));  // once is enough
  CHECK(pace.expected() == absl::Seconds(6));
}

TEST_CASE("what was interrupted for some milliseconds is still expected to be short", "[pace]") {
  Pace pace;
  for (int i = 0; i < 100; ++i) {
    pace.Add(absl::Microseconds(200));
    pace.Add(absl::Milliseconds(8));
    pace.Add(absl::Microseconds(200));
  }
  CHECK(pace.expected() == absl::Microseconds(200));
  pace.Add(absl::Milliseconds(8));
  pace.Add(absl::Milliseconds(9));  // again: it takes that long now
  CHECK(pace.expected() == absl::Milliseconds(8));
}

}  // namespace
}  // namespace coxswain
