// `coxswain recommend` for users who are described by more than their items.
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "tests/integration/jobs.h"

namespace coxswain {
namespace {

using Catch::Matchers::Contains;

// 12 users with an age and a city, and 8 of 20 items each.
std::string Rows() {
  std::string rows = "user,item,stars,age,city\n";
  for (int user = 0; user < 12; ++user) {
    for (int i = 0; i < 8; ++i) {
      absl::StrAppend(&rows, "u", user, ",i", (i + user * 3) % 20, ",", i % 2, ",", 20 + user, ",c",
                      user % 3, "\n");
    }
  }
  return rows;
}

// Returns the model's directory; the data is gone.
std::string Trained(const DataFiles& files, const std::string& text, const std::string& more = "") {
  files.Write("rows.csv", Rows() + more);
  const std::string model = files.Path("model");
  const auto trained =
      Coxswain({"train", files.Write("job.yaml", text), "--local", "1x1", "--model-dir", model});
  CAPTURE(trained.err);
  REQUIRE(trained.code == 0);
  std::filesystem::remove(files.Path("rows.csv"));
  return model;
}

std::vector<std::string> Lines(const std::string& text) {
  return absl::StrSplit(text, '\n', absl::SkipEmpty());
}

TEST_CASE("recommend: a matrix_factorization, for one user, all of them, and on a cluster",
          "[model]") {
  const DataFiles files;
  const std::string model = Trained(
      files,
      "name: stars\ndataset: {path: rows.csv}\nfeatures:\n  - {name: user, kind: categorical}\n"
      "  - {name: item, kind: categorical}\nlabel: {column: stars}\n"
      "model: {kind: matrix_factorization, user: {feature: user}, item: {feature: item}, dim: 4}\n"
      "train: {epochs: 3, batch_size: 16}\n");
  const auto ask = [&](std::vector<std::string> more) {
    more.insert(more.begin(), {"recommend", "--model-dir", model});
    return Coxswain(more);
  };
  const auto user = ask({"--value", "user=u3", "--top", "50"});
  CAPTURE(user.out, user.err);
  REQUIRE(user.code == 0);
  const std::vector<std::string> items = Lines(user.out);
  CHECK(items.size() == 12);  // the others are known
  for (const std::string& item : items) {
    CHECK((std::stoi(item.substr(1)) + 20 - 9) % 20 >= 8);
  }
  CHECK(Lines(ask({"--value", "user=u3", "--top", "50", "--include-known"}).out).size() == 20);
  const auto named = ask({"--user", "u3", "--top", "2"});
  CHECK_THAT(named.out, Contains(absl::StrCat("u3  ", items[0], ", ", items[1])));
  const auto batch = ask({"--batch", "--top", "2"});
  CHECK(batch.code == 0);
  const std::vector<std::string> lines = Lines(batch.out);
  REQUIRE(lines.size() == 13);
  CHECK(lines[0] == "user,item_1,score_1,item_2,score_2");
  bool there = false;
  for (const std::string& line : lines) {
    const std::vector<std::string> cells = absl::StrSplit(line, ',');
    there = there || (cells[0] == "u3" && cells[1] == items[0] && cells[3] == items[1]);
  }
  CHECK(there);
  const auto forced = ask({"--batch", "--output", files.Path("job.yaml"), "--force"});
  CHECK(forced.code == 2);
  CHECK_THAT(forced.err, Contains("job.yaml is the job file"));
  const auto elsewhere = ask({"--user", "u3", "--top", "2", "--local", "2x1"});
  CAPTURE(elsewhere.err);
  CHECK(elsewhere.out == named.out);
  const auto nobody = ask({"--user", "nobody", "--user", "u3"});
  CHECK(nobody.code == 2);
  CHECK_THAT(nobody.err, Contains("'nobody'") && Contains("'user'"));
  CHECK(ask({"--items", "i1"}).code == 2);
}

TEST_CASE("recommend: that a user has everything is told, and no empty answer", "[model]") {
  const DataFiles files;
  std::string rows;
  for (int item = 0; item < 20; ++item) absl::StrAppend(&rows, "all,i", item, ",1,30,c1\n");
  const std::string model = Trained(
      files,
      "name: stars\ndataset: {path: rows.csv}\nfeatures:\n  - {name: user, kind: categorical}\n"
      "  - {name: item, kind: categorical}\n"
      "model: {kind: two_tower, user: {features: [user]}, item: {feature: item}, dim: 4}\n"
      "train: {epochs: 1, batch_size: 16}\n",
      rows);
  for (const std::vector<std::string>& whom :
       {std::vector<std::string>{"--user", "all"}, {"--value", "user=all"}}) {
    std::vector<std::string> arguments = {"recommend", "--model-dir", model};
    arguments.insert(arguments.end(), whom.begin(), whom.end());
    const auto nothing = Coxswain(arguments);
    CAPTURE(nothing.out);
    CHECK(nothing.code == 0);
    CHECK_THAT(nothing.err, Contains("nothing to suggest") && Contains("--include-known"));
    arguments.emplace_back("--include-known");
    CHECK(Coxswain(arguments).err.empty());
  }
}

TEST_CASE("recommend: a file where a model should be is a mistake of the user", "[model]") {
  const DataFiles files;
  const std::string plain = files.Write("plain", "x");
  for (const char* flag : {"--model-dir", "--checkpoint-dir"}) {
    const auto refused = Coxswain({"recommend", flag, plain, "--batch"});
    CAPTURE(flag, refused.err);
    CHECK(refused.code == 2);
    CHECK_THAT(refused.err, Contains("Not a directory"));
  }
}

TEST_CASE("recommend: --value describes someone to a two_tower of several features", "[model]") {
  const DataFiles files;
  const std::string model = Trained(
      files,
      "name: pairs\ndataset: {path: rows.csv}\nfeatures:\n  - {name: item, kind: categorical}\n"
      "  - {name: history, kind: history, history_of: item, group_by: user}\n"
      "  - {name: age, kind: numeric, normalization: standard}\n"
      "  - {name: city, kind: categorical}\ntrain: {epochs: 3, batch_size: 16}\n"
      "model: {kind: two_tower, dim: 4, user: {features: [history, age, city], hidden: [8]}, "
      "item: {feature: item}}\n");
  const auto ask = [&](std::vector<std::string> more) {
    more.insert(more.begin(), {"recommend", "--model-dir", model, "--top", "50"});
    return Coxswain(more);
  };
  const auto found =
      ask({"--value", "age=25", "--value", "city=c1", "--value", "history=i1,i2,\"i3\""});
  CAPTURE(found.out, found.err);
  REQUIRE(found.code == 0);
  CHECK(Lines(found.out).size() == 17);
  for (const std::string& item : Lines(found.out)) {
    CHECK((item != "i1" && item != "i2" && item != "i3"));
  }
  CHECK(Lines(ask({"--value", "age=25", "--value", "city=c1"}).out).size() == 20);
  const auto typo = ask({"--value", "aeg=25", "--value", "city=c1"});
  CHECK(typo.code == 2);
  CHECK_THAT(typo.err,
             Contains("aeg") && Contains("age") && Contains("city") && Contains("history"));
  for (const std::vector<std::string>& wrong : std::vector<std::vector<std::string>>{
           {"--value", "city=c1"},
           {"--value", "age=old", "--value", "city=c1"},
           {"--value", "age=25", "--value", "city=c1", "--value", "history=i99"},
           {"--user", "u1"},
           {"--items", "i1"},
           {"--batch"},
           {"--value", "age=25", "--items", "i1"}}) {
    CAPTURE(wrong);
    const auto refused = ask(wrong);
    CHECK(refused.code == 2);
    CHECK(refused.out.empty());
    CHECK_FALSE(refused.err.empty());
  }
}

// Users 0 .. 5 on the first day, 3 .. 8 on the second. Each has 5 of 17 items a day, on the second
// one that the user had before.
std::string DayOf(int day) {
  std::string rows = "user,item,stars\n";
  for (int user = 3 * day - 3; user < 3 * day + 3; ++user) {
    for (int i = 0; i < 5; ++i) {
      absl::StrAppend(&rows, "u", user, ",i", (user + 4 * day + i) % 20, ",", i % 2, "\n");
    }
  }
  return rows;
}

std::set<std::string> HadBy(int user) {
  std::set<std::string> items;
  for (const int day : {1, 2}) {
    if (user < 3 * day - 3 || user >= 3 * day + 3) continue;
    for (int i = 0; i < 5; ++i) items.insert(absl::StrCat("i", (user + 4 * day + i) % 20));
  }
  return items;
}

constexpr char kByName[] = R"(name: stars
dataset: {path: day1.csv}
features:
  - {name: user, kind: categorical}
  - {name: item, kind: categorical}
label: {column: stars}
model: {kind: matrix_factorization, user: {feature: user}, item: {feature: item}, dim: 4}
train: {epochs: 2, batch_size: 16}
)";
constexpr char kByHistory[] = R"(name: seen
dataset: {path: day1.csv}
features:
  - {name: item, kind: categorical}
  - {name: seen, kind: history, history_of: item, group_by: user}
model: {kind: two_tower, dim: 4, user: {features: [seen]}, item: {feature: item}}
train: {epochs: 2, batch_size: 16}
)";

