#include "coordinator/local/restart_budget.h"

#include <catch2/catch.hpp>

namespace coxswain::local {
namespace {

constexpr absl::Duration kBegin = absl::Hours(1);

RestartPolicy Three() {
  RestartPolicy policy;
  policy.most = 3;
  policy.refill = absl::Seconds(30);
  policy.first_delay = absl::Milliseconds(100);
  return policy;
}

TEST_CASE("a task that ends once is started again at once") {
  RestartBudget budget(Three());
  CHECK(budget.Spend(kBegin) == absl::ZeroDuration());
}

TEST_CASE("a task that keeps ending is started again later and later, and then no more") {
  RestartBudget budget(Three());
  CHECK(budget.Spend(kBegin) == absl::ZeroDuration());
  CHECK(budget.Spend(kBegin) == absl::Milliseconds(100));
  CHECK(budget.Spend(kBegin + absl::Seconds(1)) == absl::Milliseconds(200));
  CHECK(budget.Spend(kBegin + absl::Seconds(2)) == std::nullopt);
}

TEST_CASE("a task that ends seldom is started again for ever") {
  RestartBudget budget(Three());
  for (int i = 0; i < 1000; ++i) {
    CAPTURE(i);
    REQUIRE(budget.Spend(kBegin + i * absl::Seconds(31)) == absl::ZeroDuration());
  }
}

TEST_CASE("time gives restarts back, and never more than there were") {
  RestartBudget budget(Three());
  for (int i = 0; i < 3; ++i) CHECK(budget.Spend(kBegin).has_value());
  CHECK_FALSE(budget.Spend(kBegin + absl::Seconds(29)).has_value());
  CHECK(budget.Spend(kBegin + absl::Seconds(31)).has_value());
  CHECK_FALSE(budget.Spend(kBegin + absl::Seconds(31)).has_value());
  const absl::Duration later = kBegin + absl::Hours(10);
  for (int i = 0; i < 3; ++i) CHECK(budget.Spend(later).has_value());
  CHECK_FALSE(budget.Spend(later).has_value());
}

TEST_CASE("no delay is longer than the longest") {
  RestartPolicy policy = Three();
  policy.most = 100;
  RestartBudget budget(policy);
  absl::Duration last;
  for (int i = 0; i < 100; ++i) last = *budget.Spend(kBegin);
  CHECK(last == policy.longest_delay);
}

TEST_CASE("without restarts the first end is the last") {
  RestartPolicy none;
  none.most = 0;
  CHECK_FALSE(RestartBudget(none).Spend(kBegin).has_value());
}

}  // namespace
}  // namespace coxswain::local
