// Items that have features: a two_tower is trained, measured and asked as people do it, and says
// the same wherever it is asked, without the files of training. New items are suggested by what is
// known of them.
#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "tests/integration/jobs.h"
#include "tests/testing/paths.h"
#include "tests/testing/same_output.h"

namespace coxswain {
namespace {

using Catch::Matchers::Contains;
namespace fs = std::filesystem;

constexpr int kKinds = 4, kOfKind = 8;

// 24 users who like the 8 items of one of 4 kinds, and have 6 of them.
std::string Pairs() {
  std::string csv = "user,item\n";
  for (int user = 0; user < 24; ++user) {
    for (int i = 0; i < 6; ++i) {
      absl::StrAppend(&csv, "u", user, ",i",
                      user % kKinds * kOfKind + (user / kKinds + i) % kOfKind, "\n");
    }
  }
  return csv;
}

// What is known of the items, and of a new one of each kind, which come first.
std::string Items(const std::string& more = "") {
  std::string csv = absl::StrCat("item,tags,title,size\n", more);
  const auto add = [&csv](const std::string& name, int kind) {
    absl::StrAppend(&csv, name, ",kind", kind, "|all,The word", kind, " of it,", kind, "\n");
  };
  for (int kind = 0; kind < kKinds; ++kind) add(absl::StrCat("new", kind), kind);
  for (int item = 0; item < kKinds * kOfKind; ++item) add(absl::StrCat("i", item), item / kOfKind);
  return csv;
}

constexpr char kJob[] = R"(name: described
dataset:
  path: pairs.csv
  join: [{path: items.csv, on: item}]
features:
  - {name: item, kind: categorical, vocabulary_file: items.csv}
  - {name: history, kind: history, history_of: item, group_by: user}
  - {name: tags, kind: categorical, value_separator: "|"}
  - {name: words, kind: categorical, column: title, tokens: words}
  - {name: size, kind: numeric, normalization: standard}
split: {holdout_per: user}
model:
  kind: two_tower
  user: {features: [history]}
  item: {feature: item, features: [tags, words], bias: false}
  dim: 8
loss: {kind: sampled_softmax, negatives: 16}
optimizer: {table: {kind: lazy_adam, learning_rate: 0.02}, dense: {kind: adam}}
train: {epochs: 60, batch_size: 32, deterministic: true}
evaluate: {metrics: [hit_rate@3], every_epochs: 30}
)";

struct Described {
  explicit Described(const std::vector<std::string>& set = {}, bool on_processes = false) {
    files.Write("pairs.csv", Pairs());
    files.Write("items.csv", Items());
    job = files.Write("job.yaml", kJob);
    std::vector<std::string> command = {"train", job, "--quiet", "--model-dir", model};
    if (on_processes) {
      command.insert(command.end(), {"--local", "2x2", "--checkpoint-dir", checkpoints});
    } else {
      command.emplace_back("--in-process");
    }
    for (const std::string& one : set) command.insert(command.end(), {"--set", one});
    Ask(command);
  }
  std::string Ask(const std::vector<std::string>& command) const {
    const auto result = Coxswain(command);
    CAPTURE(command, result.out, result.err);
    REQUIRE(result.code == 0);
    return result.out;
  }
  // "  u1  i14, i15": the items.
  std::vector<std::string> Recommended(const std::string& directory, const std::string& user,
                                       const std::string& top) const {
    const std::string says =
        Ask({"recommend", "--model-dir", directory, "--user", user, "--top", top});
    const size_t at = says.rfind("  ") + 2;
    return absl::StrSplit(says.substr(at, says.size() - at - 1), ", ");
  }

