#include <catch2/catch.hpp>
#include <map>

#include "coordinator/core/row_writes.h"

namespace coxswain::core {
namespace {

using Safe = std::map<ShardId, uint64_t>;
using Way = RowWrites::Way;

TEST_CASE("what was written is safe from the checkpoint on that began after it", "[row_writes]") {
  RowWrites w;
  w.Sent(1, 4);
  CHECK(w.safe_from().empty());  // it is not there yet
  CHECK_FALSE(w.unsaved());
  w.Done(1, 4, 4);
  CHECK(w.safe_from() == Safe{{1, 4}});
  CHECK(w.unsaved());
  w.Trim(3);
  CHECK(w.safe_from() == Safe{{1, 4}});
  w.Trim(4);
  CHECK(w.safe_from().empty());
}

TEST_CASE("a write that is under way hides what a checkpoint lacks of the shard", "[row_writes]") {
  RowWrites w;
  CHECK(w.Covered(1, 1));
  w.Sent(1, 3);
  CHECK_FALSE(w.Covered(1, 2));
  CHECK(w.Covered(1, 3));
  CHECK(w.Covered(2, 2));
  w.Done(1, 3, 3);
  w.Sent(1, 5);
  CHECK(w.safe_from() == Safe{{1, 3}});  // the new one is not there yet
  CHECK_FALSE(w.Covered(1, 4));
}

TEST_CASE("a write before the first checkpoint is in the first one", "[row_writes]") {
  constexpr uint64_t kNever = ~uint64_t{0};
  RowWrites w;
  w.Sent(1, kNever);
  w.Done(1, kNever, std::nullopt);
  w.Sent(2, kNever);  // it is answered later
  CHECK(w.unsaved());
  w.NumberFrom(7);
  CHECK(w.safe_from() == Safe{{1, 7}});
  CHECK(w.Covered(2, 7));
  CHECK_FALSE(w.Covered(2, 6));
  w.Done(2, kNever, 7);
  CHECK(w.safe_from() == Safe{{1, 7}, {2, 7}});
}

TEST_CASE("a checkpoint is asked for once, and not again after one has failed until the next write",
          "[row_writes]") {
  RowWrites w;
  CHECK_FALSE(w.TakeTurn());
  w.Sent(1, 2);
  w.Done(1, 2, 2);
  CHECK(w.TakeTurn());
  CHECK_FALSE(w.TakeTurn());
  w.CheckpointFailed();
  CHECK(w.unsaved());
  CHECK_FALSE(w.TakeTurn());
  w.Sent(1, 3);
  w.Done(1, 3, 3);
  CHECK(w.TakeTurn());
  w.Done(1, 3, 4);  // one that has it began meanwhile
  CHECK_FALSE(w.unsaved());
}

TEST_CASE("a write waits for what runs again, and makes a checkpoint begin anew once",
          "[row_writes]") {
  RowWrites w;
  CHECK(w.Admit(/*runs_again=*/true, /*gathering=*/false) == Way::kHold);
  CHECK(w.Admit(false, false) == Way::kGo);
  CHECK(w.Admit(false, true) == Way::kGoAfterAnother);
  CHECK(w.Admit(false, true) == Way::kHold);
  int released = 0;
  w.Hold([&released] { ++released; });
  w.CheckpointOver();
  for (const auto& write : w.Release()) write();
  CHECK(released == 1);
  CHECK(w.Release().empty());
  CHECK(w.Admit(false, true) == Way::kGoAfterAnother);
}

}  // namespace
}  // namespace coxswain::core
