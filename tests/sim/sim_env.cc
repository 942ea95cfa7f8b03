#include "tests/sim/sim_env.h"

#include <deque>
#include <utility>

namespace coxswain::sim {

class SimPool final : public ComputePool {
 public:
  SimPool(World* world, LifePtr life, absl::Duration task_time)
      : world_(world), life_(std::move(life)), task_time_(task_time) {}

  void Schedule(absl::AnyInvocable<void()> task) override {
    if (life_->draining) {
      task();
      return;
    }
    const uint64_t number = ++last_;
    tasks_.emplace(number, std::move(task));
    world_->Schedule(world_->random().Exponential(task_time_), life_,
                     [this, number] { Run(number); });
  }

  void ParallelFor(int64_t n, int64_t, absl::FunctionRef<void(int64_t, int64_t)> body) override {
    if (n > 0) body(0, n);
  }
  int threads() const override { return 1; }
  double busy_seconds() const override { return 0; }

  bool Drain() {
    if (tasks_.empty()) return false;
    Run(tasks_.begin()->first);
    return true;
  }

 private:
  void Run(uint64_t number) {
    auto node = tasks_.extract(number);
    if (!node.empty()) node.mapped()();
  }

  World* const world_;
  const LifePtr life_;
  const absl::Duration task_time_;
  uint64_t last_ = 0;
  std::map<uint64_t, Task> tasks_;
};

struct SimEnv::LoopState {
  std::deque<Task> queue;
  bool running = false;
  bool deferred = false;  // an event will run it
  bool closed = false;

  void Run() {
    if (running) return;
    running = true;
    while (!queue.empty()) {
      Task task = std::move(queue.front());
      queue.pop_front();
      task();
    }
    running = false;
  }
};

class SimEnv::Loop final : public EventLoop {
 public:
  Loop(World* world, LifePtr life, double deferred_posts)
      : world_(world),
        life_(std::move(life)),
        deferred_posts_(deferred_posts),
        state_(std::make_shared<LoopState>()) {}
  ~Loop() override {
    state_->closed = true;
    state_->queue.clear();
  }

  void Post(Task task) override { PostTo(world_, life_, deferred_posts_, state_, std::move(task)); }

  TimerId PostAfter(absl::Duration delay, Task task) override {
    return world_->Schedule(
        delay, life_,
        [world = world_, life = life_, deferred = deferred_posts_,
         weak = std::weak_ptr<LoopState>(state_), task = std::move(task)]() mutable {
          auto state = weak.lock();
          if (state == nullptr) return;
          PostTo(world, life, deferred, state, std::move(task));
        });
  }

  void Cancel(TimerId timer) override { world_->Cancel(timer); }

  const std::shared_ptr<LoopState>& state() const { return state_; }

 private:
  static void PostTo(World* world, const LifePtr& life, double deferred_posts,
                     const std::shared_ptr<LoopState>& state, Task task) {
    if (state->closed) return;
    const std::shared_ptr<LoopState> keep = state;
    keep->queue.push_back(std::move(task));
    if (keep->running) return;
    if (life->draining) {
      keep->Run();
      return;
    }
    if (keep->deferred) return;
    if (deferred_posts > 0 && world->random().Chance(deferred_posts)) {
      keep->deferred = true;
      world->Schedule(world->random().Exponential(absl::Microseconds(100)), life, [keep] {
        keep->deferred = false;
        keep->Run();
      });
      return;
    }
    keep->Run();
  }

  World* const world_;
  const LifePtr life_;
  const double deferred_posts_;
  const std::shared_ptr<LoopState> state_;
};

SimEnv::SimEnv(World* world, Disk* disk, LifePtr life, Options options, FaultHook hook)
    : world_(world),
      life_(std::move(life)),
      options_(options),
      hook_(std::move(hook)),
      files_(disk->NewFileSystem(life_)),
      pool_(std::make_unique<SimPool>(world, life_, options.task_time)) {}

SimEnv::~SimEnv() = default;

absl::Time SimEnv::Now() { return Epoch() + world_->now(); }

std::unique_ptr<EventLoop> SimEnv::NewLoop() {
  auto loop = std::make_unique<Loop>(world_, life_, options_.deferred_posts);
  loops_.push_back(loop->state());
  return loop;
}

ComputePool* SimEnv::pool() { return pool_.get(); }

void SimEnv::FaultPoint(const char* name) {
  if (life_->alive && hook_) hook_(life_, name);
}

void SimEnv::Drain() {
  life_->draining = true;
  for (;;) {
    for (size_t i = 0; i < loops_.size(); ++i) {
      if (auto state = loops_[i].lock(); state != nullptr && !state->closed) state->Run();
    }
    if (!pool_->Drain()) break;
  }
}

}  // namespace coxswain::sim
