#include "tests/sim/rival.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/base/status.h"

namespace coxswain::sim {

RivalProcess::RivalProcess(const Place& place, core::ControllerOptions options,
                           std::vector<proto::ShardSpec> shards, Job::Totals* totals,
                           std::function<void()> end)
    : place_(place),
      options_(std::move(options)),
      shards_(std::move(shards)),
      totals_(totals),
      end_(std::move(end)) {}

RivalProcess::~RivalProcess() {
  if (controller_ != nullptr) controller_->Abandon();
}

void RivalProcess::Start() {
  ++totals_->rivals;
  core::ControllerOptions options = options_;
  options.on_event = [](const ClusterEvent&) {};
  controller_ =
      std::make_unique<core::Controller>(place_.env, place_.transport, std::move(options));
  controller_->Start([this, life = place_.life](const absl::Status& status) {
    if (life->alive) OnStarted(status);
  });
}

void RivalProcess::OnStarted(const absl::Status& status) {
  place_.world->Note(kNoteJob, 5, static_cast<uint64_t>(status.code()),
                     [&] { return absl::StrCat(place_.life->name, ": ", status.ToString()); });
  const auto detail = GetDetail(status);
  const bool refused = detail && (detail->cause == ErrorCause::kClusterHeld ||
                                  detail->cause == ErrorCause::kUnreachable);
  if (!status.ok()) {
    if (!refused) {
      place_.world->Violation(absl::StrCat(place_.life->name, " ends with ", status.ToString()));
    }
    end_();
    return;
  }
  ++totals_->rivals_held;
  controller_->CreateShards(shards_, [](const absl::Status&) {});
  place_.world->Schedule(place_.world->random().Between(absl::Milliseconds(1), absl::Seconds(3)),
                         place_.life, end_);
}

}  // namespace coxswain::sim
