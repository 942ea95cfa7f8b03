#include <algorithm>
#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "absl/synchronization/blocking_counter.h"
#include "absl/synchronization/notification.h"
#include "runtime/env/compute_pool.h"
#include "runtime/env/strand.h"

namespace coxswain {
namespace {

constexpr absl::Duration kLong = absl::Seconds(60);

TEST_CASE("a strand runs tasks of many threads one at a time, each poster's in order", "[env]") {
  constexpr int kThreads = 4, kTasks = 2000;
  const auto timers = NewTimerThread();
  auto loop = NewStrand(timers);
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

TEST_CASE("a task that is posted by a task runs after it", "[env]") {
  auto loop = NewStrand(NewTimerThread());
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
  auto loop = NewStrand(NewTimerThread());
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
  auto loop = NewStrand(NewTimerThread());
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
  const auto timers = NewTimerThread();
  auto token = std::make_shared<int>(0);
  std::atomic<int> ran{0};
  {
    auto loop = NewStrand(timers);
    loop->PostAfter(absl::Milliseconds(5), [token, &ran] { ++ran; });
    EventLoop* raw = loop.get();
    // Destroyed by a task of its own while more are queued.
    raw->Post([&, raw] {
      raw->Post([token, &ran] { ++ran; });
      loop.reset();
    });
    CHECK(loop == nullptr);
  }
  auto other = NewStrand(timers);
  absl::Notification later;
  other->PostAfter(absl::Milliseconds(20), [&] { later.Notify(); });
  REQUIRE(later.WaitForNotificationWithTimeout(kLong));
  CHECK(ran == 0);
  CHECK(token.use_count() == 1);
}

TEST_CASE("destroying a strand waits for the task that is running", "[env]") {
  auto loop = NewStrand(NewTimerThread());
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

}  // namespace
}  // namespace coxswain
