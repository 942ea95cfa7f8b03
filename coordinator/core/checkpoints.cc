#include "coordinator/core/checkpoints.h"

#include <optional>
#include <utility>

#include "runtime/base/status.h"

namespace coxswain::core {

void Checkpoints::Resume(checkpoint::Manifest manifest, std::string path, int64_t steps) {
  schedule_.Begun(steps);
  abandoned_ = manifest.abandoned;
  points_.Resume(std::move(manifest), std::move(path));
}

void Checkpoints::Start(std::shared_ptr<Checkpointer> writer, StartedFn started) {
  starting_ = {std::move(writer), std::move(started)};
  // It calls nobody any more once it is gone.
  starting_.writer->FindNumber([this](const absl::StatusOr<uint64_t>& next) {
    Starting starting = std::exchange(starting_, {});
    if (next.ok()) {
      starting.started(StartAt(std::move(starting.writer), *next));
    } else {
      starting.started(Annotate(next.status(), "checkpoints cannot be numbered"));
    }
  });
}

void Checkpoints::GiveUpStart(const absl::Status& why) {
  const Starting starting = std::exchange(starting_, {});
  if (starting.started) starting.started(why);
}

const CheckpointOptions* Checkpoints::options() const {
  const auto& writer = starting_.writer != nullptr ? starting_.writer : writer_;
  return writer == nullptr ? nullptr : &writer->options();
}

uint64_t Checkpoints::StartAt(std::shared_ptr<Checkpointer> writer, uint64_t next) {
  writer_ = std::move(writer);
  writer_->set_next_number(next);
  deltas_ = DeltaBases(writer_->options().keep);
  writes_.NumberFrom(next);
  // Those that are there were no good, or are another job's.
  abandoned_.Add(points_.empty() ? 1 : points_.newest().manifest.number + 1, next - 1);
  // Once there are others it may be none that the shards come from any more.
  if (points_.resumed() && points_.size() == 1) {
    deltas_.Add(points_.newest().manifest, points_.newest().path, writes_);
  }
  return schedule_.NewTimer();
}

bool Checkpoints::DueByTime(int64_t steps) const {
  return schedule_.Worthwhile(steps, writes_.unsaved()) && !writer_->busy();
}

bool Checkpoints::DueBySteps(int64_t steps) const {
  return writer_ != nullptr && schedule_.DueBySteps(steps, writer_->options().every_steps) &&
         !writer_->busy();
}

void Checkpoints::Begin(int64_t steps, Checkpointer::DoneFn done) {
  schedule_.Begun(steps);
  writes_.CheckpointBegins();
  writer_->Begin(std::move(done));
}

bool Checkpoints::Ended(const Checkpointer::Outcome& outcome) {
  schedule_.Ended(outcome.status.ok());
  if (outcome.may_be_visible) deltas_.Clear();
  if (!outcome.status.ok()) {
    writes_.CheckpointFailed();
    return false;
  }
  if (!points_.Add(outcome.manifest, outcome.path)) return false;  // several may have asked for it
  deltas_.Add(outcome.manifest, outcome.path, writes_);
  writes_.Trim(points_.oldest().manifest.number);
  return true;
}

void Checkpoints::WentBack(const std::set<ShardId>& shards, uint64_t number) {
  deltas_.WentBack(shards, number);
  if (shards.empty() || writer_ == nullptr) return;
  // Also one that failed: it may have become visible all the same.
  abandoned_.Add(number + 1, writer_->next_number() - 1);
}

const proto::SavedShard* Checkpoints::BaseOf(ShardId shard) const {
  return writer_->options().max_deltas > 0 ? deltas_.Find(shard) : nullptr;
}

bool Checkpoints::MakeWay(bool runs_again) {
  switch (writes_.Admit(runs_again, writer_ != nullptr && writer_->gathering())) {
    case RowWrites::Way::kHold:
      return false;
    case RowWrites::Way::kGoAfterAnother:
      writer_->BeginAnew();
      return true;
    case RowWrites::Way::kGo:
      return true;
  }
  return true;
}

uint64_t Checkpoints::WriteSent(ShardId shard) {
  // What is begun from now on has it.
  const uint64_t covered_by = writer_ == nullptr ? ~uint64_t{0} : writer_->next_to_save();
  writes_.Sent(shard, covered_by);
  deltas_.Written(shard);
  return covered_by;
}

void Checkpoints::WriteDone(ShardId shard, uint64_t covered_by) {
  std::optional<uint64_t> next;
  if (writer_ != nullptr) next = writer_->next_number();
  writes_.Done(shard, covered_by, next);
}

}  // namespace coxswain::core
