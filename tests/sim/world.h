// A simulated world: virtual time, one queue of events, one source of chance. Everything in it runs
// on the thread that calls RunUntil. The same seed gives the same events in the same order.
//
// Events belong to a process (a Life) or to nobody. Those of a process that died are dropped; those
// of a paused one wait until it goes on.
//
// An event takes no time unless it spends some. What it does after that is seen later; and if it is
// of a thread, that thread's other events wait.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/functional/any_invocable.h"
#include "absl/functional/function_ref.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "tests/sim/random.h"

namespace coxswain::sim {

class World;

using Task = absl::AnyInvocable<void()>;
using EventId = uint64_t;

struct Life;
using LifePtr = std::shared_ptr<Life>;

// One thread of a process: it does one thing after the other.
struct Thread {
  absl::Duration busy_until;
};
using ThreadPtr = std::shared_ptr<Thread>;

struct Event {
  int64_t time = 0;  // virtual nanoseconds
  uint64_t order = 0;
  EventId id = 0;
  LifePtr life;
  Task task;
  ThreadPtr thread;  // null: of none that matters
};

// One process of one node, from its start to its death. The node's next process is another Life.
struct Life {
  std::string name;  // "worker:3#2", the second life of that node
  int node = 0;
  uint64_t number = 0;  // unique in the world, in order of birth
  absl::Duration born;
  bool alive = true;
  bool paused = false;
  // Dead, and its objects are being destroyed: what it posts runs at once, unseen by the world.
  bool draining = false;
  // Reads all its connections, as the one poller of a small machine.
  ThreadPtr reader = std::make_shared<Thread>();
  std::vector<Event> held;  // while paused
};

class World {
 public:
  explicit World(uint64_t seed);
  ~World();
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  uint64_t seed() const { return seed_; }
  // Within an event: with the time that it has spent.
  absl::Duration now() const { return absl::Nanoseconds(now_ + spent_); }
  // The present event has worked for so long.
  absl::Duration spent() const { return absl::Nanoseconds(spent_); }
  void Spend(absl::Duration time) { spent_ += absl::ToInt64Nanoseconds(time); }
  Random& random() { return random_; }

  LifePtr NewLife(const std::string& name, int node);
  // From now on nothing that it does is seen, and nothing reaches it.
  void MarkDead(Life* life);
  void Pause(Life* life);
  void Resume(Life* life);

  // `life` may be null: an event of the world itself.
  EventId Schedule(absl::Duration delay, LifePtr life, Task task);
  // Of a thread: when it has done what came before. The delay may be negative, by as much as the
  // present event has spent.
  EventId ScheduleOn(ThreadPtr thread, absl::Duration delay, LifePtr life, Task task);
  EventId Schedule(absl::Duration delay, Task task) {
    return Schedule(delay, nullptr, std::move(task));
  }
  void Cancel(EventId event);
  // Runs when the present event is over, before the next one: the place to destroy processes.
  void Afterwards(Task task);

  // Drops all events.
  void Clear();
  // Runs events until `done`, a violation, or `deadline`. True: done.
  bool RunUntil(absl::FunctionRef<bool()> done, absl::Duration deadline);

  // An invariant is broken. Only the first is kept.
  void Violation(const std::string& what);
  bool ok() const { return violation_.empty(); }
  const std::string& violation() const { return violation_; }

  // What happens becomes part of the trace's hash, by numbers; the text is made only for people.
  bool tracing() const { return tracing_; }
  template <typename Text>
  void Note(uint64_t what, uint64_t a, uint64_t b, const Text& text) {
    Mix(what);
    Mix(static_cast<uint64_t>(now_));
    Mix(a);
    Mix(b);
    if (tracing_) Print(text());
  }
  uint64_t trace_hash() const { return hash_; }
  uint64_t events() const { return executed_; }

 private:
  struct Later {
    bool operator()(const Event& a, const Event& b) const {
      return a.time != b.time ? a.time > b.time : a.order > b.order;
    }
  };

  void Mix(uint64_t value) {
    hash_ = (hash_ ^ value) * 0x100000001b3;
    hash_ ^= hash_ >> 29;
  }
  void Push(Event event);
  void Step();
  void RunAfterwards();
  void Print(const std::string& text) const;

  const uint64_t seed_;
  const bool tracing_;
  Random random_;
  int64_t now_ = 0;
  int64_t spent_ = 0;  // by the present event
  uint64_t last_order_ = 0;
  EventId last_id_ = 0;
  uint64_t last_life_ = 0;
  uint64_t executed_ = 0;
  uint64_t hash_ = 0xcbf29ce484222325;
  std::vector<Event> queue_;  // a heap
  absl::flat_hash_set<EventId> cancelled_;
  std::vector<Task> afterwards_;
  std::string violation_;
};

// Kinds of notes.
enum NoteKind : uint64_t {
  kNoteEvent = 1,
  kNoteMessage,
  kNoteClosed,
  kNoteConnect,
  kNoteFault,
  kNoteLife,
  kNoteFile,
  kNoteJob,
};

// FNV-1a.
uint64_t HashBytes(const void* data, size_t bytes, uint64_t hash = 0xcbf29ce484222325);

}  // namespace coxswain::sim
