// What signals call, in a process of its own: it is the process that waits for signals.
#include "coordinator/cli/interrupt.h"

#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string>
#include <thread>

#include "absl/synchronization/notification.h"
#include "absl/time/time.h"
#include "tests/testing/process.h"

namespace coxswain::cli {
namespace {

constexpr absl::Duration kPatience = absl::Seconds(30);
constexpr char kInside[] = "COXSWAIN_TEST_INTERRUPT";

// Whether `test` is to run here; else it was run.
bool Inside(const std::string& tag) {
  if (std::getenv(kInside) != nullptr) return true;
  const auto self = std::filesystem::read_symlink("/proc/self/exe").string();
  const auto inside = Run({self, tag}, {{kInside, "1"}}, 3 * kPatience);
  INFO(inside.out << inside.err);
  CHECK(inside.code == 0);
  return false;
}

TEST_CASE("what an interrupt calls may begin and end what a hangup calls",
          "[cli][interrupt_calls]") {
  if (!Inside("[interrupt_calls]")) return;
  StartInterruptThread();
  CHECK_FALSE(InterruptScope::interrupted());
  absl::Notification called;
  const InterruptScope scope([&called] {
    {
      const HangupScope hangup([] {});
    }
    called.Notify();
  });
  kill(getpid(), SIGINT);
  // Else the signal's thread waits for itself; nobody could end this process in an orderly way.
  if (!called.WaitForNotificationWithTimeout(kPatience)) _exit(1);
  CHECK(InterruptScope::interrupted());
}

TEST_CASE("what an interrupt calls is over when its scope has ended", "[cli][interrupt_ends]") {
  if (!Inside("[interrupt_ends]")) return;
  StartInterruptThread();
  absl::Notification called, go_on;
  std::atomic<bool> over{false};
  std::optional<InterruptScope> scope;
  scope.emplace([&] {
    called.Notify();
    go_on.WaitForNotification();
    over = true;
  });
  kill(getpid(), SIGTERM);
  REQUIRE(called.WaitForNotificationWithTimeout(kPatience));
  std::thread ends([&] {
    scope.reset();
    if (!over) _exit(1);
  });
  go_on.Notify();
  ends.join();
}

TEST_CASE("a hangup calls its scope, and is no interrupt", "[cli][hangup_calls]") {
  if (!Inside("[hangup_calls]")) return;
  StartInterruptThread();
  absl::Notification called;
  const HangupScope scope([&called] { called.Notify(); });
  kill(getpid(), SIGHUP);
  REQUIRE(called.WaitForNotificationWithTimeout(kPatience));
  CHECK_FALSE(InterruptScope::interrupted());
}

}  // namespace
}  // namespace coxswain::cli