  DataFiles files;
  std::string job;
  std::string model = files.Path("model"), checkpoints = files.Path("checkpoints");
};

// How many of the items that no row has, "new0" and so on, come before `item` in what is best.
int NewBefore(const std::vector<std::string>& best, const std::string& item) {
  const auto found = std::find(best.begin(), best.end(), item);
  REQUIRE(found != best.end());
  return static_cast<int>(std::count_if(
      best.begin(), found, [](const std::string& name) { return absl::StartsWith(name, "new"); }));
}

bool Has(const std::vector<std::string>& names, const std::string& name) {
  return std::count(names.begin(), names.end(), name) > 0;
}

TEST_CASE("a new item is suggested by its features, without the files of training", "[items]") {
  const DataFiles cache;
  for (const std::vector<std::string>& set :
       {std::vector<std::string>{},
        {"model.item.hidden=[16]", "model.item.features=[tags, words, size]"},
        {"dataset.streaming=true", absl::StrCat("dataset.cache_directory=", cache.Path("c"))}}) {
    CAPTURE(set);
    const Described d(set);
    fs::remove(d.files.Path("pairs.csv"));
    fs::remove(d.files.Path("items.csv"));
    fs::remove(d.job);
    const std::string model = d.files.Path("moved");
    fs::rename(d.model, model);
    for (int user = 0; user < kKinds; ++user) {
      // Of 8 items of its kind the user has 5 and one is held out, which leaves 3 and the new one.
      const std::string kind = absl::StrCat(user);
      const auto best = d.Recommended(model, absl::StrCat("u", kind), "4");
      CAPTURE(best);
      CHECK(Has(best, absl::StrCat("new", kind)));
    }
    const std::string near =
        d.Ask({"nearest", "--model-dir", model, "--table", "item", "new2", "--top", "3", "--json"});
    const auto json = nlohmann::json::parse(near);
    REQUIRE(json[0]["nearest"].size() == 3);
    // Layers are not bound to make alike of alike.
    const bool sums = set.empty() || set[0] != "model.item.hidden=[16]";
    for (const auto& neighbour : json[0]["nearest"]) {
      const std::string name = neighbour["word"];
      CAPTURE(name);
      REQUIRE(name != "new2");
      if (!sums) continue;
      REQUIRE(name.substr(0, 1) == "i");
      CHECK(std::stoi(name.substr(1)) / kOfKind == 2);
    }
    // Only what the user has is asked for, nothing of the items. What the user has may be predicted
    // too, so it is the order of the new ones that their features decide.
    const std::string rows = d.files.Write("rows.csv", "history\ni8|i9|i10|i11|i12\n");
    const std::string all = absl::StrCat(kKinds * (kOfKind + 1));
    CHECK(NewBefore(absl::StrSplit(
                        d.Ask({"predict", "--model-dir", model, "--input", rows, "--top", all}),
                        absl::ByAnyChar(",\n")),
                    "new1") == 0);
  }
}

TEST_CASE("items with features are ranked and suggested the same wherever it is asked", "[items]") {
  const Described d({"model.item.hidden=[16]", "model.item.features=[tags, words, size]"},
                    /*on_processes=*/true);
  const std::string here = d.Ask({"eval", "--model-dir", d.model});
  CHECK(here == d.Ask({"eval", "--model-dir", d.model, "--local", "2x2"}));
  CHECK(here == d.Ask({"eval", "--checkpoint-dir", d.checkpoints}));
  const std::string report = d.files.Path("report.json");
  d.Ask({"eval", "--model-dir", d.model, "--report", report});
  CHECK(ReadJson(report)["metrics"]["hit_rate@3"].get<double>() > 0.5);
  for (const std::vector<std::string>& whom :
       {std::vector<std::string>{"--batch"}, {"--items", "i3,i4"}, {"--items", "new0"}}) {
    std::vector<std::string> ask = {"recommend", "--model-dir", d.model, "--top", "5"};
    ask.insert(ask.end(), whom.begin(), whom.end());
    const std::string of_model = d.Ask(ask);
    ask[1] = "--checkpoint-dir";
    ask[2] = d.checkpoints;
    testing::CheckSameOutput(d.Ask(ask), of_model, 1e-4);
    ask.insert(ask.end(), {"--local", "2x2"});
    testing::CheckSameOutput(d.Ask(ask), of_model, 1e-4);
  }
  testing::CheckSameOutput(
      d.Ask({"nearest", "--checkpoint-dir", d.checkpoints, "--table", "item", "i9"}),
      d.Ask({"nearest", "--model-dir", d.model, "--table", "item", "i9"}), 1e-4);
}

TEST_CASE("training that goes on knows an item that has come into the table since", "[items]") {
  const Described d;
  d.files.Write("items.csv", Items("fresh,kind1|all,The fresh word1 of it,1\n"));
  const std::string next = d.files.Path("next");
  d.Ask({"train", d.job, "--quiet", "--in-process", "--model-dir", next, "--init-from", d.model,
         "--set", "train.epochs=", "--set", "train.steps=1"});
  const auto before = d.Recommended(d.model, "u1", "4"), after = d.Recommended(next, "u1", "5");
  CAPTURE(before, after);
  CHECK(Has(before, "new1"));
  CHECK(Has(after, "new1"));
  CHECK(Has(after, "fresh"));
}

TEST_CASE("a job whose items are described by columns of its rows is told by file and line",
          "[items]") {
  const DataFiles files;
  std::string rows = Pairs();
  for (size_t at = 0; (at = rows.find('\n', at)) != std::string::npos; at += 7) {
    rows.insert(at, at < 12 ? ",mood" : ",happy");
  }
  files.Write("pairs.csv", rows);
  files.Write("items.csv", Items());
  std::string text = kJob;
  text.insert(text.find("  - {name: size"), "  - {name: mood, kind: categorical}\n");
  const std::string job = files.Write("job.yaml", text);
  const auto refused = Coxswain(
      {"train", job, "--quiet", "--in-process", "--set", "model.item.features=[tags, mood]"});
  CAPTURE(refused.out, refused.err);
  CHECK(refused.code == 2);
  CHECK_THAT(refused.err, Contains("model.item.features") && Contains("dataset.join, on: item") &&
                              Contains("found the column \"mood\""));
}

}  // namespace
}  // namespace coxswain
