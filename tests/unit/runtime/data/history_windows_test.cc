// Training on windows of histories: which rows are in which window, and what batches have of them.
#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "runtime/data/hash.h"
#include "runtime/data/stream/stream_options.h"
#include "tests/testing/data_files.h"
#include "tests/testing/data_specs.h"

namespace coxswain::data {
namespace {

using Catch::Matchers::Contains;
using Floats = std::vector<float>;
using Ids = std::vector<int64_t>;
using Offsets = std::vector<int32_t>;

constexpr Part kTraining = Part::kTraining;

// Columns user, item and t; the last `most` items of each user, in windows of as many targets.
proto::DatasetSpec WindowedSpec(const std::string& path, int64_t most) {
  auto spec = CsvSpec(path);
  AddCategorical(&spec, "item")->set_oov_buckets(1);
  proto::FeatureSpec* history = AddCategorical(&spec, "seen");
  history->set_history_of("item");
  history->set_group_by("user");
  history->set_by("t");
  history->set_max_values(most);
  history->set_width(most);
  spec.mutable_label()->set_feature("item");
  return spec;
}

// Users with 1 to 30 rows each, mixed; each row has an item of its own, "iROW".
struct Rows {
  std::string csv = "user,item,t\n";
  std::vector<std::pair<int, int>> user_and_time;  // of each row
};
Rows ManyRows(int users) {
  std::vector<std::pair<uint64_t, int>> mixed;
  for (int user = 0; user < users; ++user) {
    const uint64_t count = 1 + Mix64(static_cast<uint64_t>(user)) % 30;
    for (uint64_t i = 0; i < count; ++i) {
      mixed.emplace_back(HashPair(static_cast<uint64_t>(user), i), user);
    }
  }
  std::sort(mixed.begin(), mixed.end());
  Rows rows;
  for (const auto& [hash, user] : mixed) {
    const int time = static_cast<int>(hash % 12);  // often the same as another one's
    absl::StrAppend(&rows.csv, "u", user, ",i", rows.user_and_time.size(), ",", time, "\n");
    rows.user_and_time.emplace_back(user, time);
  }
  return rows;
}

struct Window {
  std::vector<int> values, targets;  // rows
  bool operator<(const Window& o) const { return targets < o.targets; }
};

// All windows of an epoch, by batches.
std::vector<Window> WindowsOf(const Dataset& data, int64_t epoch, int64_t batch) {
  const std::vector<std::string>& items = *data.vocabulary("item");
  const auto row = [&](int64_t id) { return std::stoi(items[static_cast<size_t>(id)].substr(1)); };
  std::vector<Window> windows;
  const int64_t all = data.num_examples(kTraining);
  for (int64_t begin = 0; begin < all; begin += batch) {
    const Ticket ticket{kTraining, epoch, begin, std::min(all, begin + batch)};
    const Ids values = Values<int64_t>(data, ticket, "seen.values"),
              next = Values<int64_t>(data, ticket, "seen.next"),
              own = Values<int64_t>(data, ticket, "item");
    const Offsets offsets = Values<int32_t>(data, ticket, "seen.offsets"),
                  window_of = Values<int32_t>(data, ticket, "seen.next.window");
    REQUIRE(values.size() == next.size());
    REQUIRE(window_of.size() == next.size());
    REQUIRE(offsets.size() == own.size() + 1);
    for (size_t i = 0; i < own.size(); ++i) {
      Window& window = windows.emplace_back();
      for (auto e = static_cast<size_t>(offsets[i]); e < static_cast<size_t>(offsets[i + 1]); ++e) {
        CHECK(window_of[e] == static_cast<int32_t>(i));
        window.values.push_back(row(values[e]));
        window.targets.push_back(row(next[e]));
      }
      REQUIRE_FALSE(window.targets.empty());
      CHECK(window.targets.back() == row(own[i]));
    }
  }
  return windows;
}

// The rows of each user in their order, of those that are not left out.
std::map<int, std::vector<int>> InOrder(const Rows& rows, const std::set<int>& left_out) {
  std::map<int, std::vector<int>> users;
  for (int row = 0; row < static_cast<int>(rows.user_and_time.size()); ++row) {
    if (left_out.count(row) == 0) {
      users[rows.user_and_time[static_cast<size_t>(row)].first].push_back(row);
    }
  }
  for (auto& [user, all] : users) {
    std::stable_sort(all.begin(), all.end(), [&](int a, int b) {
      return rows.user_and_time[static_cast<size_t>(a)].second <
             rows.user_and_time[static_cast<size_t>(b)].second;
    });
  }
  return users;
}

TEST_CASE("windows: each training row but a user's first is a target once in every epoch") {
  DataFiles files;
  const Rows rows = ManyRows(60);
  auto spec = WindowedSpec(files.Write("a.csv", rows.csv), 7);
  spec.set_shuffle(true);
  spec.set_seed(3);
  spec.mutable_split()->set_by("t");
  SECTION("of all rows") { spec.clear_split(); }
  SECTION("without the last row of each user") {
    spec.mutable_split()->set_holdout_per("user");
    spec.mutable_split()->set_holdout_last(true);
    spec.mutable_split()->set_holdout_validation(true);
  }
  SECTION("without the last rows of all") {
    spec.mutable_split()->set_validation_fraction(0.1);
    spec.mutable_split()->set_test_fraction(0.2);
  }
  SECTION("without rows that are drawn") {
    spec.clear_split();
    spec.mutable_split()->set_test_fraction(0.3);
  }
  // Items of held-out rows have no id: the rows are found by what training knows.
  const auto data = MustLoad(spec);
  const std::vector<std::string>& known = *data->vocabulary("item");
  std::set<int> left_out;
  for (int row = 0; row < static_cast<int>(rows.user_and_time.size()); ++row) left_out.insert(row);
  for (const std::string& item : known) left_out.erase(std::stoi(item.substr(1)));
  REQUIRE(left_out.empty() == !spec.has_split());
  const auto users = InOrder(rows, left_out);
  CHECK(data->part_size(kTraining) == static_cast<int64_t>(known.size()));
  std::vector<Window> first;
  for (const int64_t epoch : {0, 1}) {
    std::vector<Window> windows = WindowsOf(*data, epoch, 16);
    if (epoch == 1) {
      CHECK(windows.front().targets != first.front().targets);  // in another order
    } else {
      first = windows;
    }
    std::map<int, std::vector<Window>> of_user;
    size_t targets = 0;
    for (const Window& window : windows) {
      targets += window.targets.size();
      const auto last = static_cast<size_t>(window.targets.back());
      of_user[rows.user_and_time[last].first].push_back(window);
    }
    size_t wanted = 0;
    for (const auto& [user, order] : users) {
      wanted += order.size() - 1;
      // From the last one back, as many as there are, of seven targets but for the last of these.
      size_t found = 0;
      for (size_t last = order.size() - 1; last > 0; ++found) {
        const size_t begin = last - std::min<size_t>(7, last);
        const std::vector<int> values(order.begin() + static_cast<int64_t>(begin),
                                      order.begin() + static_cast<int64_t>(last)),
            next(order.begin() + static_cast<int64_t>(begin) + 1,
                 order.begin() + static_cast<int64_t>(last) + 1);
        const auto& all = of_user[user];
        CHECK(std::any_of(all.begin(), all.end(), [&](const Window& window) {
          return window.values == values && window.targets == next;
        }));
        last = begin;
      }
      CHECK(of_user[user].size() == found);
    }
    CHECK(targets == wanted);
    REQUIRE(data->windows() != nullptr);
    CHECK(data->windows()->targets() == static_cast<int64_t>(wanted));
  }
}

TEST_CASE("windows: held-out rows, counts of values and vocabularies are as without windows") {
  DataFiles files;
  const Rows rows = ManyRows(40);
  auto spec = WindowedSpec(files.Write("a.csv", rows.csv), 5);
  spec.mutable_split()->set_by("t");
  spec.mutable_split()->set_holdout_per("user");
  spec.mutable_split()->set_holdout_last(true);
  const auto windowed = MustLoad(spec);
  spec.mutable_features(1)->set_width(0);
  const auto plain = MustLoad(spec);
  CHECK(plain->windows() == nullptr);
  CHECK(windowed->fingerprint() != plain->fingerprint());
  CHECK(windowed->num_examples(kTraining) < plain->num_examples(kTraining) / 2);
  CHECK(windowed->part_size(kTraining) == plain->num_examples(kTraining));
  CHECK(plain->part_size(kTraining) == plain->num_examples(kTraining));
  CHECK(windowed->training_counts("item") == plain->training_counts("item"));
  CHECK(*windowed->vocabulary("item") == *plain->vocabulary("item"));
  const Ticket all = AllOf(*plain, Part::kTest);
  REQUIRE(all.end > 20);
  REQUIRE(windowed->num_examples(Part::kTest) == all.end);
  for (const char* column : {"item", "seen.values", "known.values"}) {
    CHECK(Values<int64_t>(*windowed, all, column) == Values<int64_t>(*plain, all, column));
  }
  for (const char* column : {"seen.offsets", "known.offsets"}) {
    CHECK(Values<int32_t>(*windowed, all, column) == Values<int32_t>(*plain, all, column));
  }
  CHECK(windowed->columns(Part::kTest).size() == plain->columns(Part::kTest).size());
}

TEST_CASE("windows: of equal times the row that comes later in the file is the later one") {
  DataFiles files;
  auto spec = WindowedSpec(
      files.Write("a.csv", "user,item,t\nu,c,2\nu,b,1\nv,b,1\nu,d,2\nu,a,1\nw,a,1\nv,c,1\n"), 3);
  spec.mutable_features(0)->set_vocabulary_file(files.Write("items.txt", "a\nb\nc\nd\n"));
  spec.set_example_ids(true);
  const auto data = MustLoad(spec);
  // u has b, a, c and d, v b and c, and w one alone; windows are in the order of their last rows.
  const Ticket all = AllOf(*data, kTraining);
  CHECK(all.end == 2);
  CHECK(Values<int64_t>(*data, all, "item") == Ids{3, 2});
  CHECK(Values<int64_t>(*data, all, "seen.values") == Ids{1, 0, 2, 1});
  CHECK(Values<int64_t>(*data, all, "seen.next") == Ids{0, 2, 3, 2});
  CHECK(Values<int32_t>(*data, all, "seen.next.window") == Offsets{0, 0, 0, 1});
  CHECK(Values<int64_t>(*data, all, "example_id") == Ids{0, 1});
  CHECK(data->PlaceOf({kTraining, 0, 1, 2}).value_or("").find("a.csv:8") != std::string::npos);
}

TEST_CASE("windows: a target has the weight of its own row") {
  DataFiles files;
  auto spec = WindowedSpec(
      files.Write("a.csv", "user,item,t,w\nu,a,1,7\nv,a,1,8\nu,b,2,0.5\nu,c,3,0\nv,b,4,2\n"), 3);
  spec.mutable_label()->set_weight("w");
  const auto data = MustLoad(spec);
  const Ticket all = AllOf(*data, kTraining);
  CHECK(Values<float>(*data, all, "seen.next.weight") == Floats{0.5, 0, 2});
  CHECK(Values<float>(*data, all, "label.weight") == Floats{0, 2});
}

TEST_CASE("windows: what they cannot be of is told") {
  DataFiles files;
  const std::string path = files.Write("a.csv", "user,item,t\nu,a,1\nu,b,2\n");
  auto spec = WindowedSpec(path, 3);
  spec.mutable_features(1)->set_width(4);
  CHECK_THAT(LoadError(spec), Contains("needs by and is at most max_values, found 4"));
  spec.mutable_features(1)->set_width(3);
  spec.mutable_features(1)->clear_by();
  CHECK_THAT(LoadError(spec), Contains("needs by"));
  spec = WindowedSpec(path, 3);
  spec.mutable_stream()->set_mode(proto::StreamOptions::ALWAYS);
  CHECK_THAT(LoadError(spec), Contains("features.seen: a history whose windows are examples"));
  spec = WindowedSpec(path, 3);
  spec.mutable_stream()->set_memory(8);
  CHECK_THAT(LoadError(spec), Contains("wanted dataset.streaming: false"));
  spec.clear_stream();
  spec.set_query("user");
  CHECK_THAT(LoadError(spec), Contains("windows of a history are no queries"));
  spec.clear_query();
  AddNumeric(&spec, "seen.next")->set_column("t");
  CHECK_THAT(LoadError(spec), Contains("found \"seen.next\" twice"));
}

}  // namespace
}  // namespace coxswain::data
