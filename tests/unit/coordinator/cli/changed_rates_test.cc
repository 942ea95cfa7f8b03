// Learning rates that a job has otherwise than the checkpoint with which it goes on.
#include "coordinator/cli/changed_rates.h"

#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/testing/job_texts.h"

namespace coxswain::cli {
namespace {

// Of seven tables.
job::JobSpec JobWith(const std::vector<std::string>& overrides) {
  std::string text = "dataset: {path: a.csv}\nfeatures:\n";
  for (const char name : std::string("abcdefg")) {
    absl::StrAppend(&text, "  - {name: ", std::string(1, name), ", kind: categorical}\n");
  }
  return testing::MustParse(text + "label: {column: y}\nmodel: {kind: mlp}\n", overrides);
}

// What a job with these overrides leaves.
checkpoint::Manifest SavedBy(const std::vector<std::string>& overrides) {
  checkpoint::Manifest manifest;
  for (const job::TableSpec& table : JobWith(overrides).tables) {
    proto::VariableSpec* const variable =
        manifest.shards.emplace_back().mutable_shard()->mutable_variable();
    variable->set_name(table.name);
    variable->set_table(true);
    *variable->mutable_optimizer() = table.optimizer;
  }
  return manifest;
}

TEST_CASE("changed rates: tables that go on with another rate are named with both", "[resume]") {
  const std::vector<std::string> old = {"optimizer.table.learning_rate=0.001"};
  CHECK(ChangedRates(SavedBy(old), JobWith(old)).empty());
  CHECK(ChangedRates(SavedBy(old), JobWith({})) == "a, b, c and 4 more: 0.001, now 0.005");
  CHECK(ChangedRates(SavedBy({}), JobWith({"tables.d.optimizer.learning_rate=0.02",
                                           "tables.b.optimizer.learning_rate=0.02",
                                           "tables.e.optimizer.learning_rate=0.03"})) ==
        "b, d: 0.005, now 0.02; e: 0.005, now 0.03");
}

TEST_CASE("changed rates: tables that are not trained, or not in the checkpoint, have none",
          "[resume]") {
  CHECK(ChangedRates({}, JobWith({})).empty());
  CHECK(ChangedRates(SavedBy({"tables.a.optimizer.learning_rate=0.1"}),
                     JobWith({"tables.a.trainable=false"}))
            .empty());
}

}  // namespace
}  // namespace coxswain::cli