// What the first day has left, and training on the second from there.
class Daily {
 public:
  explicit Daily(const std::string& job) {
    job_ = files.Write("job.yaml", job);
    for (const int day : {1, 2}) files.Write(absl::StrCat("day", day, ".csv"), DayOf(day));
    Train("day1.csv",
          {"--model-dir", files.Path("model1"), "--checkpoint-dir", files.Path("checkpoints1")});
  }
  void SecondDay(const std::string& from, const std::string& model) const {
    Train("day2.csv", {"--model-dir", files.Path(model), "--init-from", files.Path(from)});
  }

  void Train(const std::string& data, const std::vector<std::string>& more) const {
    std::vector<std::string> command = {"train", job_, "--in-process", "--set",
                                        "dataset.path=" + files.Path(data)};
    command.insert(command.end(), more.begin(), more.end());
    const auto result = Coxswain(command);
    CAPTURE(result.err);
    REQUIRE(result.code == 0);
  }
  Process::Result Ask(const std::string& model, std::vector<std::string> more) const {
    more.insert(more.begin(), {"recommend", "--model-dir", files.Path(model), "--top", "50"});
    return Coxswain(more);
  }
  // What is suggested to everybody, by user.
  std::map<std::string, std::set<std::string>> All(const std::string& model) const {
    const auto result = Ask(model, {"--batch", "--output", files.Path("all.csv"), "--force"});
    CAPTURE(result.err);
    REQUIRE(result.code == 0);
    std::ifstream file(files.Path("all.csv"));
    std::map<std::string, std::set<std::string>> all;
    std::string line;
    std::getline(file, line);
    while (std::getline(file, line)) {
      const std::vector<std::string> fields = absl::StrSplit(line, ',');
      for (size_t i = 1; i < fields.size(); i += 2) {
        if (!fields[i].empty()) all[fields[0]].insert(fields[i]);
      }
    }
    return all;
  }

