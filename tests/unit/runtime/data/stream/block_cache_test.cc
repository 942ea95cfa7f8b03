#include "runtime/data/stream/block_cache.h"

#include <atomic>
#include <catch2/catch.hpp>
#include <deque>
#include <new>
#include <thread>
#include <utility>
#include <vector>

#include "absl/synchronization/notification.h"

namespace coxswain::data {
namespace {

// Blocks of 10 bytes; what is to run in the background runs when the test says so.
struct Fixture {
  explicit Fixture(int64_t memory, bool ahead = true) {
    BlockCache::Options options;
    options.memory = memory;
    options.largest_block = 10;
    options.parse = [this](int64_t block) -> absl::StatusOr<BlockCache::Block> {
      order.push_back(block);
      if (block == broken) return absl::DataLossError("broken");
      if (block == too_large) throw std::bad_alloc();
      auto parsed = std::make_shared<ParsedBlock>();
      parsed->bytes = 10;
      parsed->labels = {static_cast<float>(block)};
      return parsed;
    };
    if (ahead) {
      options.background = [this](auto task) { tasks.push_back(std::move(task)); };
    }
    cache = BlockCache::Make(std::move(options));
  }
  float Get(int64_t block) {
    auto got = cache->Get(block);
    REQUIRE(got.ok());
    return (*got)->labels[0];
  }
  void RunTasks() {
    while (!tasks.empty()) {
      auto task = std::move(tasks.front());
      tasks.pop_front();
      task();
    }
  }

  int64_t broken = -1, too_large = -1;
  std::vector<int64_t> order;  // of parsing
  std::deque<absl::AnyInvocable<void()>> tasks;
  std::shared_ptr<BlockCache> cache;
};

TEST_CASE("block cache: a block is parsed once while it is kept, and the least used goes first") {
  Fixture f(30);
  CHECK(f.Get(1) == 1);
  CHECK(f.Get(2) == 2);
  CHECK(f.Get(3) == 3);
  CHECK(f.Get(1) == 1);
  CHECK(f.order == std::vector<int64_t>{1, 2, 3});
  CHECK(f.Get(4) == 4);
  CHECK(f.cache->counters().bytes == 30);
  CHECK(f.Get(1) == 1);
  CHECK(f.Get(2) == 2);
  CHECK(f.order == std::vector<int64_t>{1, 2, 3, 4, 2});
}

TEST_CASE("block cache: a block larger than memory is still there for who asks") {
  Fixture f(5);
  CHECK(f.Get(1) == 1);
  CHECK(f.Get(2) == 2);
  CHECK(f.cache->counters().bytes == 10);
}

TEST_CASE(
    "block cache: what is wanted next is parsed in its order, a block a task, within memory") {
  Fixture f(40);
  f.cache->WantNext({5, 6, 7, 8, 9});
  REQUIRE(f.tasks.size() == 1);
  f.RunTasks();
  CHECK(f.order == std::vector<int64_t>{5, 6, 7, 8});
  CHECK(f.Get(6) == 6);
  CHECK(f.cache->counters().parsed_ahead == 4);
  // What was wanted goes for what is wanted now.
  f.cache->WantNext({8, 9, 10});
  f.RunTasks();
  CHECK(f.order == std::vector<int64_t>{5, 6, 7, 8, 9, 10});
  CHECK(f.Get(8) == 8);
  CHECK(f.cache->counters().bytes == 40);
  CHECK(f.order.size() == 6);
}

TEST_CASE("block cache: it says which blocks come, the one that is parsed first") {
  std::vector<std::vector<int64_t>> told;
  std::deque<absl::AnyInvocable<void()>> tasks;
  BlockCache::Options options;
  options.memory = 1000;
  options.largest_block = 10;
  options.parse = [](int64_t) -> absl::StatusOr<BlockCache::Block> {
    auto parsed = std::make_shared<ParsedBlock>();
    parsed->bytes = 10;
    return parsed;
  };
  options.background = [&](auto task) { tasks.push_back(std::move(task)); };
  options.coming = [&](const std::vector<int64_t>& blocks) { told.push_back(blocks); };
  const auto cache = BlockCache::Make(std::move(options));
  REQUIRE(cache->Get(2).ok());
  cache->WantNext({1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11});
  for (int i = 0; i < 2; ++i) {
    REQUIRE(tasks.size() == 1);
    auto task = std::move(tasks.front());
    tasks.pop_front();
    task();
  }
  CHECK(told ==
        std::vector<std::vector<int64_t>>{{1, 3, 4, 5, 6, 7, 8, 9}, {3, 4, 5, 6, 7, 8, 9, 10}});
  cache->Drop();
  CHECK(told.back().empty());
}

TEST_CASE("block cache: an error is told to who asks, and the next one tries again") {
  Fixture f(40);
  f.broken = 3;
  CHECK(absl::IsDataLoss(f.cache->Get(3).status()));
  f.cache->WantNext({3, 4});
  f.RunTasks();
  CHECK(absl::IsDataLoss(f.cache->Get(3).status()));
  f.broken = -1;
  CHECK(f.Get(3) == 3);
  f.cache->WantNext({4, 3});
  f.RunTasks();
  CHECK(f.order == std::vector<int64_t>{3, 3, 3, 3, 4});
}

TEST_CASE("block cache: a block without memory is an error, and the next one tries again") {
  Fixture f(40);
  f.too_large = 3;
  CHECK(absl::IsResourceExhausted(f.cache->Get(3).status()));
  f.cache->WantNext({3});
  f.RunTasks();
  f.too_large = -1;
  CHECK(f.Get(3) == 3);
}

TEST_CASE("block cache: tasks may outlive it") {
  Fixture f(40);
  f.cache->WantNext({1, 2});
  f.cache = nullptr;
  f.RunTasks();
  CHECK(f.order.empty());
}

TEST_CASE("block cache: many threads that want one block get the same one, parsed once") {
  std::atomic<int> parsed{0};
  absl::Notification go;
  BlockCache::Options options;
  options.memory = 100;
  options.parse = [&](int64_t) -> absl::StatusOr<BlockCache::Block> {
    ++parsed;
    go.WaitForNotification();
    return std::make_shared<ParsedBlock>();
  };
  const auto cache = BlockCache::Make(std::move(options));
  std::vector<std::thread> threads;
  std::vector<BlockCache::Block> got(4);
  for (size_t t = 0; t < got.size(); ++t) {
    threads.emplace_back([&, t] { got[t] = cache->Get(7).value(); });
  }
  go.Notify();
  for (std::thread& thread : threads) thread.join();
  CHECK(parsed == 1);
  for (const auto& block : got) CHECK(block == got[0]);
}

}  // namespace
}  // namespace coxswain::data
