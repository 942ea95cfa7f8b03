// What `coxswain status` prints below a parameter server.
#include "coordinator/cli/status_command.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "runtime/base/version.h"

namespace coxswain::cli {
namespace {

using Catch::Matchers::Contains;

// `late`: how many gradients were 0, 1, 2 to 3, ... updates late.
proto::ShardStatus* AddShard(proto::TaskStatus* status, const std::string& variable,
                             const std::vector<uint64_t>& late, uint64_t sum, uint64_t most) {
  proto::ShardStatus* shard = status->add_shards();
  shard->set_variable(variable);
  for (const uint64_t count : late) shard->add_staleness(count);
  shard->set_staleness_sum(sum);
  shard->set_staleness_most(most);
  return shard;
}

void SetRows(proto::ShardStatus* shard, uint64_t rows, uint64_t changed) {
  shard->set_gradient_rows(rows);
  shard->set_gradient_rows_changed(changed);
}

TEST_CASE("status tells the version of a task where it is not its own", "[status]") {
  proto::TaskStatus status;
  status.set_version(kVersion);
  CHECK(VersionText(status).empty());
  status.set_version("9.9.9");
  CHECK(VersionText(status) == absl::StrCat(", of version 9.9.9 (this is ", kVersion, ")"));
}

TEST_CASE("status: a parameter server has one line of how late its gradients are", "[status]") {
  proto::TaskStatus status;
  SetRows(AddShard(&status, "user", {2, 2}, 2, 1), 100, 10);
  SetRows(AddShard(&status, "item", {0, 1, 3}, 7, 2), 300, 90);
  AddShard(&status, "deep/layer_0/kernel", {4}, 0, 0);
  CHECK(ShardsText(status, /*verbose=*/false) ==
        "           gradients are 0.8 updates late on average, 2 at most; 25.0% of their rows had "
        "changed since they were read; of 2 variables 'item' is latest: 1.8\n");
  SECTION("however many variables there are") {
    for (int i = 0; i < 100; ++i) AddShard(&status, absl::StrCat("v", i), {0, 4}, 4, 1);
    const std::string text = ShardsText(status, /*verbose=*/false);
    CHECK(std::count(text.begin(), text.end(), '\n') == 1);
    CHECK_THAT(text, Contains("of 102 variables 'item' is latest: 1.8"));
  }
}

TEST_CASE("status: where no gradient is late nothing is said of that", "[status]") {
  proto::TaskStatus status;
  AddShard(&status, "user", {9}, 0, 0);
  CHECK(ShardsText(status, /*verbose=*/false).empty());
  CHECK(ShardsText(status, /*verbose=*/true).empty());
}

TEST_CASE("status: the only variable with late gradients is not named beside its own numbers",
          "[status]") {
  proto::TaskStatus status;
  AddShard(&status, "w", {0, 1, 1}, 3, 2);
  CHECK(ShardsText(status, /*verbose=*/false) ==
        "           gradients are 1.5 updates late on average, 2 at most\n");
}

TEST_CASE("status: hash tables whose rows come and go are one line, and one each when verbose",
          "[status]") {
  proto::TaskStatus status;
  for (const char* name : {"C1", "C2"}) {
    proto::ShardStatus* shard = AddShard(&status, name, {}, 0, 0);
    shard->set_rows(1500);
    shard->set_rows_evicted(7);
    shard->set_ids_waiting(20);
  }
  AddShard(&status, "C3", {}, 0, 0)->set_rows(9);
  CHECK(ShardsText(status, /*verbose=*/false) ==
        "           2 hash tables: 3,000 rows, 14 evicted, 40 ids waiting\n");
  CHECK(ShardsText(status, /*verbose=*/true) ==
        "           table 'C1': 1,500 rows, 7 evicted, 20 ids waiting\n"
        "           table 'C2': 1,500 rows, 7 evicted, 20 ids waiting\n");
}

TEST_CASE("status: --verbose has lines of each shard", "[status]") {
  proto::TaskStatus status;
  SetRows(AddShard(&status, "user", {2, 2}, 2, 1), 100, 10);
  AddShard(&status, "w", {0, 1, 1}, 3, 2);
  CHECK(ShardsText(status, /*verbose=*/true) ==
        "           'user': gradients are 0.5 updates late on average, 1 at most\n"
        "           'user': 10.0% of their rows had changed since they were read\n"
        "           'w': gradients are 1.5 updates late on average, 2 at most\n");
}

}  // namespace
}  // namespace coxswain::cli
