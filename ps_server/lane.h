// A lane: one of the task queues of a PS, with the shards that it owns.
//
// A shard belongs to one lane for its whole life, and only tasks of that lane touch it. So a PS
// uses as many threads as it has lanes, and access to rows needs no locks.
//
// Thread model: Post, PostLong, PostAfter, Cancel and RunAlone may be called on any thread, all
// other methods in a task of the lane. Tasks of a lane run in the order in which they were posted,
// on whichever thread finds the lane idle (see EventLoop).
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "ps_server/shard_saver.h"
#include "ps_server/shard_store.h"
#include "runtime/env/event_loop.h"

namespace coxswain::ps {

class Lane final : public env::EventLoop {
 public:
  Lane(int index, std::unique_ptr<env::EventLoop> loop) : index_(index), loop_(std::move(loop)) {}
  // Drops queued tasks and waits for the running one, which may still use the loop. No other code
  // may post any more.
  ~Lane() override = default;

  void Post(Task task) override;
  void PostLong(Task task) override;
  TimerId PostAfter(absl::Duration delay, Task task) override;
  void Cancel(TimerId timer) override { loop_->Cancel(timer); }
  // In a task of several lanes (RunAlone), true for the last lane.
  bool OnLoop() const override { return loop_->OnLoop(); }

  // Runs `task` in all these lanes at once: none of them runs another task meanwhile. `lanes` must
  // be in the order of their index, each once, and must live until the task is destroyed.
  // `is_long`: the task may take milliseconds or more (PostLong).
  static void RunAlone(std::vector<Lane*> lanes, Task task, bool is_long);

  int index() const { return index_; }
  ShardStore* store() { return &store_; }

  // Defers `task` until this synchronous step is applied here (SyncSteps), or the lane is set up
  // again; then posts it. Blocks no thread. False: too many tasks wait already.
  bool Park(ClosureId after, Task task, bool is_long);
  // A step was applied: posts the tasks that waited for it, in the order in which they were parked.
  void Unpark();
  size_t parked() const { return parked_.size(); }
  // Drops all gradients held for synchronous steps, and posts all parked tasks.
  void ForgetSteps();

  // Work that was begun for another setup of the PS must have no effect (see PsService).
  uint64_t setup = 0;
  std::shared_ptr<ShardSaver> saver;  // null: no save of this lane's shards is under way
  // Frames of steps that ended in this lane, and their bytes.
  struct Traffic {
    uint64_t received = 0, answered = 0;  // frames
    int64_t bytes_received = 0, bytes_sent = 0;
  };
  Traffic traffic;

  // A worker has only a few frames in a lane, so no real number of workers exceeds this bound.
  static constexpr size_t kMostParked = size_t{1} << 16;

 private:
  struct Alone;
  struct Waiting {
    Task task;
    bool is_long = false;
  };
  static void TakeNext(std::shared_ptr<Alone> alone);
  void PostTo(Task task, bool is_long);  // of the loop
  void Run(Task task, bool is_long);
  // Posts the waiting tasks to the loop again, before later ones.
  void RunWaiting();
  template <typename Wanted>
  void UnparkThose(Wanted wanted);

  struct Parked {
    ClosureId after = 0;
    Task task;
    bool is_long = false;
  };

  const int index_;
  bool held_ = false;            // a task of several lanes runs, or waits for the other lanes
  std::deque<Waiting> waiting_;  // meanwhile
  std::vector<Parked> parked_;
  ShardStore store_;
  std::unique_ptr<env::EventLoop> loop_;  // destroyed first
};

}  // namespace coxswain::ps
