// A server whose items have features: what it suggests, and that neighbours go by items' vectors.
#include <catch2/catch.hpp>
#include <memory>
#include <set>
#include <string>

#include "absl/strings/str_cat.h"
#include "coordinator/serve/model_service.h"
#include "nlohmann/json.hpp"
#include "tests/testing/saved_jobs.h"

namespace coxswain::serve {
namespace {

using nlohmann::json;
using testing::Must;

// 24 users who have 6 of the 8 items of a kind; the table has one more item of each kind, new0 and
// so on.
std::string WriteKinds(const DataFiles& files) {
  std::string rows = "user,item\n", items = "item,kind\n";
  for (int kind = 0; kind < 4; ++kind) absl::StrAppend(&items, "new", kind, ",k", kind, "\n");
  for (int item = 0; item < 32; ++item) absl::StrAppend(&items, "i", item, ",k", item / 8, "\n");
  for (int user = 0; user < 24; ++user) {
    for (int i = 0; i < 6; ++i) {
      absl::StrAppend(&rows, "u", user, ",i", user % 4 * 8 + (user / 4 + i) % 8, "\n");
    }
  }
  files.Write("pairs.csv", rows);
  files.Write("items.csv", items);
  return "name: kinds\ndataset: {path: pairs.csv, join: [{path: items.csv, on: item}]}\nfeatures:\n"
         "  - {name: item, kind: categorical, vocabulary_file: items.csv}\n"
         "  - {name: history, kind: history, history_of: item, group_by: user}\n"
         "  - {name: kind, kind: categorical}\n"
         "split: {holdout_per: user}\n"
         "model: {kind: two_tower, dim: 8, user: {features: [history]},\n"
         "  item: {feature: item, features: [kind], bias: false}}\n"
         "loss: {kind: sampled_softmax, negatives: 16}\n"
         "optimizer: {table: {kind: lazy_adam, learning_rate: 0.02}}\ntrain: {batch_size: 32}\n";
}

TEST_CASE("serve: new items are suggested and found by their features", "[serve][items]") {
  const DataFiles files;
  const SavedJob saved = TrainAndSave(files, WriteKinds(files), /*epochs=*/40);
  const auto service =
      std::make_unique<ModelService>(Must(LoadServed(saved.directory)),
                                     ServiceOptions{.name = "m", .max_rows = 8, .admission = {}});
  const auto says = [&](const std::string& verb, const json& body) {
    const Answer answer = service->Handle("POST", absl::StrCat("/v1/models/m:", verb), body.dump());
    INFO(answer.body);
    REQUIRE(answer.status == 200);
    return json::parse(answer.body)["predictions"];
  };
  for (int kind = 0; kind < 4; ++kind) {
    CAPTURE(kind);
    const std::string fresh = absl::StrCat("new", kind);
    const json best =
        says("recommend", {{"instances", {{{"user", absl::StrCat("u", kind)}}}}, {"k", 4}});
    std::set<std::string> names;
    for (const json& name : best[0]["items"]) names.insert(name.get<std::string>());
    CHECK(names.count(fresh) == 1);
    // No row has it, so its own row has no say; its vector points where its kind's do.
    const json near = says("nearest", {{"instances", {fresh}}, {"k", 3}, {"table", "item"}});
    REQUIRE(near[0]["words"].size() == 3);
    for (const json& word : near[0]["words"]) {
      const std::string name = word.get<std::string>();
      CAPTURE(name);
      REQUIRE(name.substr(0, 1) == "i");
      CHECK(std::stoi(name.substr(1)) / 8 == kind);
    }
  }
}

}  // namespace
}  // namespace coxswain::serve
