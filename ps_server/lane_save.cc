#include "ps_server/lane_save.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/container/flat_hash_map.h"

namespace coxswain::ps {

LaneSave::LaneSave(env::Env* env, env::EventLoop* loop, cluster::PendingTasks* tasks,
                   trace::TraceRecorder* trace, proto::SaveShards request)
    : env_(env),
      loop_(loop),
      tasks_(tasks),
      trace_(trace),
      request_(std::move(request)),
      began_(trace->Now()) {}

void LaneSave::Start(absl::FunctionRef<Lane*(ShardId)> lane_of, Done done) {
  done_ = std::move(done);
  proto::SaveShards common = request_;
  common.clear_shards();
  common.clear_bases();
  std::map<int, OfLane> by_lane;
  for (const ShardId id : request_.shards()) {
    Lane* const lane = lane_of(id);
    OfLane& of_lane = by_lane.try_emplace(lane->index(), OfLane{lane, common, {}}).first->second;
    of_lane.request.add_shards(id);
    for (const proto::SavedShard& base : request_.bases()) {
      if (base.shard().id() == id) *of_lane.request.add_bases() = base;
    }
  }
  for (auto& [lane, of_lane] : by_lane) lanes_.push_back(std::move(of_lane));
  to_cut_ = to_write_ = lanes_.size();
  if (lanes_.empty()) Finish();
  for (size_t i = 0; i < lanes_.size(); ++i) {
    cluster::PendingTasks::Token token = tasks_->Start();
    if (!token) return;
    lanes_[i].lane->Post([self = shared_from_this(), i, token = std::move(token)]() mutable {
      self->Cut(i, std::move(token));
    });
  }
}

void LaneSave::Stop(const absl::Status& why) {
  if (stopped()) return;
  status_ = why;
  for (const OfLane& of_lane : lanes_) {
    of_lane.lane->Post([lane = of_lane.lane, why] {
      if (lane->saver != nullptr) lane->saver->Stop(why);
    });
  }
}

void LaneSave::Cut(size_t i, cluster::PendingTasks::Token token) {
  Lane* const lane = lanes_[i].lane;
  trace::TraceScope cut(trace_, trace::SpanKind::kCheckpointCut);
  auto saver = ShardSaver::Create(env_, lane, tasks_, *lane->store(), lanes_[i].request);
  cut.End();
  if (saver.ok()) {
    lane->saver = *saver;
    env_->FaultPoint("ps.save.cut");
  }
  loop_->Post([self = shared_from_this(), token = std::move(token), status = saver.status()] {
    self->OnCut(status);
  });
}

void LaneSave::OnCut(const absl::Status& status) {
  if (!status.ok()) Stop(status);
  if (--to_cut_ > 0) return;
  const int writers = std::max(1, env_->pool()->threads() / 2);
  for (int i = 0; i < writers; ++i) WriteNext();
}

void LaneSave::WriteNext() {
  if (next_ == lanes_.size()) return;
  cluster::PendingTasks::Token token = tasks_->Start();
  if (!token) return;
  const size_t i = next_++;
  lanes_[i].lane->Post(
      [self = shared_from_this(), i, token = std::move(token)] { self->Write(i); });
}

void LaneSave::Write(size_t i) {
  Lane* const lane = lanes_[i].lane;
  // It holds no token: the saver keeps it, also when the pool drops its chunk.
  auto over = [self = shared_from_this(), i, lane](absl::StatusOr<proto::ShardsSaved> saved) {
    lane->saver = nullptr;
    self->loop_->Post(
        [self, i, saved = std::move(saved)]() mutable { self->OnWritten(i, std::move(saved)); });
  };
  const std::shared_ptr<ShardSaver> saver = lane->saver;
  if (saver == nullptr || saver->stopped()) {
    over(absl::CancelledError("the save was stopped"));  // status_ says why
  } else {
    saver->Start(std::move(over));
  }
}

void LaneSave::OnWritten(size_t i, absl::StatusOr<proto::ShardsSaved> saved) {
  if (saved.ok()) {
    lanes_[i].saved = *std::move(saved);
  } else {
    Stop(saved.status());
  }
  WriteNext();
  if (--to_write_ == 0) Finish();
}

void LaneSave::Finish() {
  Done done = std::exchange(done_, nullptr);
  trace_->Record(trace::SpanKind::kCheckpointSave, began_, trace_->Now());
  if (!status_.ok()) {
    done(status_);
    return;
  }
  proto::ShardsSaved all;
  absl::flat_hash_map<ShardId, proto::SavedShard*> by_id;
  for (OfLane& of_lane : lanes_) {
    for (proto::SavedShard& shard : *of_lane.saved.mutable_shards()) {
      by_id[shard.shard().id()] = &shard;
    }
    all.set_seconds(std::max(all.seconds(), of_lane.saved.seconds()));
    all.set_stall_seconds(std::max(all.stall_seconds(), of_lane.saved.stall_seconds()));
  }
  for (const ShardId id : request_.shards()) {
    if (const auto saved = by_id.find(id); saved != by_id.end()) *all.add_shards() = *saved->second;
  }
  done(std::move(all));
}

}  // namespace coxswain::ps
