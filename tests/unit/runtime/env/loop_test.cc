#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/blocking_counter.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "runtime/env/compute_pool.h"
#include "runtime/env/strand.h"

namespace coxswain::env {
namespace {

constexpr absl::Duration kLong = absl::Seconds(60);

TEST_CASE("a strand runs tasks of many threads one at a time, each poster's in order", "[env]") {
  constexpr int kThreads = 4, kTasks = 2000;
  auto loop = NewStrand(NewLoopThreads(2));
  std::atomic<int> inside{0}, overlaps{0};
  int plain = 0;  // no atomic: the strand is its guard
  std::vector<std::vector<int>> seen(kThreads);
  absl::Notification all;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < kTasks; ++i) {
        loop->Post([&, t, i] {
          overlaps += inside.fetch_add(1);
          seen[t].push_back(i);
          inside.fetch_sub(1);
          if (++plain == kThreads * kTasks) all.Notify();
        });
      }
    });
  }
  for (std::thread& t : threads) t.join();
  REQUIRE(all.WaitForNotificationWithTimeout(kLong));
  CHECK(overlaps == 0);
  CHECK(plain == kThreads * kTasks);
  for (const auto& order : seen) {
    REQUIRE(order.size() == kTasks);
    CHECK(std::is_sorted(order.begin(), order.end()));
  }
}

TEST_CASE("a loop knows its own tasks from those of others and from other threads", "[env]") {
  const auto threads = NewLoopThreads(2);
  const auto loop = NewStrand(threads), other = NewStrand(threads);
  CHECK_FALSE(loop->OnLoop());
  std::vector<bool> own;
  loop->Post([&] {
    own.push_back(loop->OnLoop());
    // It is idle, so this runs here and now.
    other->Post([&] { own.push_back(loop->OnLoop() || !other->OnLoop()); });
    own.push_back(loop->OnLoop());
    std::thread([&] { own.push_back(loop->OnLoop()); }).join();
  });
  CHECK(own == std::vector<bool>{true, false, true, false});
  CHECK_FALSE(loop->OnLoop());

  absl::Notification done;
  bool later = false;
  loop->PostAfter(absl::Milliseconds(1), [&] {
    later = loop->OnLoop();
    done.Notify();
  });
  REQUIRE(done.WaitForNotificationWithTimeout(kLong));
  CHECK(later);
}

TEST_CASE("reaching what belongs to a loop from elsewhere ends the program", "[env]") {
  const auto loop = NewStrand(NewLoopThreads(1));
  bool fine = false;
  loop->Post([&] {
    loop->AssertOnLoop();
    fine = true;
  });
  CHECK(fine);
  const pid_t child = fork();
  if (child == 0) {
    // What it says of its end is not for this test's output.
    if (std::freopen("/dev/null", "w", stderr) == nullptr) _exit(1);
    std::signal(SIGABRT, SIG_DFL);  // the test's program would report it
    loop->AssertOnLoop();
    _exit(0);
  }
  REQUIRE(child > 0);
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK(WIFSIGNALED(status));
  CHECK(WTERMSIG(status) == SIGABRT);
}

TEST_CASE("a task that is posted by a task runs after it", "[env]") {
  auto loop = NewStrand(NewLoopThreads(2, NewTimerThread(), {64, absl::InfiniteDuration()}));
  std::vector<int> order;
  loop->Post([&] {
    loop->Post([&] {
      order.push_back(3);
      loop->Post([&] { order.push_back(6); });
      order.push_back(4);
    });
    order.push_back(1);
    loop->Post([&] { order.push_back(5); });
    order.push_back(2);
  });
  CHECK(order == std::vector<int>{1, 2, 3, 4, 5, 6});  // and all before Post returned
}

TEST_CASE("timers fire in the order of their time and not too early", "[env]") {
  auto loop = NewStrand(NewLoopThreads(2));
  std::vector<int> order;
  absl::Notification last;
  const auto start = std::chrono::steady_clock::now();
  std::chrono::steady_clock::duration waited{};
  loop->PostAfter(absl::Milliseconds(60), [&] {
    order.push_back(3);
    waited = std::chrono::steady_clock::now() - start;
    last.Notify();
  });
  loop->PostAfter(absl::Milliseconds(1), [&] { order.push_back(1); });
  loop->PostAfter(absl::Milliseconds(30), [&] { order.push_back(2); });
  REQUIRE(last.WaitForNotificationWithTimeout(kLong));
  CHECK(order == std::vector<int>{1, 2, 3});
  CHECK(waited >= std::chrono::milliseconds(59));
}