  const DataFiles files;

 private:
  std::string job_;
};

TEST_CASE(
    "recommend: a model that was trained on knows what its users have had since the first day",
    "[model][warm-start]") {
  const std::string job = GENERATE(kByName, kByHistory);
  CAPTURE(job);
  const Daily daily(job);
  const auto check = [&](const std::string& model) {
    CAPTURE(model);
    const auto all = daily.All(model);
    CHECK(all.size() == 9);
    for (int user = 0; user < 9; ++user) {
      CAPTURE(user);
      const auto found = all.find(absl::StrCat("u", user));
      REQUIRE(found != all.end());
      const std::set<std::string> had = HadBy(user);
      CHECK(found->second.size() == 17 - had.size());
      for (const std::string& item : found->second) CHECK(had.count(item) == 0);
    }
  };
  daily.SecondDay("model1", "model2");
  check("model2");
  // The same from a checkpoint, and however often a day is trained on.
  daily.SecondDay("checkpoints1", "model3");
  check("model3");
  daily.SecondDay("model2", "model4");
  check("model4");
}

TEST_CASE("recommend: a model that does not know what its users had before says so",
          "[model][warm-start]") {
  const std::string job = GENERATE(kByName, kByHistory);
  CAPTURE(job);
  const Daily daily(job);
  // Nothing tells who had what.
  std::filesystem::remove_all(daily.files.Path("checkpoints1/inputs"));
  daily.SecondDay("checkpoints1", "model2");
  const auto refused = daily.Ask("model2", {"--user", "u4"});
  CAPTURE(refused.err);
  CHECK(refused.code == 2);
  CHECK(refused.out.empty());
  CHECK_THAT(refused.err, Contains("trained on from another one") && Contains("--include-known"));
  CHECK(daily.Ask("model2", {"--user", "u4", "--include-known"}).code == 0);
  CHECK(daily.Ask("model1", {"--user", "u4"}).code == 0);
}

}  // namespace
}  // namespace coxswain
