// One of the queues among which a PS deals out its shards, with the shards that it owns.
//
// A shard belongs to one lane from its making to its end, and only tasks of that lane touch it. So
// a PS uses as many threads as it has lanes, and there is no lock on the way to a row.
//
// Thread model: Post, PostLong, PostAfter, Cancel and RunAlone may be called on any thread, all
// else in a task of the lane. Tasks of a lane run in the order in which they were posted, on
// whatever thread finds the lane idle (see EventLoop).
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
  // Drops what is queued and waits for the task that runs, which may still use the loop. Nobody
  // else may post any more.
  ~Lane() override = default;

  void Post(Task task) override;
  void PostLong(Task task) override;
  TimerId PostAfter(absl::Duration delay, Task task) override;
  void Cancel(TimerId timer) override { loop_->Cancel(timer); }
  // Of the tasks of several lanes the last one's (RunAlone).
  bool OnLoop() const override { return loop_->OnLoop(); }

  // Runs `task` in all these lanes at once: none of them runs anything else meanwhile. `lanes` in
  // the order of their index, each once; they must live until the task was destroyed. `is_long`: it
  // may take milliseconds or more (PostLong).
  static void RunAlone(std::vector<Lane*> lanes, Task task, bool is_long);

  int index() const { return index_; }
  ShardStore* store() { return &store_; }

  // `task` waits until this synchronous step is applied here (SyncSteps), or the lane is set up
  // anew, and is posted then. No thread waits with it. False: too many wait already.
  bool Park(ClosureId after, Task task, bool is_long);
  // A step was applied: whoever waited for it goes on, in the order in which they came.
  void Unpark();
  size_t parked() const { return parked_.size(); }
  // Nothing of synchronous steps is held any more, and nobody waits.
  void ForgetSteps();

  // What was begun for another setup of the PS must have no effect (see PsService).
  uint64_t setup = 0;
  std::shared_ptr<ShardSaver> saver;  // null: none writes shards of this lane
  // Frames of steps that ended here, and what came and went with them.
  struct Traffic {
    uint64_t received = 0, answered = 0;  // frames
    int64_t bytes_received = 0, bytes_sent = 0;
  };
  Traffic traffic;

  // Each worker has a few frames here, so this is many workers; more than that is no worker.
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
  // Each of those that waited is a task of the loop again, before what comes later.
  void RunWaiting();
  template <typename Wanted>
  void UnparkThose(Wanted wanted);

  struct Parked {
    ClosureId after = 0;
    Task task;
    bool is_long = false;
  };

  const int index_;
  bool held_ = false;            // a task of several lanes runs, or waits for the others
  std::deque<Waiting> waiting_;  // meanwhile
  std::vector<Parked> parked_;
  ShardStore store_;
  std::unique_ptr<env::EventLoop> loop_;  // ends first
};

}  // namespace coxswain::ps
