// What a process in a simulated world gets for a world.
//
// Loops are strands as in production: whoever posts to an idle loop runs it on the spot. Now and
// then, as if another thread were in it, the loop runs a little later instead. Tasks of the pool
// run some time later, one at a time.
#pragma once

#include <functional>
#include <map>
#include <memory>

#include "runtime/env/env.h"
#include "tests/sim/disk.h"
#include "tests/sim/world.h"

namespace coxswain::sim {

class SimPool;

class SimEnv final : public Env {
 public:
  struct Options {
    // How often a post to an idle loop does not run at once.
    double deferred_posts = 0.1;
    absl::Duration task_time = absl::Microseconds(200);  // of the pool, mean
  };
  // `hook` is asked at every fault point; it may mark the life as dead.
  using FaultHook = std::function<void(const LifePtr& life, const char* point)>;

  // World and disk must outlive the env.
  SimEnv(World* world, Disk* disk, LifePtr life, Options options, FaultHook hook);
  ~SimEnv() override;

  absl::Time Now() override;
  absl::Duration Monotonic() override { return world_->now(); }
  uint64_t Random64() override { return world_->random().Next(); }
  std::unique_ptr<EventLoop> NewLoop() override;
  ComputePool* pool() override;
  FileSystem* files() override { return files_.get(); }
  void FaultPoint(const char* name) override;

  // The process is dead: runs what it still has to do, unseen, so that its destructors wait for
  // nothing.
  void Drain();

  // The wall clock at the world's beginning.
  static absl::Time Epoch() { return absl::FromUnixSeconds(1'800'000'000); }

 private:
  World* const world_;
  const LifePtr life_;
  const Options options_;
  const FaultHook hook_;
  std::unique_ptr<FileSystem> files_;
  std::unique_ptr<SimPool> pool_;
  struct LoopState;
  class Loop;
  std::vector<std::weak_ptr<LoopState>> loops_;
};

}  // namespace coxswain::sim
