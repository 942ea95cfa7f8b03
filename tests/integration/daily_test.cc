// Training day after day: each day's job begins with what the day before has left, a model or
// checkpoints, and trains on the day's file alone, in which ids come and go.
#include <catch2/catch.hpp>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "coordinator/model/saved_reader.h"
#include "tests/integration/jobs.h"
#include "tests/testing/cluster.h"

namespace coxswain {
namespace {

using Catch::Matchers::Contains;
using testing::Must;
using Row = std::vector<float>;

// Smooth: with rectified units a row may have no gradient, and look as if nobody had trained it.
constexpr char kJob[] = R"(name: daily
dataset: {path: day1.csv}
features:
  - {name: user, kind: categorical, oov_buckets: 1}
  - {name: item, kind: categorical, id: raw}
  - {name: city, kind: categorical, hash_buckets: 7}
  - {name: age, kind: numeric, normalization: standard}
label: {column: y}
model: {kind: mlp, hidden: [4], activation: tanh}
optimizer:
  table: {kind: adagrad, learning_rate: 0.1}
  dense: {kind: adam, learning_rate: 0.01}
train: {epochs: 2, batch_size: 16}
)";

// Users and items of a day: some stay for two days, one comes each day, one on days 1 and 3 only.
std::set<int> UsersOf(int day) {
  std::set<int> users = {0};
  for (int user = 10 * day; user < 10 * day + 20; ++user) users.insert(user);
  if (day % 2 == 1) users.insert(5);
  return users;
}

std::string Day(int day) {
  std::string rows = "user,item,city,age,y\n";
  for (const int user : UsersOf(day)) {
    for (int i = 0; i < 6; ++i) {
      absl::StrAppend(&rows, "u", user, ",", 100 * day + user * 3 + i, ",c", i, ",", user, ",",
                      (user + i) % 2, "\n");
    }
  }
  return rows;
}

std::set<int64_t> ItemsOf(int day) {
  std::set<int64_t> items;
  for (const int user : UsersOf(day)) {
    for (int i = 0; i < 6; ++i) items.insert(100 * day + user * 3 + i);
  }
  return items;
}

// What a day has left: by user and item, their rows and what the optimizer keeps of them.
struct Left {
  std::vector<std::string> users;  // by id
  std::map<std::string, Row> rows, slots;
  std::map<int64_t, Row> items, item_slots;
};

Row Read(const model::SavedRows& rows, int64_t at) {
  Row row(static_cast<size_t>(rows.row_elements()));
  Must(rows.ReadFloats(at, 1, row.data()));
  return row;
}

Left Look(const model::SavedSource& source, const std::string& words) {
  Left left;
  left.users = Must(model::SavedWords::Load(words)).words();
  const model::SavedRows users = Must(source.Open("user")),
                         slots = Must(source.OpenPart("user", "accumulator", false));
  for (size_t i = 0; i < left.users.size(); ++i) {
    left.rows[left.users[i]] = Read(users, static_cast<int64_t>(i));
    left.slots[left.users[i]] = Read(slots, static_cast<int64_t>(i));
  }
  for (const bool of_slots : {false, true}) {
    const model::SavedRows items =
        of_slots ? Must(source.OpenPart("item", "accumulator", false)) : Must(source.Open("item"));
    for (int64_t i = 0; i < items.rows(); ++i) {
      int64_t id = 0;
      char live = 0;
      Must(items.ReadIds(i, 1, &id));
      Must(items.ReadLive(i, 1, &live));
      if (live) (of_slots ? left.item_slots : left.items)[id] = Read(items, i);
    }
  }
  return left;
}

TEST_CASE(
    "day after day, from models and from checkpoints: ids keep their rows, and nothing is lost",
    "[model][warm-start]") {
  const bool from_checkpoints = GENERATE(false, true);
  CAPTURE(from_checkpoints);
  const DataFiles files;
  const std::string job = files.Write("job.yaml", kJob);
  std::string before;
  Left yesterday;
  std::set<std::string> ever;
  std::set<int64_t> items_ever;
  for (int day = 1; day <= 4; ++day) {
    CAPTURE(day);
    const std::string data = files.Write(absl::StrCat("day", day, ".csv"), Day(day));
    const std::string model = files.Path(absl::StrCat("model", day)),
                      checkpoints = files.Path(absl::StrCat("checkpoints", day));
    std::vector<std::string> command = {"train", job, "--in-process", "--set",
                                        "dataset.path=" + data};
    if (from_checkpoints) {
      command.insert(command.end(), {"--checkpoint-dir", checkpoints});
    } else {
      command.insert(command.end(), {"--model-dir", model, "--model-slots"});
    }
    if (!before.empty()) command.insert(command.end(), {"--init-from", before});
    const auto result = Coxswain(command);
    CAPTURE(result.out, result.err);
    REQUIRE(result.code == 0);
    if (day > 1) {
      CHECK_THAT(result.out, Contains("initial values from " + before) &&
                                 Contains("optimizer slots of ") && !Contains("anew") &&
                                 !Contains("start over"));
    }
    before = from_checkpoints ? checkpoints : model;
    const Left today =
        from_checkpoints
            ? Look(Must(model::SavedSource::OpenCheckpoint(checkpoints, {})),
                   checkpoints + "/inputs/vocabulary/user.txt")
            : Look(Must(model::SavedSource::OpenModel(model)), model + "/vocabulary/user.txt");
    for (const int user : UsersOf(day)) ever.insert(absl::StrCat("u", user));
    items_ever.merge(ItemsOf(day));
    CHECK(std::set<std::string>(today.users.begin(), today.users.end()) == ever);
    CHECK(today.items.size() == items_ever.size());
    // Ids stay, and rows of those that stayed away; the others have learned.
    REQUIRE(today.users.size() >= yesterday.users.size());
    CHECK(std::equal(yesterday.users.begin(), yesterday.users.end(), today.users.begin()));
    const std::set<int> users = UsersOf(day);
    for (const std::string& user : yesterday.users) {
      CAPTURE(user);
      const bool here = users.count(std::stoi(user.substr(1))) > 0;
      CHECK((today.rows.at(user) == yesterday.rows.at(user)) == !here);
      CHECK((today.slots.at(user) == yesterday.slots.at(user)) == !here);
      // Sums of squares only grow: they were not begun anew.
      for (size_t i = 0; i < today.slots.at(user).size(); ++i) {
        CHECK(today.slots.at(user)[i] >= yesterday.slots.at(user)[i]);
      }
    }
    const std::set<int64_t> items = ItemsOf(day);
    for (const auto& [item, row] : yesterday.items) {
      CAPTURE(item);
      const bool here = items.count(item) > 0;
      CHECK((today.items.at(item) == row) == !here);
      CHECK((today.item_slots.at(item) == yesterday.item_slots.at(item)) == !here);
    }
    yesterday = today;
  }
}

TEST_CASE("day after day: rows of ids that stay away for long go, as in one job", "[warm-start]") {
  const bool from_checkpoints = GENERATE(false, true);
  CAPTURE(from_checkpoints);
  const DataFiles files;
  // 10 steps a day. After 30 of them those rows are left that steps 16 to 30 have updated, and the
  // few that nobody has looked at since.
  constexpr int kDays = 3, kItems = 160, kLeft = 240, kLate = 60;
  const std::string job = files.Write("job.yaml", R"(name: daily
dataset: {path: day1.csv}
features: [{name: item, kind: categorical, id: raw}]
label: {column: y}
model: {kind: mlp, hidden: [4]}
tables: {item: {hash_table: {ttl_steps: 15}}}
train: {batch_size: 16, shuffle: false}
)");
  std::string all = "item,y\n", before;
  const auto train = [&](const std::string& data, const std::string& name) {
    const std::string report = files.Path(name + ".json"), left = files.Path(name);
    std::vector<std::string> command = {
        "train",    job,     "--in-process",
        "--quiet",  "--set", "dataset.path=" + data,
        "--report", report,  from_checkpoints ? "--checkpoint-dir" : "--model-dir",
        left};
    // Slots are written to rows, too, which is no use of them.
    if (!from_checkpoints) command.push_back("--model-slots");
    if (!before.empty()) command.insert(command.end(), {"--init-from", before});
    const auto result = Coxswain(command);
    CAPTURE(result.out, result.err);
    REQUIRE(result.code == 0);
    int64_t rows = 0;
    const nlohmann::json told = ReadJson(report);
    for (const auto& variable : told["variables"]) {
      if (variable["name"] != "item") continue;
      for (const auto& shard : variable["shards"]) rows += shard["rows"].get<int64_t>();
    }
    before = left;
    return rows;
  };
  int64_t rows = 0;
  for (int day = 1; day <= kDays; ++day) {
    std::string text = "item,y\n";
    for (int i = 0; i < kItems; ++i) absl::StrAppend(&text, 1000 * day + i, ",", i % 2, "\n");
    all += text.substr(text.find('\n') + 1);
    rows = train(files.Write(absl::StrCat("day", day, ".csv"), text), absl::StrCat("left", day));
  }
  CHECK(rows >= kLeft);
  CHECK(rows <= kLeft + kLate);
  before.clear();
  const int64_t of_one_job = train(files.Write("all.csv", all), "all");
  CHECK(of_one_job >= kLeft);
  CHECK(of_one_job <= kLeft + kLate);
}

TEST_CASE("day after day: a model has the steps of those that it goes on from", "[warm-start]") {
  const DataFiles files;
  const std::string job = files.Write("job.yaml", kJob);
  int64_t steps = 0;
  std::string before;
  for (int day = 1; day <= 3; ++day) {
    const std::string data = files.Write(absl::StrCat("day", day, ".csv"), Day(day)),
                      model = files.Path(absl::StrCat("model", day));
    std::vector<std::string> command = {"train",       job,     "--in-process",
                                        "--quiet",     "--set", "dataset.path=" + data,
                                        "--model-dir", model};
    if (!before.empty()) command.insert(command.end(), {"--init-from", before});
    const auto result = Coxswain(command);
    CAPTURE(result.err);
    REQUIRE(result.code == 0);
    const auto source = Must(model::SavedSource::OpenModel(model));
    CHECK(source.steps() > 0);
    steps += source.steps();
    CHECK(source.all_steps() == steps);
    before = model;
  }
}

TEST_CASE("day after day: a day without a click goes on, and is told", "[warm-start]") {
  const DataFiles files;
  const std::string job = files.Write("job.yaml", R"(name: clicks
dataset: {path: day1.csv}
features: [{name: item, kind: categorical, oov_buckets: 1}]
label: {column: y}
model: {kind: logistic_regression}
)");
  files.Write("day1.csv", "item,y\na,1\nb,0\na,0\n");
  const std::string none = files.Write("day2.csv", "item,y\na,0\nb,0\n"),
                    model = files.Path("model");
  REQUIRE(Coxswain({"train", job, "--in-process", "--quiet", "--model-dir", model}).code == 0);
  const std::vector<std::string> day2 = {"train", job, "--in-process", "--set",
                                         "dataset.path=" + none};
  const auto alone = Coxswain(day2);
  CHECK(alone.code == 2);
  CHECK_THAT(alone.err, Contains("wanted labels that differ, found 0 in all 2"));
  std::vector<std::string> command = day2;
  command.insert(command.end(), {"--init-from", model});
  const auto result = Coxswain(command);
  CAPTURE(result.out, result.err);
  CHECK(result.code == 0);
  CHECK_THAT(result.err, Contains("label: wanted labels that differ, found 0 in all 2"));
}

}  // namespace
}  // namespace coxswain
