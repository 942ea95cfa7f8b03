// What a job that goes on says otherwise than before.
#include "coordinator/job/changed_keys.h"

#include <catch2/catch.hpp>

namespace coxswain::job {
namespace {

using Keys = std::vector<std::string>;

constexpr char kJob[] = R"(name: a
dataset: {path: a.csv}
features:
  - {name: user, kind: categorical}
  - {name: tags, kind: categorical, combiner: mean}
model: {kind: wide_deep, hidden: [4, 2]}
train: {epochs: 3}
)";

TEST_CASE("keys that shape what is trained and have changed are named with both values", "[job]") {
  const auto with = [](const std::vector<std::string>& overrides) {
    return ChangedKeys({kJob, {}}, {kJob, overrides});
  };
  CHECK(with({}).empty());
  CHECK(with({"train.epochs=9", "name=b", "checkpoint.keep=4", "evaluate.part=test"}).empty());
  CHECK(with({"model.activation=tanh"}) == Keys{"model.activation: none, now tanh"});
  CHECK(with({"model.hidden=[4]", "train.batch_size=8"}) ==
        Keys{"model.hidden: [4, 2], now [4]", "train.batch_size: none, now 8"});
  CHECK(ChangedKeys({kJob, {"model.activation=tanh"}}, {kJob, {"model.activation=relu"}}) ==
        Keys{"model.activation: tanh, now relu"});
}

TEST_CASE("features are found by their names, in whatever order they stand", "[job]") {
  constexpr char kOther[] = R"(dataset: {path: a.csv}
features:
  - {name: tags, kind: categorical, combiner: sum}
  - {name: user, kind: categorical}
model: {kind: wide_deep, hidden: [4, 2]}
)";
  CHECK(ChangedKeys({kJob, {}}, {kOther, {}}) == Keys{"features.tags.combiner: mean, now sum"});
  CHECK(ChangedKeys({"a: [", {}}, {kJob, {}}).empty());
}

}  // namespace
}  // namespace coxswain::job
