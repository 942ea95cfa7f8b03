#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "runtime/data/hash.h"
#include "tests/testing/data_files.h"
#include "tests/testing/data_specs.h"

namespace coxswain::data {
namespace {

using proto::FeatureSpec;
using Ids = std::vector<int64_t>;
using Offsets = std::vector<int32_t>;

constexpr Part kTraining = Part::kTraining;
constexpr Part kTest = Part::kTest;

proto::DatasetSpec PlaysSpec(const std::string& path, int64_t max_values) {
  auto spec = CsvSpec(path);
  AddCategorical(&spec, "user");
  AddCategorical(&spec, "item");
  FeatureSpec* history = AddCategorical(&spec, "history");
  history->set_history_of("item");
  history->set_group_by("user");
  history->set_max_values(max_values);
  spec.mutable_label()->set_feature("item");
  return spec;
}

// `users` users with 1 to 40 different items each.
std::string Plays(int users) {
  std::string text = "user,item\n";
  for (int user = 0; user < users; ++user) {
    std::set<uint64_t> items;
    const uint64_t count = 1 + Mix64(static_cast<uint64_t>(user)) % 40;
    for (uint64_t i = 0; items.size() < count; ++i) {
      items.insert(HashPair(static_cast<uint64_t>(user), i) % 300);
    }
    for (const uint64_t item : items) absl::StrAppend(&text, "u", user, ",i", item, "\n");
  }
  return text;
}

TEST_CASE("history: the group's other values, without the row's own") {
  DataFiles files;
  auto spec = PlaysSpec(files.Write("a.csv", "user,item\nu,a\nv,a\nu,b\nu,c\nw,a\nu,b\n"), 0);
  const auto data = MustLoad(spec);
  CHECK(*data->vocabulary("item") == std::vector<std::string>{"a", "b", "c"});
  const Ticket all = AllOf(*data, kTraining);
  // Rows of u: a, b, c, b. All b are left out where b is to be predicted.
  CHECK(Values<int64_t>(*data, all, "history.values") == Ids{1, 1, 2, 0, 2, 0, 1, 1, 0, 2});
  CHECK(Values<int32_t>(*data, all, "history.offsets") == Offsets{0, 3, 3, 5, 8, 8, 10});
  CHECK(data->groups() == std::vector<std::string>{"u", "v", "w"});
  CHECK(data->FindGroup("w") == 2);
  CHECK_FALSE(data->FindGroup("x").has_value());
  const auto history = data->GroupHistory(0);
  CHECK(Ids(history.begin(), history.end()) == Ids{0, 1, 1, 2});
  CHECK(data->GroupHistory(3).empty());
  CHECK(data->GroupHistory(-1).empty());
  CHECK(data->vocabulary_size("history") == 3);
  CHECK(data->vocabulary("history") == data->vocabulary("item"));
  CHECK(data->Lookup("history", "c") == 2);
  CHECK(data->training_counts("history") == Ids{3, 2, 1});
  CHECK(data->columns(kTraining).size() == 4);  // the label is the item, no column of its own
}

TEST_CASE(
    "history: with only_positive it has the values of rows that say yes, by label or weight") {
  DataFiles files;
  auto spec = CsvSpec(files.Write(
      "a.csv", "user,item,y,w,t\nu,a,1,1,1\nu,b,0,1,2\nu,c,1,0,3\nu,d,1,1,4\nv,a,0,1,5\n"));
  AddCategorical(&spec, "item");
  FeatureSpec* const history = AddCategorical(&spec, "history");
  history->set_history_of("item");
  history->set_group_by("user");
  history->set_only_positive(true);
  spec.mutable_label()->set_column("y");
  const auto lists = [&] {
    const auto data = MustLoad(spec);
    const Ticket all = AllOf(*data, kTraining);
    return std::pair(Values<int64_t>(*data, all, "history.values"),
                     Values<int32_t>(*data, all, "history.offsets"));
  };
  // The vocabulary has the values of all rows: a, b, c, d.
  CHECK(lists() == std::pair(Ids{2, 3, 0, 2, 3, 0, 3, 0, 2}, Offsets{0, 2, 5, 7, 9, 9}));
  spec.mutable_label()->set_weight("w");  // c has none
  CHECK(lists() == std::pair(Ids{3, 0, 3, 0, 3, 0}, Offsets{0, 1, 3, 5, 6, 6}));
  history->set_by("t");
  CHECK(lists() == std::pair(Ids{0, 0, 0}, Offsets{0, 0, 1, 2, 3, 3}));
  // Where the label is the item itself, weights say which rows count.
  history->clear_by();
  spec.mutable_label()->clear_column();
  spec.mutable_label()->set_feature("item");
  CHECK(lists() == std::pair(Ids{1, 3, 0, 3, 0, 1, 3, 0, 1}, Offsets{0, 2, 4, 7, 9, 9}));
  spec.mutable_label()->clear_weight();
  CHECK_THAT(LoadError(spec), Catch::Matchers::Contains("only_positive: wanted one label"));
}

TEST_CASE(
    "history: held-out rows are in nobody's history and see all that is known of their group") {
  DataFiles files;
  auto spec = PlaysSpec(files.Write("a.csv", Plays(200)), 8);
  spec.mutable_split()->set_holdout_per("user");
  spec.mutable_split()->set_holdout_min(5);
  spec.set_shuffle(true);
  spec.set_seed(11);
  const auto data = MustLoad(spec);
  std::map<int64_t, std::set<int64_t>> training;
  const Ticket all = AllOf(*data, kTraining, 3);
  const Ids users = Values<int64_t>(*data, all, "user");
  const Ids items = Values<int64_t>(*data, all, "item");
  for (size_t i = 0; i < users.size(); ++i) training[users[i]].insert(items[i]);

  const Ids values = Values<int64_t>(*data, all, "history.values");
  const Offsets offsets = Values<int32_t>(*data, all, "history.offsets");
  for (size_t i = 0; i < users.size(); ++i) {
    const std::set<int64_t> sample(values.begin() + offsets[i], values.begin() + offsets[i + 1]);
    const std::set<int64_t>& known = training[users[i]];
    REQUIRE(sample.size() == std::min<size_t>(8, known.size() - 1));
    REQUIRE(sample.count(items[i]) == 0);
    REQUIRE(std::includes(known.begin(), known.end(), sample.begin(), sample.end()));
  }

  const Ticket held_out = AllOf(*data, kTest);
  const Ids test_users = Values<int64_t>(*data, held_out, "user");
  const Ids test_items = Values<int64_t>(*data, held_out, "item");
  const Ids known_values = Values<int64_t>(*data, held_out, "known.values");
  const Offsets known_offsets = Values<int32_t>(*data, held_out, "known.offsets");
  const Offsets test_offsets = Values<int32_t>(*data, held_out, "history.offsets");
  REQUIRE(test_users.size() > 100);
  CHECK(std::set<int64_t>(test_users.begin(), test_users.end()).size() == test_users.size());
  for (size_t i = 0; i < test_users.size(); ++i) {
    const std::set<int64_t>& known = training[test_users[i]];
    REQUIRE(std::set<int64_t>(known_values.begin() + known_offsets[i],
                              known_values.begin() + known_offsets[i + 1]) == known);
    REQUIRE(known.size() >= 4);
    REQUIRE(known.count(test_items[i]) == 0);
    REQUIRE(test_offsets[i + 1] - test_offsets[i] ==
            static_cast<int32_t>(std::min<size_t>(8, known.size())));
    const std::string& name = (*data->vocabulary("user"))[static_cast<size_t>(test_users[i])];
    const auto history = data->GroupHistory(*data->FindGroup(name));
    REQUIRE(std::set<int64_t>(history.begin(), history.end()) == known);
  }
  // Groups of fewer than 5 rows lose none; all others lose one.
  for (const auto& [user, known] : training) {
    const bool held = std::count(test_users.begin(), test_users.end(), user) > 0;
    REQUIRE(held == (known.size() + (held ? 1 : 0) >= 5));
  }
  for (const ColumnSpec& column : data->columns(kTraining)) CHECK(column.name.find("known") != 0);
}

TEST_CASE("history: the same ticket draws the same sample, another epoch another one") {
  DataFiles files;
  const auto data = MustLoad(PlaysSpec(files.Write("a.csv", Plays(100)), 4));
  const Ticket first{kTraining, 0, 50, 250};
  const Ids values = Values<int64_t>(*data, first, "history.values");
  CHECK(Values<int64_t>(*data, first, "history.values") == values);
  CHECK(Values<int64_t>(*data, {kTraining, 1, 50, 250}, "history.values") != values);
}

TEST_CASE("split: the row that is held out is each one of its group equally often") {
  DataFiles files;
  std::string text = "user,item\n";
  for (int user = 0; user < 3000; ++user) {
    for (int item = 0; item < 5; ++item) absl::StrAppend(&text, user, ",", item, "\n");
  }
  auto spec = PlaysSpec(files.Write("a.csv", text), 0);
  spec.mutable_split()->set_holdout_per("user");
  const auto data = MustLoad(spec);
  REQUIRE(data->num_examples(kTest) == 3000);
  std::vector<int> counts(5, 0);
  for (const int64_t id : Values<int64_t>(*data, AllOf(*data, kTest), "item")) {
    ++counts[static_cast<size_t>(id)];
  }
  for (const int count : counts) CHECK((count > 500 && count < 700));  // 600 +- 4.5 deviations
}

TEST_CASE("split: holdout_min left at 0 never takes a group's only row") {
  DataFiles files;
  auto spec = PlaysSpec(files.Write("a.csv", "user,item\nu,a\nv,a\nv,b\n"), 0);
  spec.mutable_features(1)->set_oov_buckets(1);  // nothing else has "b"
  spec.mutable_split()->set_holdout_per("user");
  const auto data = MustLoad(spec);
  CHECK(data->num_examples(kTest) == 1);
  CHECK(data->num_examples(kTraining) == 2);
}

TEST_CASE("split: fractions are met, parts are disjoint, and appended rows move no row") {
  DataFiles files;
  std::string text = "x\n";
  for (int i = 0; i < 20000; ++i) absl::StrAppend(&text, i, "\n");
  auto spec = CsvSpec(files.Write("a.csv", text));
  AddNumeric(&spec, "x");
  spec.set_seed(5);
  spec.mutable_split()->set_validation_fraction(0.1);
  spec.mutable_split()->set_test_fraction(0.25);
  const auto data = MustLoad(spec);
  std::set<float> seen;
  for (const Part part : {kTraining, Part::kValidation, kTest}) {
    for (const float x : Values<float>(*data, AllOf(*data, part), "x")) {
      REQUIRE(seen.insert(x).second);
    }
  }
  CHECK(seen.size() == 20000);
  CHECK(std::abs(data->num_examples(Part::kValidation) - 2000) < 200);
  CHECK(std::abs(data->num_examples(kTest) - 5000) < 300);
  for (int i = 20000; i < 21000; ++i) absl::StrAppend(&text, i, "\n");
  auto longer_spec = spec;
  longer_spec.set_paths(0, files.Write("b.csv", text));
  const auto longer = MustLoad(longer_spec);
  const auto before = Values<float>(*data, AllOf(*data, kTest), "x");
  auto after = Values<float>(*longer, AllOf(*longer, kTest), "x");
  REQUIRE(after.size() > before.size());
  after.resize(before.size());
  CHECK(after == before);
  spec.set_seed(6);
  const auto other = MustLoad(spec);
  CHECK(Values<float>(*other, AllOf(*other, kTest), "x") != before);
}

}  // namespace
}  // namespace coxswain::data
