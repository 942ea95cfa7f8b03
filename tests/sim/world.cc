#include "tests/sim/world.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>

namespace coxswain::sim {

uint64_t HashBytes(const void* data, size_t bytes, uint64_t hash) {
  const unsigned char* p = static_cast<const unsigned char*>(data);
  for (size_t i = 0; i < bytes; ++i) hash = (hash ^ p[i]) * 0x100000001b3;
  return hash;
}

World::World(uint64_t seed)
    : seed_(seed), tracing_(std::getenv("COXSWAIN_SIM_TRACE") != nullptr), random_(seed) {
  // Seeds of one after the other should not give worlds that are alike.
  random_.Next();
}

World::~World() = default;

LifePtr World::NewLife(const std::string& name, int node) {
  auto life = std::make_shared<Life>();
  life->name = name;
  life->node = node;
  life->number = ++last_life_;
  life->born = now();
  Note(kNoteLife, life->number, 0, [&] { return absl::StrCat(name, " starts"); });
  return life;
}

void World::MarkDead(Life* life) {
  if (!life->alive) return;
  life->alive = false;
  Note(kNoteLife, life->number, 1, [&] { return absl::StrCat(life->name, " is dead"); });
}

void World::Pause(Life* life) {
  if (life->paused || !life->alive) return;
  life->paused = true;
  Note(kNoteLife, life->number, 2, [&] { return absl::StrCat(life->name, " is stopped"); });
}

void World::Resume(Life* life) {
  if (!life->paused) return;
  life->paused = false;
  Note(kNoteLife, life->number, 3, [&] { return absl::StrCat(life->name, " goes on"); });
  for (Event& event : std::exchange(life->held, {})) {
    event.time = now_;
    event.order = ++last_order_;
    Push(std::move(event));
  }
}

void World::Push(Event event) {
  queue_.push_back(std::move(event));
  std::push_heap(queue_.begin(), queue_.end(), Later());
}

EventId World::Schedule(absl::Duration delay, LifePtr life, Task task) {
  return ScheduleOn(nullptr, delay, std::move(life), std::move(task));
}

EventId World::ScheduleOn(ThreadPtr thread, absl::Duration delay, LifePtr life, Task task) {
  Event event;
  event.thread = std::move(thread);
  event.time = now_ + std::max<int64_t>(0, spent_ + absl::ToInt64Nanoseconds(delay));
  event.order = ++last_order_;
  event.id = ++last_id_;
  event.life = std::move(life);
  event.task = std::move(task);
  Push(std::move(event));
  return last_id_;
}

void World::Cancel(EventId event) { cancelled_.insert(event); }

void World::Afterwards(Task task) { afterwards_.push_back(std::move(task)); }

void World::RunAfterwards() {
  while (!afterwards_.empty()) {
    std::vector<Task> tasks = std::exchange(afterwards_, {});
    for (Task& task : tasks) task();
  }
}

void World::Step() {
  std::pop_heap(queue_.begin(), queue_.end(), Later());
  Event event = std::move(queue_.back());
  queue_.pop_back();
  now_ = event.time;
  if (!cancelled_.empty() && cancelled_.erase(event.id) > 0) return;
  if (event.life != nullptr) {
    if (!event.life->alive) return;
    if (event.life->paused) {
      Life* life = event.life.get();
      life->held.push_back(std::move(event));
      return;
    }
  }
  if (event.thread != nullptr && event.thread->busy_until > now()) {
    event.time = absl::ToInt64Nanoseconds(event.thread->busy_until);
    event.order = ++last_order_;
    Push(std::move(event));
    return;
  }
  ++executed_;
  Mix(static_cast<uint64_t>(event.time));
  Mix(event.life == nullptr ? 0 : event.life->number);
  event.task();
  event.task = nullptr;
  if (event.thread != nullptr) event.thread->busy_until = now();
  spent_ = 0;
  RunAfterwards();
}

bool World::RunUntil(absl::FunctionRef<bool()> done, absl::Duration deadline) {
  const int64_t end = absl::ToInt64Nanoseconds(deadline);
  RunAfterwards();
  while (ok()) {
    if (done()) return true;
    if (queue_.empty() || queue_.front().time > end) return false;
    Step();
  }
  return false;
}

void World::Clear() {
  // What an event holds may schedule others when it goes.
  while (!queue_.empty() || !afterwards_.empty()) {
    std::exchange(queue_, {}).clear();
    std::exchange(afterwards_, {}).clear();
  }
}

void World::Violation(const std::string& what) {
  if (!violation_.empty()) return;
  violation_ = absl::StrCat("at ", absl::FormatDuration(now()), ": ", what);
  if (tracing_) Print(absl::StrCat("VIOLATION: ", what));
}

void World::Print(const std::string& text) const {
  std::fprintf(stderr, "%14.6f  %s\n", static_cast<double>(now_) * 1e-9, text.c_str());
}

}  // namespace coxswain::sim
