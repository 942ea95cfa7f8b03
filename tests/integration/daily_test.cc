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

}  // namespace
}  // namespace coxswain
