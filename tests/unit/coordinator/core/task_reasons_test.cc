#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "coordinator/core/task_reasons.h"

namespace coxswain::core {
namespace {

TEST_CASE("a reason that several tasks have is told once, with all of them", "[session]") {
  using Lines = std::vector<std::string>;
  CHECK(GroupByReason({}).empty());
  CHECK(GroupByReason({{"ps:0", "held by b"},
                       {"ps:1", "no answer"},
                       {"worker:0", "held by b"},
                       {"worker:1", "no answer"},
                       {"worker:2", "held by c"}}) ==
        Lines{"ps:0, worker:0: held by b", "ps:1, worker:1: no answer", "worker:2: held by c"});
}

}  // namespace
}  // namespace coxswain::core
