#include "runtime/cluster/pending_tasks.h"

#include <catch2/catch.hpp>
#include <thread>
#include <utility>

namespace coxswain::cluster {
namespace {

TEST_CASE("closing waits until the last copy of every token is gone", "[pending_tasks]") {
  PendingTasks tasks;
  PendingTasks::Token first = tasks.Start();
  REQUIRE(first);
  PendingTasks::Token copy = first;
  PendingTasks::Token moved = std::move(first);
  bool closed = false;  // read after the join, or under the token
  std::thread closer([&] {
    tasks.Close();
    closed = true;
  });
  while (tasks.Start()) std::this_thread::yield();  // until Close was called
  moved = PendingTasks::Token();
  CHECK_FALSE(closed);
  CHECK(copy);
  copy = PendingTasks::Token();
  closer.join();
  CHECK(closed);
  CHECK_FALSE(tasks.Start());
}

TEST_CASE("closing with nothing under way returns at once", "[pending_tasks]") {
  PendingTasks tasks;
  { const PendingTasks::Token done = tasks.Start(); }
  tasks.Close();
  tasks.Close();
  CHECK_FALSE(tasks.Start());
}

}  // namespace
}  // namespace coxswain::cluster
