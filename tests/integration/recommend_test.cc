// `coxswain recommend` for users who are described by more than their items.
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
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

}  // namespace
}  // namespace coxswain
