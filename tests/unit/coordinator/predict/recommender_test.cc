// What a model suggests is what it predicts best: for users by name, by their items, and by values;
// in this process, by an index, and on a cluster.
#include "coordinator/predict/recommender.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "coordinator/predict/raw_rows.h"
#include "nlohmann/json.hpp"
#include "runtime/checkpoint/crc32.h"
#include "tests/testing/saved_jobs.h"

namespace coxswain::predict {
namespace {

using Catch::Matchers::Contains;
using testing::Must;
namespace fs = std::filesystem;

constexpr int kUsers = 12, kItems = 20;

// Each user has 8 of the items.
bool Has(int user, int item) { return (item + user * 3) % kItems < 8; }

std::string Rows() {
  std::string rows = "user,item,stars,age,city\n";
  for (int user = 0; user < kUsers; ++user) {
    for (int item = 0; item < kItems; ++item) {
      if (!Has(user, item)) continue;
      absl::StrAppend(&rows, "u", user, ",i", item, ",", (user % 3 + item % 4) % 2, ",",
                      20 + user % 5, ",c", user % 3, "\n");
    }
  }
  return rows;
}

std::string Factorization(const std::string& model, const std::string& rest) {
  return absl::StrCat(
      "name: stars\ndataset: {path: rows.csv}\nfeatures:\n",
      "  - {name: user, kind: categorical, oov_buckets: 1}\n",
      "  - {name: item, kind: categorical, oov_buckets: 2}\nlabel: {column: stars}\n",
      "split: {test_path: test.csv}\ntrain: {batch_size: 16}\n",
      "model: {kind: matrix_factorization, user: {feature: user}, item: {feature: item}, dim: 4",
      model, "}\n", rest);
}

SavedJob Save(const DataFiles& files, const std::string& text) {
  files.Write("rows.csv", Rows());
  files.Write("test.csv", Rows());
  return TrainAndSave(files, text);
}

// The score of every item for a user, as `predict` has it.
std::map<std::string, float> Predicted(const Predictor& predictor, const std::string& user) {
  RawRows rows{{"user", "item"}, {}};
  for (int item = 0; item < kItems; ++item) {
    rows.rows.push_back({RawValue(user), RawValue(absl::StrCat("i", item))});
  }
  const data::InputRows read = Must(ReadRaw(predictor.rows(), rows));
  const Scores scores = Must(predictor.Predict(Must(read.Read(0, kItems))));
  std::map<std::string, float> by_name;
  for (int item = 0; item < kItems; ++item) {
    by_name[absl::StrCat("i", item)] = scores.score.data<float>()[item];
  }
  return by_name;
}

void CheckBest(const Recommender& recommender, const std::vector<Choice>& found,
               const std::map<std::string, float>& wanted) {
  REQUIRE(found.size() == wanted.size());
  for (size_t i = 0; i < found.size(); ++i) {
    const std::string name = recommender.predictor().NameOf(found[i].id);
    CAPTURE(i, name);
    REQUIRE(wanted.count(name) == 1);
    CHECK(found[i].score == Approx(wanted.at(name)).margin(1e-5));
    if (i > 0) CHECK(found[i].score <= found[i - 1].score);
  }
}

// All items, and those that the user does not have.
void CheckUsers(const Recommender& recommender, const Predictor& says) {
  for (int user = 0; user < kUsers; ++user) {
    const std::string name = absl::StrCat("u", user);
    CAPTURE(name);
    std::map<std::string, float> wanted = Predicted(says, name);
    const auto whom = Must(recommender.User(name));
    CheckBest(recommender,
              Must(recommender.RecommendTo({&whom, 1}, {.top = 50, .include_known = true}))[0],
              wanted);
    for (int item = 0; item < kItems; ++item) {
      if (Has(user, item)) wanted.erase(absl::StrCat("i", item));
    }
    const auto best = Must(recommender.RecommendTo({&whom, 1}, {.top = 50}))[0];
    CheckBest(recommender, best, wanted);
    // The same by value.
    const auto described = Must(recommender.WithValues({RawValue(name)}));
    const auto same = Must(recommender.RecommendTo({&described, 1}, {.top = 50}))[0];
    REQUIRE(same.size() == best.size());
    for (size_t i = 0; i < best.size(); ++i) CHECK(same[i].id == best[i].id);
  }
}

TEST_CASE("recommend: a matrix_factorization suggests what it predicts best", "[predict]") {
  for (const char* model : {"", ", biases: false"}) {
    for (const char* rest : {"", "loss: {kind: sigmoid_cross_entropy}\n",
                             "tables: {item: {dtype: bf16}, user: {sharding: hash}}\n"}) {
      CAPTURE(model, rest);
      const DataFiles files;
      const SavedJob saved = Save(files, Factorization(model, rest));
      const auto recommender = Must(Recommender::Load(saved.directory));
      CHECK(Must(recommender->Users())->size() == kUsers);
      CheckUsers(*recommender, recommender->predictor());
      // Many at once are those one by one.
      std::vector<Recommender::Whom> all;
      for (const std::string& name : *Must(recommender->Users())) {
        all.push_back(Must(recommender->User(name)));
      }
      const auto together = Must(recommender->RecommendTo(all, {.top = 3}));
      REQUIRE(together.size() == all.size());
      for (size_t i = 0; i < all.size(); ++i) {
        CHECK(together[i][0].id ==
              Must(recommender->RecommendTo({&all[i], 1}, {.top = 3}))[0][0].id);
      }
    }
  }
}

// As if it had been saved so: with its checksum.
void MakeFirstNumberNan(const std::string& directory, const std::string& variable) {
  const auto read = [](const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    return std::string{std::istreambuf_iterator<char>(file), {}};
  };
  const std::string path = directory + "/model.json";
  auto manifest = nlohmann::ordered_json::parse(read(path));
  for (auto& entry : manifest["variables"]) {
    if (entry["name"] != variable) continue;
    const std::string table = absl::StrCat(directory, "/", entry["file"].get<std::string>());
    std::string bytes = read(table);
    const float nan = std::numeric_limits<float>::quiet_NaN();
    uint64_t header;
    std::memcpy(&header, bytes.data(), sizeof(header));
    std::memcpy(bytes.data() + sizeof(header) + header, &nan, sizeof(nan));
    std::ofstream(table, std::ios::binary) << bytes;
    entry["crc32"] = checkpoint::Crc32(0, bytes.data(), bytes.size());
  }
  std::ofstream(path) << manifest.dump();
}

TEST_CASE("recommend: scores that are no numbers are an error, not an order", "[predict]") {
  const DataFiles files;
  const SavedJob saved = Save(files, Factorization(", biases: false", ""));
  MakeFirstNumberNan(saved.directory, "user");
  const auto recommender = Must(Recommender::Load(saved.directory));
  const std::vector<std::string>& users = *Must(recommender->Users());
  const auto last = Must(recommender->User(users.back()));
  CHECK(recommender->RecommendTo({&last, 1}, {.top = 3}).ok());
  const auto first = Must(recommender->User(users.front()));
  const absl::Status refused = recommender->RecommendTo({&first, 1}, {.top = 3}).status();
  INFO(refused.ToString());
  CHECK(absl::IsDataLoss(refused));
  CHECK_THAT(std::string(refused.message()), Contains("is nan: wanted a number"));
}

TEST_CASE("recommend: a matrix_factorization suggests the same on a cluster", "[predict]") {
  const DataFiles files;
  const SavedJob saved = Save(files, Factorization("", ""));
  const auto here = Must(Predictor::Load(saved.directory));
  LoadOptions options;
  options.open_cluster = [](const job::JobSpec&) { return testing::MustStart(2, 1, 1); };
  const auto recommender =
      Must(Recommender::Create(Must(Predictor::Load(saved.directory, options))));
  REQUIRE(recommender->predictor().remote());
  CheckUsers(*recommender, *here);
}

TEST_CASE("recommend: an index of a matrix_factorization's items finds what scores highest",
          "[predict]") {
  const DataFiles files;
  const SavedJob saved = Save(files, Factorization("", ""));
  const auto exact = Must(Recommender::Load(saved.directory));
  model::IndexOptions options;
  options.stopped = [] { return false; };
  const auto indexed = Must(exact->WithIndex(options));
  REQUIRE(indexed->index() != nullptr);
  for (const std::string& name : *Must(exact->Users())) {
    const auto whom = Must(exact->User(name));
    const auto wanted = Must(exact->RecommendTo({&whom, 1}, {.top = 3}));
    const auto found = Must(indexed->RecommendTo({&whom, 1}, {.top = 3}));
    REQUIRE(found[0].size() == 3);
    CHECK(found[0][0].id == wanted[0][0].id);
    CHECK(found[0][0].score == Approx(wanted[0][0].score).margin(1e-5));
    // More than the index was measured on, and more than there are: all that are not known.
    for (const int64_t top : {indexed->index()->most + 1, int64_t{1000}}) {
      const auto all = Must(exact->RecommendTo({&whom, 1}, {.top = top}));
      const auto by_index = Must(indexed->RecommendTo({&whom, 1}, {.top = top}));
      REQUIRE(by_index[0].size() == all[0].size());
      for (size_t i = 0; i < all[0].size(); ++i) CHECK(by_index[0][i].id == all[0][i].id);
    }
  }
}

TEST_CASE("recommend: what a model does not keep is not taken for nothing", "[predict]") {
  const DataFiles files;
  const SavedJob saved = Save(files, Factorization("", ""));
  // As an earlier version saved it.
  REQUIRE(fs::remove_all(saved.directory + "/history") > 0);
  const std::string path = saved.directory + "/model.json";
  nlohmann::json manifest = nlohmann::json::parse(std::ifstream(path));
  manifest.erase("format_version");
  manifest.erase("checksums");
  std::ofstream(path) << manifest;
  const auto recommender = Must(Recommender::Load(saved.directory));
  const auto whom = Must(recommender->User("u1"));
  const auto refused = recommender->RecommendTo({&whom, 1}, {.top = 3});
  CHECK(absl::IsFailedPrecondition(refused.status()));
  CHECK_THAT(std::string(refused.status().message()), Contains("--include-known"));
  CHECK(recommender->RecommendTo({&whom, 1}, {.top = 3, .include_known = true}).ok());
}

TEST_CASE("recommend: someone unknown, or asked for by items, is refused by name", "[predict]") {
  const DataFiles files;
  const SavedJob saved = Save(files, Factorization("", ""));
  const auto recommender = Must(Recommender::Load(saved.directory));
  const auto unknown = recommender->User("nobody");
  CHECK(absl::IsNotFound(unknown.status()));
  CHECK_THAT(std::string(unknown.status().message()), Contains("nobody"));
  CHECK(absl::IsNotFound(recommender->WithValues({RawValue("nobody")}).status()));
  CHECK(
      absl::IsFailedPrecondition(recommender->WithItems(std::vector<std::string>{"i1"}).status()));
  const DataFiles others;
  const SavedJob linear = Save(others,
                               "name: t\ndataset: {path: rows.csv}\nfeatures:\n"
                               "  - {name: user, kind: categorical}\n"
                               "label: {column: stars}\nsplit: {test_path: test.csv}\n"
                               "model: {kind: logistic_regression}\n");
  const auto cannot = Recommender::Load(linear.directory);
  CHECK(absl::IsFailedPrecondition(cannot.status()));
  CHECK_THAT(std::string(cannot.status().message()), Contains("cannot recommend"));
}

std::string Towers(const std::string& user) {
  return absl::StrCat(
      "name: pairs\ndataset: {path: rows.csv}\nfeatures:\n  - {name: item, kind: categorical}\n",
      "  - {name: history, kind: history, history_of: item, group_by: user}\n",
      "  - {name: age, kind: numeric, normalization: standard}\n",
      "  - {name: city, kind: categorical}\nsplit: {test_path: test.csv}\n",
      "train: {batch_size: 16}\nmodel: {kind: two_tower, dim: 4, user: {", user,
      "}, item: {feature: item}}\n");
}

TEST_CASE("recommend: a user of several features is asked for by values", "[predict]") {
  const DataFiles files;
  const SavedJob saved = Save(files, Towers("features: [history, age, city], hidden: [8]"));
  const auto recommender = Must(Recommender::Load(saved.directory));
  const Predictor& predictor = recommender->predictor();
  std::vector<std::string> names;
  std::map<std::string, RawValue> values = {
      {"age", RawValue("23")},
      {"city", RawValue("c1")},
      {"history", RawValue(std::vector<std::string>{"i1", "i2", "i2"})}};
  std::vector<RawValue> row;
  for (const RawColumn& column : recommender->columns()) {
    names.push_back(column.name);
    row.push_back(values.at(column.name));
  }
  REQUIRE(names.size() == 3);
  const auto whom = Must(recommender->WithValues(row));
  const auto found = Must(recommender->RecommendTo({&whom, 1}, {.top = 50}))[0];
  const data::InputRows read = Must(ReadRaw(predictor.rows(), {names, {row}}));
  const Scores scores = Must(predictor.Predict(Must(read.Read(0, 1))));
  std::map<std::string, float> wanted;
  for (int64_t id = 0; id < kItems; ++id) {
    const std::string name = predictor.NameOf(id);
    if (name != "i1" && name != "i2") wanted[name] = scores.score.data<float>()[id];
  }
  CheckBest(*recommender, found, wanted);
  // Each of the values counts.
  for (const auto& [name, other] :
       std::map<std::string, RawValue>{{"age", RawValue("90")},
                                       {"city", RawValue("c2")},
                                       {"history", RawValue(std::vector<std::string>{"i7"})}}) {
    std::vector<RawValue> changed = row;
    for (size_t i = 0; i < names.size(); ++i) {
      if (names[i] == name) changed[i] = other;
    }
    const auto another = Must(recommender->WithValues(changed));
    CHECK(Must(recommender->RecommendTo({&another, 1}, {.top = 1}))[0][0].score != found[0].score);
  }
  // Its users are more than what is kept of them.
  CHECK(absl::IsFailedPrecondition(recommender->Users().status()));
  CHECK(absl::IsFailedPrecondition(recommender->User("u1").status()));
  CHECK(
      absl::IsFailedPrecondition(recommender->WithItems(std::vector<std::string>{"i1"}).status()));
  for (size_t i = 0; i < names.size(); ++i) {
    if (names[i] == "age") row[i] = RawValue("old");
  }
  const auto wrong = recommender->WithValues(row);
  CHECK(absl::IsInvalidArgument(wrong.status()));
  CHECK_THAT(std::string(wrong.status().message()), Contains("age") && Contains("old"));
}

TEST_CASE("recommend: a history by value is the same as by items", "[predict]") {
  const DataFiles files;
  const SavedJob saved = Save(files, Towers("features: [history]"));
  const auto recommender = Must(Recommender::Load(saved.directory));
  const std::vector<std::string> items = {"i1", "i2"};
  const std::vector<Recommender::Whom> all = {Must(recommender->WithItems(items)),
                                              Must(recommender->WithValues({RawValue(items)})),
                                              Must(recommender->User("u3"))};
  const auto unknown = recommender->WithValues({RawValue(std::vector<std::string>{"i1", "i99"})});
  CHECK(absl::IsNotFound(unknown.status()));
  CHECK_THAT(std::string(unknown.status().message()), Contains("'i99'"));
  const auto found = Must(recommender->RecommendTo(all, {.top = 5}));
  REQUIRE(found.size() == 3);
  REQUIRE(found[0].size() == 5);
  for (size_t i = 0; i < 5; ++i) {
    CHECK(found[0][i].id == found[1][i].id);
    CHECK(found[0][i].score == Approx(found[1][i].score));
    CHECK_FALSE(Has(3, std::stoi(recommender->predictor().NameOf(found[2][i].id).substr(1))));
  }
}

TEST_CASE("recommend: suggest_self false holds for users without rows, too", "[predict]") {
  const DataFiles files;
  std::string rows = "user,item\n";
  for (int user = 0; user < 6; ++user) {
    for (int i = 1; i < 4; ++i) absl::StrAppend(&rows, "p", user, ",p", (user + i) % 8, "\n");
  }
  files.Write("rows.csv", rows);
  files.Write("test.csv", rows);
  const std::string names = "vocabulary: [p0, p1, p2, p3, p4, p5, p6, p7]";
  const SavedJob saved =
      TrainAndSave(files,
                   "name: packages\ndataset: {path: rows.csv}\nfeatures:\n"
                   "  - {name: item, kind: categorical, " +
                       names +
                       "}\n"
                       "  - {name: user, kind: categorical, " +
                       names +
                       "}\n"
                       "split: {test_path: test.csv}\nevaluate: {suggest_self: false}\n"
                       "train: {batch_size: 16}\nmodel: {kind: two_tower, dim: 4, "
                       "user: {features: [user]}, item: {feature: item}}\n");
  const auto recommender = Must(Recommender::Load(saved.directory));
  for (const char* user : {"p1", "p7"}) {
    CAPTURE(user);
    const auto whom = Must(recommender->User(user));
    const auto best = Must(recommender->RecommendTo({&whom, 1}, {.top = 50}))[0];
    CHECK(best.size() >= 4);
    for (const Choice& choice : best) CHECK(recommender->predictor().NameOf(choice.id) != user);
  }
}

TEST_CASE("recommend: a two_tower whose user is an id suggests for its users by name",
          "[predict]") {
  const DataFiles files;
  files.Write("rows.csv", Rows());
  files.Write("test.csv", Rows());
  const SavedJob saved = TrainAndSave(
      files,
      "name: pairs\ndataset: {path: rows.csv}\nfeatures:\n  - {name: item, kind: categorical}\n"
      "  - {name: user, kind: categorical}\nsplit: {test_path: test.csv}\n"
      "train: {batch_size: 16}\nmodel: {kind: two_tower, dim: 4, user: {features: [user]}, "
      "item: {feature: item}}\n");
  const auto recommender = Must(Recommender::Load(saved.directory));
  const auto whom = Must(recommender->User("u3"));
  const auto best = Must(recommender->RecommendTo({&whom, 1}, {.top = 50}))[0];
  REQUIRE(best.size() == kItems - 8);
  for (const Choice& choice : best) {
    CHECK_FALSE(Has(3, std::stoi(recommender->predictor().NameOf(choice.id).substr(1))));
  }
}

// Users as `user` says, in rows whose users are called by `prefix` and a number.
SavedJob SaveUsers(const DataFiles& files, const std::string& user, const std::string& prefix,
                   const std::string& data = "path: rows.csv") {
  for (const char* name : {"rows.csv", "test.csv"}) {
    files.Write(name, absl::StrReplaceAll(Rows(), {{"\nu", "\n" + prefix}}));
  }
  return TrainAndSave(
      files,
      absl::StrCat("name: pairs\ndataset: {", data, "}\nfeatures:\n",
                   "  - {name: item, kind: categorical}\n  - {name: user, kind: categorical, ",
                   user, "}\nsplit: {test_path: test.csv}\ntrain: {batch_size: 16}\n",
                   "model: {kind: two_tower, dim: 4, user: {features: [user]}, ",
                   "item: {feature: item}}\n"));
}

TEST_CASE("recommend: what a user has is left out where users are ids or hashes", "[predict]") {
  struct Kind {
    std::string user, prefix;
    bool named;
  };
  const std::vector<Kind> kinds = {{"id: hash", "u", false},
                                   {"id: hash, keep_names: true", "u", true},
                                   {"id: raw", "9000000000", true}};
  for (const Kind& kind : kinds) {
    CAPTURE(kind.user);
    const DataFiles files;
    const SavedJob saved = SaveUsers(files, kind.user, kind.prefix);
    const auto recommender = Must(Recommender::Load(saved.directory));
    for (int user = 0; user < kUsers; ++user) {
      const std::string name = absl::StrCat(kind.prefix, user);
      CAPTURE(name);
      const std::vector<Recommender::Whom> same = {Must(recommender->User(name)),
                                                   Must(recommender->WithValues({RawValue(name)}))};
      for (const auto& best : Must(recommender->RecommendTo(same, {.top = 50}))) {
        REQUIRE(best.size() == kItems - 8);
        for (const Choice& choice : best) {
          const std::string item = recommender->predictor().NameOf(choice.id);
          CHECK_FALSE(Has(user, std::stoi(item.substr(1))));
        }
      }
      CHECK(Must(recommender->RecommendTo(same, {.top = 50, .include_known = true}))[0].size() ==
            kItems);
    }
    CHECK(absl::IsNotFound(recommender->User("7").status()));
    CHECK(absl::IsNotFound(recommender->WithValues({RawValue("7")}).status()));
    const auto users = recommender->Users();
    CHECK(users.ok() == kind.named);
    if (kind.named) CHECK((*users)->size() == kUsers);
    if (!kind.named) CHECK_THAT(std::string(users.status().message()), Contains("keep_names"));
  }
}

TEST_CASE(
    "recommend: whose users share buckets, or whose data streamed, suggests only what may be "
    "known",
    "[predict]") {
  for (const auto& [user, data] : std::map<std::string, std::string>{
           {"hash_buckets: 3", "path: rows.csv"},
           {"hash_buckets: 3, keep_names: true", "path: rows.csv"},
           {"id: hash", "path: rows.csv, streaming: true"},
           {"id: hash, keep_names: true", "path: rows.csv, streaming: true"}}) {
    CAPTURE(user, data);
    const DataFiles files;
    const SavedJob saved = SaveUsers(files, user, "u", data);
    const auto recommender = Must(Recommender::Load(saved.directory));
    const bool named = absl::StrContains(user, "keep_names");
    CHECK(recommender->Users().ok() == named);
    for (const auto& whom : {recommender->User("u1"), recommender->WithValues({RawValue("u1")})}) {
      REQUIRE(whom.ok());
      const auto refused = recommender->RecommendTo({&*whom, 1}, {.top = 3});
      CHECK(absl::IsFailedPrecondition(refused.status()));
      CHECK_THAT(std::string(refused.status().message()), Contains("--include-known"));
      const auto all =
          Must(recommender->RecommendTo({&*whom, 1}, {.top = 50, .include_known = true}));
      CHECK(all[0].size() == kItems);
    }
    CHECK(recommender->User("nobody").ok() == !named);
  }
}

}  // namespace
}  // namespace coxswain::predict
