// What evaluations that rank items are told of each user.
#include <catch2/catch.hpp>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "runtime/data/hash.h"
#include "runtime/data/spec_check.h"
#include "runtime/data/stream/stream_options.h"
#include "tests/testing/data_files.h"
#include "tests/testing/data_specs.h"

namespace coxswain::data {
namespace {

using Ids = std::vector<int64_t>;
using Sets = std::map<std::string, std::set<int64_t>>;

// Users with 1 to 30 of 60 items, split at random.
proto::DatasetSpec Spec(const DataFiles& files) {
  std::string text = "user,item\n";
  for (uint64_t row = 0; row < 900; ++row) {
    absl::StrAppend(&text, "u", HashPair(1, row) % 60, ",i", HashPair(2, row) % 60, "\n");
  }
  auto spec = CsvSpec(files.Write("a.csv", text));
  AddCategorical(&spec, "user");
  AddCategorical(&spec, "item");
  spec.mutable_label()->set_feature("item");
  spec.mutable_split()->set_validation_fraction(0.1);
  spec.mutable_split()->set_test_fraction(0.2);
  return spec;
}

void Know(proto::DatasetSpec* spec, bool held_out) {
  spec->mutable_known_items()->set_item("item");
  spec->mutable_known_items()->set_group_by("user");
  spec->mutable_known_items()->set_held_out(held_out);
}

// The items of each user in the parts.
Sets ItemsOf(const Dataset& data, const std::vector<Part>& parts) {
  Sets sets;
  for (const Part part : parts) {
    const Ids users = Values<int64_t>(data, AllOf(data, part), "user");
    const Ids items = Values<int64_t>(data, AllOf(data, part), "item");
    for (size_t i = 0; i < users.size(); ++i) {
      sets[(*data.vocabulary("user"))[static_cast<size_t>(users[i])]].insert(items[i]);
    }
  }
  return sets;
}

TEST_CASE("known items: all that the user has in any part, or in the training part") {
  const DataFiles files;
  for (const bool held_out : {true, false}) {
    INFO(held_out);
    auto spec = Spec(files);
    Know(&spec, held_out);
    const auto data = MustLoad(spec);
    const Sets wanted =
        ItemsOf(*data, held_out ? std::vector<Part>{Part::kTraining, Part::kValidation, Part::kTest}
                                : std::vector<Part>{Part::kTraining});
    const Ticket test = AllOf(*data, Part::kTest);
    REQUIRE(test.size() > 100);
    const Ids users = Values<int64_t>(*data, test, "user");
    const Ids groups = Values<int64_t>(*data, test, "known.group");
    const Ids values = Values<int64_t>(*data, test, "known.values");
    const auto offsets = Values<int32_t>(*data, test, "known.offsets");
    std::map<int64_t, std::set<int64_t>> users_of;
    for (size_t i = 0; i < users.size(); ++i) {
      const std::string& name = (*data->vocabulary("user"))[static_cast<size_t>(users[i])];
      const std::set<int64_t> known(values.begin() + offsets[i], values.begin() + offsets[i + 1]);
      REQUIRE(known == (wanted.count(name) > 0 ? wanted.at(name) : std::set<int64_t>()));
      users_of[groups[i]].insert(users[i]);
    }
    CHECK(users_of.size() == std::set<int64_t>(users.begin(), users.end()).size());
    for (const auto& [group, of] : users_of) CHECK(of.size() == 1);
  }
}

TEST_CASE("known items change no part, no id and no fingerprint, and no training batch") {
  const DataFiles files;
  auto spec = Spec(files);
  const auto without = MustLoad(spec);
  Know(&spec, true);
  const auto with = MustLoad(spec);
  CHECK(with->fingerprint() == without->fingerprint());
  CHECK(with->columns(Part::kTraining).size() == without->columns(Part::kTraining).size());
  CHECK(with->columns(Part::kTest).size() == without->columns(Part::kTest).size() + 3);
  Know(&spec, false);
  CHECK(MustLoad(spec)->columns(Part::kTest).size() ==
        without->columns(Part::kTest).size() + 4);  // known.unseen
  for (const Part part : {Part::kTraining, Part::kValidation, Part::kTest}) {
    CHECK(Values<int64_t>(*with, AllOf(*with, part), "item") ==
          Values<int64_t>(*without, AllOf(*without, part), "item"));
  }
  CHECK(with->groups().empty());  // a saved model has no history of it
}

TEST_CASE("users that training never met are not taken for one another") {
  const DataFiles files;
  auto spec = CsvSpec(files.Write("a.csv", "user,item\na,x\na,y\n"));
  AddCategorical(&spec, "user");
  AddCategorical(&spec, "item");
  for (auto& feature : *spec.mutable_features()) feature.set_oov_buckets(1);
  spec.mutable_label()->set_feature("item");
  spec.mutable_split()->add_test_paths(files.Write("t.csv", "user,item\nb,x\nc,y\nb,y\n"));
  Know(&spec, true);
  const auto data = MustLoad(spec);
  const Ticket test = AllOf(*data, Part::kTest);
  const Ids users = Values<int64_t>(*data, test, "user");
  CHECK(users[0] == users[1]);  // one bucket
  const Ids groups = Values<int64_t>(*data, test, "known.group");
  CHECK(groups[0] != groups[1]);
  CHECK(groups[0] == groups[2]);
  CHECK(Values<int32_t>(*data, test, "known.offsets") == std::vector<int32_t>{0, 2, 3, 5});
}

TEST_CASE("of known items of training, a row says whether its own is one of them") {
  const DataFiles files;
  auto spec = CsvSpec(files.Write("a.csv", "user,item\na,x\na,y\nb,y\na,z\n"));
  AddCategorical(&spec, "user");
  AddCategorical(&spec, "item");
  spec.mutable_features(0)->set_oov_buckets(1);
  spec.mutable_label()->set_feature("item");
  spec.mutable_split()->add_test_paths(files.Write("t.csv", "user,item\na,x\nb,x\nb,y\nc,z\n"));
  Know(&spec, false);
  for (const auto mode : {proto::StreamOptions::NEVER, proto::StreamOptions::ALWAYS}) {
    INFO(mode);
    spec.mutable_stream()->set_mode(mode);
    const auto data = MustLoad(spec);
    const Ticket test = AllOf(*data, Part::kTest);
    const Ids items = Values<int64_t>(*data, test, "item");
    CHECK(Values<int64_t>(*data, test, "known.unseen") == Ids{-1, items[1], -1, items[3]});
  }
}

TEST_CASE("known items want a feature of one value and a column") {
  const DataFiles files;
  auto spec = Spec(files);
  Know(&spec, true);
  CHECK(WhyNotStreamed(spec).empty());
  spec.mutable_known_items()->set_item("thing");
  CHECK(absl::StrContains(CheckSpec(spec).status().message(), "known_items: wanted a categorical"));
  spec.mutable_known_items()->set_item("item");
  spec.mutable_known_items()->clear_group_by();
  CHECK(absl::StrContains(CheckSpec(spec).status().message(), "known_items: wanted group_by"));
}

}  // namespace
}  // namespace coxswain::data