TEST_CASE("a timer that was cancelled does not fire and lets go of its task", "[env]") {
  auto loop = NewStrand(NewLoopThreads(2));
  auto token = std::make_shared<int>(0);
  std::atomic<bool> fired{false};
  const auto id = loop->PostAfter(absl::Hours(1), [token, &fired] { fired = true; });
  const auto soon = loop->PostAfter(absl::Milliseconds(5), [&fired] { fired = true; });
  CHECK(token.use_count() == 2);
  loop->Cancel(id);
  loop->Cancel(soon);
  CHECK(token.use_count() == 1);
  loop->Cancel(id);                // again
  loop->Cancel(uint64_t{999999});  // of nobody
  absl::Notification later;
  loop->PostAfter(absl::Milliseconds(20), [&] { later.Notify(); });
  REQUIRE(later.WaitForNotificationWithTimeout(kLong));
  CHECK_FALSE(fired);
}

TEST_CASE("a strand that is destroyed drops its queue and its timers", "[env]") {
  const auto threads = NewLoopThreads(2);
  auto token = std::make_shared<int>(0);
  std::atomic<int> ran{0};
  {
    auto loop = NewStrand(threads);
    loop->PostAfter(absl::Milliseconds(5), [token, &ran] { ++ran; });
    EventLoop* raw = loop.get();
    // Destroyed by a task of its own while more are queued.
    raw->Post([&, raw] {
      raw->Post([token, &ran] { ++ran; });
      loop.reset();
    });
    CHECK(loop == nullptr);
  }
  auto other = NewStrand(threads);
  absl::Notification later;
  other->PostAfter(absl::Milliseconds(20), [&] { later.Notify(); });
  REQUIRE(later.WaitForNotificationWithTimeout(kLong));
  CHECK(ran == 0);
  CHECK(token.use_count() == 1);
}

TEST_CASE("destroying a strand waits for the task that is running", "[env]") {
  auto loop = NewStrand(NewLoopThreads(2));
  absl::Notification started, go;
  bool finished = false;
  std::thread runner([&, raw = loop.get()] {
    raw->Post([&] {
      started.Notify();
      go.WaitForNotification();
      finished = true;
    });
  });
  REQUIRE(started.WaitForNotificationWithTimeout(kLong));
  bool finished_first = false;
  std::thread destroyer([&] {
    loop.reset();
    finished_first = finished;
  });
  go.Notify();
  destroyer.join();
  runner.join();
  CHECK(finished_first);
}

// Posts itself again and again until it is told to stop, or far longer than a turn lasts.
class Endless {
 public:
  explicit Endless(EventLoop* loop) : loop_(loop) {}
  void Begin() {
    loop_->Post([this] { Again(); });
  }
  void BeginByTimer() {
    loop_->PostAfter(absl::ZeroDuration(), [this] { Again(); });
  }
  void Stop() {
    stop_ = true;
    over_.WaitForNotificationWithTimeout(kLong);
  }
  // Whether this number of tasks have run in time.
  bool WaitForTasks(int64_t count) {
    absl::MutexLock lock(&mu_);
    const auto enough = [&]() ABSL_NO_THREAD_SAFETY_ANALYSIS { return ran_ >= count; };
    return mu_.AwaitWithTimeout(absl::Condition(&enough), kLong);
  }
  // It ran out of tasks by itself: nobody could tell it to stop.
  bool ran_out() const { return ran_out_; }

 private:
  static constexpr int64_t kMost = 20'000'000;

  void Again() {
    int64_t ran = 0;
    {
      absl::MutexLock lock(&mu_);
      ran = ++ran_;
    }
    ran_out_ = ran >= kMost;
    if (stop_ || ran_out_) {
      over_.Notify();
    } else {
      loop_->Post([this] { Again(); });
    }
  }

  EventLoop* const loop_;
  std::atomic<bool> stop_{false}, ran_out_{false};
  absl::Mutex mu_;
  int64_t ran_ ABSL_GUARDED_BY(mu_) = 0;
  absl::Notification over_;
};

