#include "coordinator/core/owned_loop.h"

#include <catch2/catch.hpp>
#include <memory>
#include <vector>

#include "tests/testing/fake_tasks.h"

namespace coxswain::core {
namespace {

using testing::ManualLoop;

TEST_CASE("what comes after the owner has let go does nothing", "[controller]") {
  const auto manual = std::make_shared<ManualLoop>();
  OwnedLoop loop(manual);
  int ran = 0;
  loop.PostAfter(absl::Seconds(1), [&ran] { ++ran; });
  const std::function<void()> post = loop.Poster([&ran] { ++ran; });
  manual->Fire();
  post();
  CHECK(ran == 2);
  loop.PostAfter(absl::Seconds(1), [&ran] { ++ran; });
  loop.LetGo();
  manual->Fire();
  post();
  CHECK(ran == 2);
}

TEST_CASE("who posts from outside may outlive the loop", "[controller]") {
  std::function<void()> post;
  int ran = 0;
  {
    const OwnedLoop loop(std::make_shared<ManualLoop>());
    post = loop.Poster([&ran] { ++ran; });
    post();
  }
  post();
  CHECK(ran == 1);
}

TEST_CASE("an alarm rings once, at the time that was set last", "[controller]") {
  const auto manual = std::make_shared<ManualLoop>();
  OwnedLoop loop(manual);
  std::vector<int> rang;
  const auto set = [&](absl::Duration when, int number) {
    loop.SetAlarm(when, /*now=*/absl::Seconds(5), [&rang, number] { rang.push_back(number); });
  };
  set(absl::Seconds(9), 1);
  set(absl::Seconds(9), 2);  // it is set already
  set(absl::Seconds(7), 3);
  CHECK(manual->Fire() == 2);
  CHECK(rang == std::vector<int>{3});
  set(absl::Seconds(7), 4);  // it rang, so this is another one
  set(absl::InfiniteDuration(), 5);
  CHECK(manual->Fire() == 1);
  CHECK(rang == std::vector<int>{3});
}

}  // namespace
}  // namespace coxswain::core
