// The thread that waits for descriptors, where the system will not watch another one.
#include "runtime/net/poller.h"

#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include <memory>

#include "absl/synchronization/notification.h"
#include "runtime/net/unique_fd.h"
#include "tests/unit/runtime/net/failing_epoll.h"
#include "tests/unit/runtime/net/harness.h"

namespace coxswain::net_testing {
namespace {

class Source final : public net::PollerSource {
 public:
  explicit Source(int fd) : fd_(fd) {}
  int fd() const override { return fd_.get(); }
  bool OnReady() override {
    ready.Notify();
    return false;
  }
  void OnForgotten() override { forgotten.Notify(); }

  absl::Notification ready, forgotten;

 private:
  const net::UniqueFd fd_;
};

TEST_CASE("a descriptor that cannot be watched is refused, and the others go on", "[net]") {
  const auto poller = net::Poller::Make();
  REQUIRE(poller.ok());
  auto refused = std::make_shared<Source>(memfd_create("a file", MFD_CLOEXEC));
  auto good = std::make_shared<Source>(eventfd(0, EFD_CLOEXEC));
  // Nobody waits for a file.
  CHECK(absl::IsResourceExhausted((*poller)->Add(refused)));
  CHECK(refused.use_count() == 1);
  {
    const FailingEpoll none;
    CHECK(absl::IsResourceExhausted((*poller)->Add(good)));
    CHECK(absl::IsResourceExhausted(net::Poller::Make().status()));
  }
  REQUIRE((*poller)->Add(good).ok());
  const uint64_t one = 1;
  REQUIRE(write(good->fd(), &one, sizeof(one)) == sizeof(one));
  CHECK(good->ready.WaitForNotificationWithTimeout(kPatience));
  CHECK(good->forgotten.WaitForNotificationWithTimeout(kPatience));
  CHECK_FALSE(refused->ready.HasBeenNotified());
}

}  // namespace
}  // namespace coxswain::net_testing