TEST_CASE("a loop that never comes to an end gives back the thread that it borrowed", "[env]") {
  auto loop = NewStrand(NewLoopThreads(1));
  Endless endless(loop.get());
  endless.Begin();
  const bool given_back = !endless.ran_out();
  CHECK(endless.WaitForTasks(1000));  // and it goes on
  CHECK_FALSE(endless.ran_out());
  endless.Stop();
  CHECK(given_back);
}

TEST_CASE("a loop that posts to itself without end delays no timer of another", "[env]") {
  const auto threads = NewLoopThreads(1);
  auto busy = NewStrand(threads), other = NewStrand(threads);
  Endless endless(busy.get());
  const bool by_timer = GENERATE(true, false);
  if (by_timer) {
    endless.BeginByTimer();
  } else {
    endless.Begin();
  }
  REQUIRE(endless.WaitForTasks(1));
  // Ten, one after the other, while the busy one goes on.
  std::atomic<int> fired{0};
  absl::Notification all;
  std::function<void()> next = [&] {
    if (++fired == 10) {
      all.Notify();
    } else {
      other->PostAfter(absl::Milliseconds(1), [&] { next(); });
    }
  };
  other->PostAfter(absl::Milliseconds(1), [&] { next(); });
  CHECK(all.WaitForNotificationWithTimeout(kLong));
  CHECK_FALSE(endless.ran_out());
  endless.Stop();
}

TEST_CASE("loops that never come to an end share the threads for loops", "[env]") {
  const auto threads = NewLoopThreads(1);
  auto first = NewStrand(threads), second = NewStrand(threads);
  Endless one(first.get()), two(second.get());
  one.BeginByTimer();
  two.BeginByTimer();
  CHECK(one.WaitForTasks(1000));
  CHECK(two.WaitForTasks(1000));
  CHECK((!one.ran_out() && !two.ran_out()));
  one.Stop();
  two.Stop();
}

TEST_CASE("a long task runs on no thread that is borrowed", "[env]") {
  auto loop = NewStrand(NewLoopThreads(1));
  std::mutex mu;
  std::vector<std::pair<int, bool>> ran;  // number, and whether by this thread
  const auto here = std::this_thread::get_id();
  const auto note = [&](int number) {
    std::lock_guard<std::mutex> lock(mu);
    ran.push_back({number, std::this_thread::get_id() == here});
  };
  absl::Notification end;
  SECTION("when the loop is idle") {
    loop->PostLong([&] { note(1); });
    loop->PostLong([&] { end.Notify(); });
    REQUIRE(end.WaitForNotificationWithTimeout(kLong));
    CHECK(ran == std::vector<std::pair<int, bool>>{{1, false}});
  }
  SECTION("when it comes while a borrowed thread runs the loop") {
    absl::Notification inside, posted;
    std::thread other([&] {
      inside.WaitForNotification();
      loop->PostLong([&] { note(2); });
      loop->Post([&] {
        note(3);
        end.Notify();
      });
      posted.Notify();
    });
    loop->Post([&] {
      inside.Notify();
      posted.WaitForNotification();
      note(1);
    });
    REQUIRE(end.WaitForNotificationWithTimeout(kLong));
    other.join();
    CHECK(ran == std::vector<std::pair<int, bool>>{{1, true}, {2, false}, {3, false}});
  }
}

TEST_CASE("a strand is destroyed while its turn waits for a thread", "[env]") {
  const auto threads = NewLoopThreads(1);
  auto blocker = NewStrand(threads), loop = NewStrand(threads);
  absl::Notification started, go, after;
  blocker->PostLong([&] {
    started.Notify();
    go.WaitForNotification();
  });
  REQUIRE(started.WaitForNotificationWithTimeout(kLong));
  auto token = std::make_shared<int>(0);
  std::atomic<bool> ran{false};
  loop->PostLong([token, &ran] { ran = true; });
  loop.reset();
  CHECK(token.use_count() == 1);
  go.Notify();
  blocker->PostLong([&] { after.Notify(); });
  REQUIRE(after.WaitForNotificationWithTimeout(kLong));
  CHECK_FALSE(ran);
}

