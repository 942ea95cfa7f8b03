// Who hears of tasks, and until when.
#include "coordinator/local/task_watch.h"

#include <atomic>
#include <catch2/catch.hpp>
#include <functional>
#include <memory>
#include <thread>
#include <utility>

#include "absl/status/status.h"
#include "absl/synchronization/notification.h"
#include "absl/time/time.h"

namespace coxswain::local {
namespace {

constexpr absl::Duration kPatience = absl::Seconds(60);

LocalTaskEvents OnHopeless(std::function<void()> call) {
  LocalTaskEvents events;
  events.on_hopeless = [call = std::move(call)](const absl::Status&) { call(); };
  return events;
}

void Tell(TaskWatch* watch) {
  watch->Do([](const LocalTaskEvents& events) { events.on_hopeless(absl::OkStatus()); });
}

TEST_CASE("an event may end the watch, and there is none after it", "[local]") {
  TaskWatch watch;
  Tell(&watch);  // to nobody
  int told = 0;
  watch.Begin(OnHopeless([&] {
    ++told;
    CHECK(watch.watched());
    watch.End();
  }));
  for (int i = 0; i < 2; ++i) Tell(&watch);
  CHECK(told == 1);
  CHECK_FALSE(watch.watched());
}

TEST_CASE("a watch that has ended has no event under way, and holds nothing of it", "[local]") {
  TaskWatch watch;
  absl::Notification told, go_on;
  auto held = std::make_shared<std::atomic<bool>>(false);
  const std::weak_ptr<std::atomic<bool>> weak = held;
  watch.Begin(OnHopeless([&, held] {
    told.Notify();
    go_on.WaitForNotification();
    *held = true;
  }));
  std::thread tells([&] { Tell(&watch); });
  REQUIRE(told.WaitForNotificationWithTimeout(kPatience));
  std::thread ends([&] {
    watch.End();
    CHECK(*held);
    held = nullptr;
    CHECK(weak.expired());
  });
  go_on.Notify();
  ends.join();
  tells.join();
}

}  // namespace
}  // namespace coxswain::local
