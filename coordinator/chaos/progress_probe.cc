#include "coordinator/chaos/progress_probe.h"

#include <algorithm>
#include <utility>

#include "absl/time/clock.h"
#include "coordinator/observe/observer.h"
#include "runtime/net/transport.h"

namespace coxswain::chaos {
namespace {

constexpr absl::Duration kTimeout = absl::Milliseconds(500);

}  // namespace

ProgressProbe::ProgressProbe(std::vector<std::string> ps_addresses, net::Credentials credentials,
                             absl::Duration interval)
    : addresses_(std::move(ps_addresses)),
      credentials_(std::move(credentials)),
      interval_(interval),
      thread_([this] { Run(); }) {}

ProgressProbe::~ProgressProbe() {
  stop_.Notify();
  thread_.join();
}

ProgressProbe::Reading ProgressProbe::Read() const {
  absl::MutexLock lock(&mu_);
  return reading_;
}

void ProgressProbe::Run() {
  const auto transport = net::NewClusterTransport(credentials_);
  std::vector<Counter> before(addresses_.size());
  while (!stop_.WaitForNotificationWithTimeout(interval_)) {
    const auto answers = observe::ObserveTasks(transport.get(), addresses_, kTimeout);
    for (size_t p = 0; p < answers.size(); ++p) {
      if (!answers[p].ok()) continue;
      const Counter now{answers[p]->incarnation(), answers[p]->held_by(),
                        answers[p]->segments_run()};
      const Counter old = std::exchange(before[p], now);
      if (now.holder.empty() || now.holder != old.holder || now.incarnation != old.incarnation ||
          now.segments <= old.segments) {
        continue;
      }
      absl::MutexLock lock(&mu_);
      for (const proto::ShardStatus& shard : answers[p]->shards()) {
        reading_.updates =
            std::max(reading_.updates, static_cast<int64_t>(shard.updates_applied()));
      }
      ++reading_.seen;
      reading_.holder = now.holder;
      reading_.last = absl::Now();
    }
  }
}

}  // namespace coxswain::chaos
