// Ranges of numbers and combinations of values.
#include <catch2/catch.hpp>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "runtime/data/hash.h"
#include "runtime/data/made_features.h"
#include "tests/testing/same_when_streamed.h"

namespace coxswain::data {
namespace {

using Catch::Matchers::Contains;
using Catch::Matchers::EndsWith;
using proto::FeatureSpec;
using Ids = std::vector<int64_t>;
using Strings = std::vector<std::string>;

FeatureSpec* AddRanges(proto::DatasetSpec* spec, const std::string& name,
                       const std::vector<double>& boundaries) {
  FeatureSpec* feature = AddNumeric(spec, name);
  for (const double boundary : boundaries) feature->add_boundaries(boundary);
  return feature;
}

FeatureSpec* AddCrossed(proto::DatasetSpec* spec, const std::string& name,
                        const Strings& features) {
  FeatureSpec* feature = AddNumeric(spec, name);
  for (const std::string& member : features) feature->add_crossed(member);
  return feature;
}

TEST_CASE("made features: a number is in the range that begins with its boundary") {
  DataFiles files;
  auto spec =
      CsvSpec(files.Write("a.csv", "x,y\n-7,0\n0,0\n0.09,0\n0.1,0\n99,0\n100,0\n1e30,0\n ,0\n"));
  AddRanges(&spec, "x", {0, 0.1, 100});
  const auto data = MustLoad(spec);
  CHECK(*data->vocabulary("x") == Strings{"(-inf, 0)", "[0, 0.1)", "[0.1, 100)", "[100, inf)", ""});
  CHECK(Values<int64_t>(*data, AllOf(*data, Part::kTraining), "x") == Ids{0, 1, 1, 2, 2, 3, 3, 4});
  spec.set_paths(0, files.Write("b.csv", "x,y\n1,0\nold,0\n"));
  CHECK_THAT(LoadError(spec), EndsWith("b.csv:3:1: field 1 (\"x\"): wanted a finite number, found "
                                       "\"old\""));
}

TEST_CASE("made features: a combination is a value, and different ones are different values") {
  DataFiles files;
  auto spec = CsvSpec(files.Write("a.csv", "a,b,x\np,q,1\np & q,,9\np,q,2\np,& q,2\n,p & q,9\n"));
  AddCategorical(&spec, "a");
  AddCategorical(&spec, "b");
  AddRanges(&spec, "x", {5});
  AddCrossed(&spec, "axb", {"a", "b"});
  AddCrossed(&spec, "xxa", {"x", "a"});
  AddCrossed(&spec, "hashed", {"a", "b", "x"})->set_hash_buckets(1000000);
  AddCrossed(&spec, "unbounded", {"b", "a"})->set_id("hash");
  const auto data = MustLoad(spec);
  const Ticket all = AllOf(*data, Part::kTraining);
  CHECK(*data->vocabulary("axb") == Strings{"p & q", "p && q & ", "p & && q", " & p && q"});
  CHECK(Values<int64_t>(*data, all, "axb") == Ids{0, 1, 0, 2, 3});
  CHECK((*data->vocabulary("xxa"))[0] == "(-inf, 5) & p");
  const Ids hashed = Values<int64_t>(*data, all, "hashed");
  CHECK(hashed[0] == hashed[2]);
  CHECK(hashed[0] != hashed[1]);
  CHECK(hashed[0] == *data->Lookup("hashed", "p & q & (-inf, 5)"));
  CHECK(Values<int64_t>(*data, all, "unbounded")[0] == *data->Lookup("unbounded", "q & p"));
}

TEST_CASE("made features: a combination out of the vocabulary is told as one") {
  DataFiles files;
  auto spec = CsvSpec(files.Write("a.csv", "a,b\np,q\np,r\n"));
  AddCategorical(&spec, "a");
  AddCategorical(&spec, "b");
  AddCrossed(&spec, "axb", {"a", "b"})->add_vocabulary("p & q");
  CHECK_THAT(LoadError(spec), Contains("a.csv:3:3") && Contains("for the combination \"p & r\""));
}

class Texts : public FieldSink {
 public:
  explicit Texts(Strings* all) : all_(all) {}
  bool Append(absl::string_view text) override {
    all_->emplace_back(text);
    return true;
  }
  std::string Wanted() const override { return "anything"; }