TEST_CASE("the last that holds a loop's threads may be a task on one of them", "[env]") {
  absl::Notification ran, gone;
  auto own = std::make_shared<std::unique_ptr<EventLoop>>(NewStrand(NewLoopThreads(1)));
  EventLoop* const loop = own->get();
  loop->PostLong([&ran, own = std::move(own)]() mutable {
    own.reset();
    ran.Notify();
  });
  CHECK(ran.WaitForNotificationWithTimeout(kLong));

  // The same on the thread that watches the time: the timer's own loop is closed before.
  auto timers = NewTimerThread();
  auto first = NewStrand(NewLoopThreads(1, timers));
  auto last = std::make_shared<std::unique_ptr<EventLoop>>(NewStrand(NewLoopThreads(1, timers)));
  std::shared_ptr<void> end(nullptr, [&gone](void*) { gone.Notify(); });
  first->PostAfter(absl::Milliseconds(1), [end = std::move(end), last = std::move(last)] {});
  first.reset();
  timers.reset();
  CHECK(gone.WaitForNotificationWithTimeout(kLong));
}

TEST_CASE("ParallelFor covers a range once, in ranges of at least the grain", "[env]") {
  for (int threads = 1; threads <= 4; ++threads) {
    const auto pool = NewComputePool(threads);
    CHECK(pool->threads() == threads);
    for (int64_t n : {0, 1, 2, 3, 7, 10, 64, 1000}) {
      for (int64_t grain : {0, 1, 3, 4, 64, 5000}) {
        std::vector<std::atomic<int>> hits(static_cast<size_t>(n));
        std::atomic<int> ranges{0}, small{0};
        pool->ParallelFor(n, grain, [&](int64_t begin, int64_t end) {
          ++ranges;
          if (end - begin < grain) ++small;
          for (int64_t i = begin; i < end; ++i) ++hits[static_cast<size_t>(i)];
        });
        INFO(threads << " threads, n " << n << ", grain " << grain);
        int64_t once = 0;
        for (const auto& h : hits) once += h == 1;
        CHECK(once == n);
        CHECK(ranges <= std::max(1, threads));
        CHECK(small == (n > 0 && n < grain ? 1 : 0));
        if (n > 0 && (threads == 1 || n <= grain)) CHECK(ranges == 1);
        if (n == 0) CHECK(ranges == 0);
      }
    }
  }
}

TEST_CASE("ParallelFor inside ParallelFor and inside tasks ends", "[env]") {
  const auto pool = NewComputePool(2);
  std::atomic<int64_t> sum{0};
  const auto nested = [&] {
    pool->ParallelFor(8, 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        pool->ParallelFor(8, 1, [&](int64_t b, int64_t e) {
          for (int64_t j = b; j < e; ++j) {
            pool->ParallelFor(4, 1, [&](int64_t from, int64_t to) { sum += to - from; });
          }
        });
      }
    });
  };
  nested();
  CHECK(sum == 8 * 8 * 4);
  // All threads of the pool are in such loops at once.
  sum = 0;
  constexpr int kTasks = 16;
  absl::BlockingCounter left(kTasks);
  for (int t = 0; t < kTasks; ++t) {
    pool->Schedule([&] {
      nested();
      left.DecrementCount();
    });
  }
  left.Wait();
  CHECK(sum == kTasks * 8 * 8 * 4);
}

TEST_CASE("a pool runs tasks on its own threads, and all of them before it ends", "[env]") {
  std::atomic<int> ran{0}, in_caller{0};
  {
    const auto pool = NewComputePool(2);
    const auto caller = std::this_thread::get_id();
    for (int i = 0; i < 100; ++i) {
      pool->Schedule([&] {
        ++ran;
        in_caller += std::this_thread::get_id() == caller;
      });
    }
  }
  CHECK(ran == 100);
  CHECK(in_caller == 0);
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // they map terabytes
TEST_CASE("a pool has fewer threads where the system gives no more, and leaves it some", "[env]") {
  int64_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  rlimit before = {};
  REQUIRE(getrlimit(RLIMIT_AS, &before) == 0);
  rlimit some = before;
  some.rlim_cur = static_cast<rlim_t>(pages * sysconf(_SC_PAGESIZE)) + (rlim_t{512} << 20);
  REQUIRE(setrlimit(RLIMIT_AS, &some) == 0);
  bool another = false;
  int threads = 0;
  {
    const auto pool = NewComputePool(4000);
    threads = pool->threads();
    std::thread([&another] { another = true; }).join();
  }
  REQUIRE(setrlimit(RLIMIT_AS, &before) == 0);
  CHECK(another);
  CHECK(threads > 0);
  CHECK(threads < 4000);
}
#endif

}  // namespace
}  // namespace coxswain::env
