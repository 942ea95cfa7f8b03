// What a process in a simulated world gets for a world.
//
// Loops are the strands of production (runtime/env/strand_queue.h), on threads of this world:
// whoever posts to an idle loop runs it on the spot, for a turn; now and then, as if another thread
// were in it, the loop runs a little later instead. Tasks of the pool run some time later, one at a
// time. A task that spends time (World::Spend) holds up the loop and the thread that it runs on.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "runtime/env/env.h"
#include "tests/sim/disk.h"
#include "tests/sim/world.h"

namespace coxswain::sim {

class SimPool;

class SimEnv final : public env::Env {
 public:
  struct Options {
    // How often a post to an idle loop does not run at once.
    double deferred_posts = 0.1;
    absl::Duration task_time = absl::Microseconds(200);  // of the pool, mean
    // Which share of that is left to chance; the rest is the same for all tasks.
    double task_chance = 1;
    // How long a PS computes for each segment, about; zero: no time.
    absl::Duration segment_time = absl::ZeroDuration();
    // Each process's wall clock is off by up to so much, either way; another one's by something
    // else.
    absl::Duration clock_skew = absl::Hours(24 * 3650);
  };
  // `hook` is asked at every fault point; it may mark the life as dead.
  using FaultHook = std::function<void(const LifePtr& life, const char* point)>;

  // World and disk must outlive the env.
  SimEnv(World* world, Disk* disk, LifePtr life, Options options, FaultHook hook);
  ~SimEnv() override;

  absl::Time Now() override;
  absl::Duration Monotonic() override { return world_->now(); }
  uint64_t Random64() override { return world_->random().Next(); }
  std::unique_ptr<env::EventLoop> NewLoop() override;
  std::unique_ptr<env::EventLoop> NewComputeLoop() override;
  env::ComputePool* pool() override;
  env::FileSystem* files() override { return files_.get(); }
  void FaultPoint(const char* name) override;

  // Runs what a loop has handed over, if it has not run yet.
  void RunTurn(uint64_t number);
  // The process is dead: runs what it still has to do, unseen, so that its destructors wait for
  // nothing.
  void Drain();
  // What else a dead process has to do, beside loops and pool: whether `run` found anything.
  void AddDrain(std::function<bool()> run) { drains_.push_back(std::move(run)); }

  // The right time at the world's beginning.
  static absl::Time Epoch() { return absl::FromUnixSeconds(1'800'000'000); }

 private:
  World* const world_;
  const LifePtr life_;
  const Options options_;
  const FaultHook hook_;
  const absl::Duration clock_is_off_;
  std::unique_ptr<env::FileSystem> files_;
  std::unique_ptr<SimPool> pool_;
  class LoopHost;
  class Loop;
  // One for all loops but those that compute, which have one each.
  const ThreadPtr loop_thread_ = std::make_shared<Thread>();
  const ThreadPtr timer_thread_ = std::make_shared<Thread>();
  // What loops have handed over.
  uint64_t last_turn_ = 0;
  std::map<uint64_t, Task> turns_;
  std::vector<std::function<bool()>> drains_;
};

}  // namespace coxswain::sim