 private:
  Strings* all_;
};

TEST_CASE("made features: columns that are read one after the other are crossed by rows") {
  proto::DatasetSpec spec;
  for (const char* name : {"a", "b"}) AddCategorical(&spec, name)->set_column(name);
  const FeatureSpec crossed = *AddCrossed(&spec, "axb", {"a", "b"});
  Strings all;
  auto sinks = NewCrossedSinks(spec, crossed, std::make_unique<Texts>(&all));
  REQUIRE(sinks.size() == 2);
  for (const char* text : {"1", "2", "3"}) CHECK(sinks[1].second->Append(text));
  CHECK(all.empty());
  for (const char* text : {"x", "y", "z"}) CHECK(sinks[0].second->Append(text));
  CHECK(all == Strings{"x & 1", "y & 2", "z & 3"});
}

TEST_CASE("made features: streamed ones are those in memory, of joined columns too") {
  DataFiles files;
  std::string text = "a,x,k\n", side = "k,c\n";
  for (int i = 0; i < 90; ++i) {
    const uint64_t h = Mix64(static_cast<uint64_t>(i));
    absl::StrAppend(&text, "a", h % 4, ",", i % 7 == 0 ? "" : absl::StrCat(h % 100), ",", h % 6,
                    "\n");
  }
  for (int i = 0; i < 5; ++i) absl::StrAppend(&side, i, ",c", i % 2, "\n");
  auto spec = CsvSpec(files.Write("a.csv", text));
  proto::JoinSpec* join = spec.add_joins();
  join->set_path(files.Write("side.csv", side));
  join->set_left_on("k");
  join->mutable_csv()->set_header(true);
  AddCategorical(&spec, "a")->set_oov_buckets(1);
  AddCategorical(&spec, "c")->set_oov_buckets(1);
  AddRanges(&spec, "x", {10, 50});
  AddCrossed(&spec, "axx", {"a", "x"})->set_oov_buckets(1);
  AddCrossed(&spec, "axc", {"a", "c"})->set_hash_buckets(100);
  spec.mutable_split()->set_validation_fraction(0.2);
  spec.mutable_split()->set_test_fraction(0.1);
  CheckSameWhenStreamed(files, spec);
}

TEST_CASE("made features: a saved model's ranges and combinations keep their ids") {
  DataFiles files;
  auto spec = CsvSpec(files.Write("a.csv", "a,x\np,1\nq,7\np,9\n"));
  AddCategorical(&spec, "a")->set_oov_buckets(1);
  AddRanges(&spec, "x", {5});
  AddCrossed(&spec, "axx", {"a", "x"})->set_oov_buckets(1);
  const auto data = MustLoad(spec);
  CHECK(data->learned()[1].vocabulary_size() == 3);
  CHECK(data->learned()[2].vocabulary_size() == 3);
  CHECK(data->vocabulary_size("axx") == 4);
}

TEST_CASE("made features: what cannot be made is refused") {
  DataFiles files;
  const auto spec = [&] {
    auto made = CsvSpec(files.Write("a.csv", "a,b,x\np,q,1\n"));
    AddCategorical(&made, "a");
    AddCategorical(&made, "b");
    AddNumeric(&made, "x");
    return made;
  };
  auto bad = spec();
  AddCrossed(&bad, "m", {"a", "x"});
  CHECK_THAT(LoadError(bad), Contains("wanted categorical, bucketized or calendar features"));
  bad = spec();
  AddCrossed(&bad, "m", {"a", "c"});
  CHECK_THAT(LoadError(bad), Contains("wanted a feature, found \"c\""));
  bad = spec();
  AddCrossed(&bad, "m", {"a", "a"});
  CHECK_THAT(LoadError(bad), Contains("crossed twice"));
  bad = spec();
  AddCrossed(&bad, "m", {"a"});
  CHECK_THAT(LoadError(bad), Contains("two features"));
  bad = spec();
  AddCrossed(&bad, "m", {"a", "b"});
  AddCrossed(&bad, "n", {"m", "b"});
  CHECK_THAT(LoadError(bad), Contains("found \"m\""));
  bad = spec();
  AddRanges(&bad, "r", {2, 1})->set_column("x");
  CHECK_THAT(LoadError(bad), Contains("boundaries that ascend"));
  bad = spec();
  AddRanges(&bad, "r", {1, 2})->set_hash_buckets(5);
  CHECK_THAT(LoadError(bad), Contains("its values are the ranges between boundaries"));
}

}  // namespace
}  // namespace coxswain::data
