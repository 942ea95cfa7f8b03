#include "tests/sim/sim_env.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>

#include "runtime/env/strand_queue.h"

namespace coxswain::sim {

class SimPool final : public env::ComputePool {
 public:
  SimPool(World* world, LifePtr life, absl::Duration task_time, double chance)
      : world_(world),
        life_(std::move(life)),
        fixed_(chance < 1 ? task_time * (1 - chance) : absl::ZeroDuration()),
        random_(task_time - fixed_) {}

  void Schedule(absl::AnyInvocable<void()> task) override {
    if (life_->draining) {
      task();
      return;
    }
    const uint64_t number = ++last_;
    tasks_.emplace(number, std::move(task));
    world_->ScheduleOn(thread_, fixed_ + world_->random().Exponential(random_), life_,
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
  const absl::Duration fixed_, random_;  // of the time of a task; of the latter the mean
  const ThreadPtr thread_ = std::make_shared<Thread>();
  uint64_t last_ = 0;
  std::map<uint64_t, Task> tasks_;
};

// The threads of one loop.
class SimEnv::LoopHost final : public env::StrandHost {
 public:
  LoopHost(SimEnv* env, ThreadPtr thread) : env_(env), thread_(std::move(thread)) {}

  TurnLimit limit() override {
    if (env_->life_->draining) return {std::numeric_limits<int>::max(), absl::InfiniteDuration()};
    constexpr int kTasks[] = {1, 4, 64};
    return {kTasks[env_->life_->number % 3], absl::Milliseconds(1)};
  }
  absl::Duration Now() override { return env_->world_->now(); }
  bool MayBorrow() override {
    if (env_->life_->draining) return true;
    const double deferred = env_->options_.deferred_posts;
    if (deferred > 0 && env_->world_->random().Chance(deferred)) return false;
    return busy_until_ <= Now();
  }
  void RunTurn(absl::AnyInvocable<void()> turn) override {
    World* const world = env_->world_;
    const uint64_t number = ++env_->last_turn_;
    env_->turns_.emplace(number, std::move(turn));
    // What comes after time that was spent in another loop comes early, as all does that it finds
    // there: or nothing that others bring meanwhile would be done before.
    const absl::Duration begun = Now() - world->spent();
    const absl::Duration wake_up = world->random().Exponential(absl::Microseconds(50));
    world->ScheduleOn(thread_, std::max(begun + wake_up, busy_until_) - Now(), env_->life_,
                      [env = env_, number] { env->RunTurn(number); });
  }

  // A task of the loop has come to its end. One that takes no time keeps nobody waiting, also when
  // it comes at the end of an event that took some, of another loop.
  void TaskDone(absl::Duration began) {
    if (Now() > began) busy_until_ = std::max(busy_until_, Now());
  }

 private:
  SimEnv* const env_;
  const ThreadPtr thread_;
  absl::Duration busy_until_;
};

class SimEnv::Loop final : public env::EventLoop {
 public:
  Loop(SimEnv* env, const ThreadPtr& thread)
      : env_(env),
        host_(std::make_shared<LoopHost>(env, thread)),
        queue_(std::make_shared<env::StrandQueue>(host_.get())) {}
  ~Loop() override { queue_->Close(); }

  void Post(Task task) override { PostTo(host_, queue_, std::move(task), Where::kHere); }
  void PostLong(Task task) override {
    const bool draining = env_->life_->draining;
    PostTo(host_, queue_, std::move(task), draining ? Where::kHere : Where::kOnLoopThread);
  }

  TimerId PostAfter(absl::Duration delay, Task task) override {
    return env_->world_->ScheduleOn(env_->timer_thread_, delay, env_->life_,
                                    [host = host_, weak = std::weak_ptr<env::StrandQueue>(queue_),
                                     task = std::move(task)]() mutable {
                                      if (auto queue = weak.lock())
                                        PostTo(host, queue, std::move(task), Where::kNotHere);
                                    });
  }

  void Cancel(TimerId timer) override { env_->world_->Cancel(timer); }
  bool OnLoop() const override { return queue_->RunsHere(); }

 private:
  using Where = env::StrandQueue::Where;

  static void PostTo(const std::shared_ptr<LoopHost>& host,
                     const std::shared_ptr<env::StrandQueue>& queue, Task task, Where where) {
    const std::shared_ptr<env::StrandQueue> keep = queue;
    keep->Post(
        [host, task = std::move(task)]() mutable {
          const absl::Duration began = host->Now();
          task();
          host->TaskDone(began);
        },
        where);
  }

  SimEnv* const env_;
  const std::shared_ptr<LoopHost> host_;
  const std::shared_ptr<env::StrandQueue> queue_;
};

namespace {

// Not of the world's source of chance: what else happens does not depend on it.
absl::Duration SkewOf(const World& world, const Life& life, absl::Duration most) {
  Random random(world.seed() * 0x9e3779b97f4a7c15 + life.number);
  return most == absl::ZeroDuration() ? most : random.Between(-most, most);
}

}  // namespace

SimEnv::SimEnv(World* world, Disk* disk, LifePtr life, Options options, FaultHook hook)
    : world_(world),
      life_(std::move(life)),
      options_(options),
      hook_(std::move(hook)),
      clock_is_off_(SkewOf(*world, *life_, options.clock_skew)),
      files_(disk->NewFileSystem(life_)),
      pool_(std::make_unique<SimPool>(world, life_, options.task_time, options.task_chance)) {}

SimEnv::~SimEnv() = default;

absl::Time SimEnv::Now() { return Epoch() + world_->now() + clock_is_off_; }

std::unique_ptr<env::EventLoop> SimEnv::NewLoop() {
  return std::make_unique<Loop>(this, loop_thread_);
}

std::unique_ptr<env::EventLoop> SimEnv::NewComputeLoop() {
  return std::make_unique<Loop>(this, std::make_shared<Thread>());
}

void SimEnv::RunTurn(uint64_t number) {
  auto node = turns_.extract(number);
  if (!node.empty()) node.mapped()();
}

env::ComputePool* SimEnv::pool() { return pool_.get(); }

void SimEnv::FaultPoint(const char* name) {
  if (options_.segment_time > absl::ZeroDuration() && !life_->draining &&
      std::strcmp(name, "ps.segment.applied") == 0) {
    const absl::Duration half = options_.segment_time / 2;
    world_->Spend(half + world_->random().Between(absl::ZeroDuration(), 2 * half));
  }
  if (life_->alive && hook_) hook_(life_, name);
}

void SimEnv::Drain() {
  life_->draining = true;
  for (bool more = true; more;) {
    while (!turns_.empty()) RunTurn(turns_.begin()->first);
    more = pool_->Drain();
    for (const auto& run : drains_) more = run() || more;
  }
}

}  // namespace coxswain::sim
