// A data set for training that goes on from a model: what the model knows stays, in memory and
// streamed.
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "runtime/data/hash.h"
#include "runtime/data/vocabulary_file.h"
#include "tests/testing/streamed_specs.h"

namespace coxswain::data {
namespace {

using proto::FeatureSpec;
using Strings = std::vector<std::string>;

// The model knows these values of "c", in this order.
void Know(const DataFiles& files, proto::DatasetSpec* spec, const Strings& values) {
  const std::string lines = VocabularyLines(values);
  proto::LearnedFeature* known = spec->add_known();
  known->set_name("c");
  known->set_vocabulary_file(files.Write("known.txt", lines));
  known->set_vocabulary_hash(HashText(lines));
  known->set_vocabulary_size(static_cast<int64_t>(values.size()));
}

proto::DatasetSpec Spec(const DataFiles& files) {
  auto spec = CsvSpec(files.Write("a.csv", "c,n,y\nb,1,0\nnew,2,1\nrare,3,0\nnew,5,1\nb,9,0\n"));
  AddCategorical(&spec, "c")->set_oov_buckets(2);
  AddNumeric(&spec, "n")->set_normalization(FeatureSpec::STANDARD);
  spec.mutable_label()->set_column("y");
  return spec;
}

std::vector<proto::DatasetSpec> Both(const DataFiles& files, const proto::DatasetSpec& spec) {
  return {spec, Streamed(files, spec, 10)};
}

TEST_CASE("known values keep their ids, whether they occur or not, and new ones come behind") {
  DataFiles files;
  auto spec = Spec(files);
  Know(files, &spec, {"gone", "b", "also gone"});
  for (const auto& each : Both(files, spec)) {
    const auto data = MustLoad(each);
    CHECK(*data->vocabulary("c") == Strings{"gone", "b", "also gone", "new", "rare"});
    CHECK(data->vocabulary_size("c") == 7);
    CHECK(data->Lookup("c", "b") == 1);
    CHECK(data->training_counts("c") == std::vector<int64_t>{0, 2, 0, 2, 1, 0, 0});
  }
}

TEST_CASE("limits of a vocabulary are for new values: known ones stay") {
  DataFiles files;
  auto spec = Spec(files);
  Know(files, &spec, {"gone", "b"});
  SECTION("min_count") { spec.mutable_features(0)->set_min_count(2); }
  SECTION("max_size") { spec.mutable_features(0)->set_max_size(3); }
  for (const auto& each : Both(files, spec)) {
    CHECK(*MustLoad(each)->vocabulary("c") == Strings{"gone", "b", "new"});
  }
  spec.mutable_features(0)->set_min_count(0);
  spec.mutable_features(0)->set_max_size(1);
  for (const auto& each : Both(files, spec)) {
    CHECK(*MustLoad(each)->vocabulary("c") == Strings{"gone", "b"});
  }
}

TEST_CASE("a new value without a bucket for rare ones is told with its place, known or not") {
  DataFiles files;
  auto spec = Spec(files);
  Know(files, &spec, {"gone", "b"});
  spec.mutable_features(0)->set_oov_buckets(0);
  spec.mutable_features(0)->set_min_count(2);
  for (const auto& each : Both(files, spec)) {
    const auto data = Dataset::Load(each);
    REQUIRE_FALSE(data.ok());
    CHECK_THAT(std::string(data.status().message()),
               Catch::Contains("\"rare\"") && Catch::Contains("a.csv:4"));
  }
}

TEST_CASE("known statistics stay, so that a number means what it meant") {
  DataFiles files;
  auto spec = Spec(files);
  proto::LearnedFeature* known = spec.add_known();
  known->set_name("n");
  known->set_normalization(FeatureSpec::STANDARD);
  known->set_shift(100);
  known->set_scale(10);
  for (const auto& each : Both(files, spec)) {
    const auto data = MustLoad(each);
    CHECK(data->transform("n")->shift == 100);
    CHECK(data->transform("n")->scale == 10);
    const auto batch = data->Read({Part::kTraining, 0, 0, 5});
    REQUIRE(batch.ok());
    CHECK((*batch)[1].data<float>()[4] == Approx(-9.1f));
  }
}

TEST_CASE("a libsvm data set has no fewer indices than the model that training goes on from") {
  DataFiles files;
  proto::DatasetSpec spec;
  spec.set_format("libsvm");
  spec.add_paths(files.Write("a.txt", "1 1:1 4:1\n0 2:1\n"));
  proto::LearnedFeature* known = spec.add_known();
  known->set_name("features");
  for (const int64_t numbers : {0, 3, 10}) {
    known->set_numbers(numbers);
    for (const auto& each : Both(files, spec)) {
      CHECK(MustLoad(each)->vocabulary_size("features") == std::max<int64_t>(4, numbers));
    }
  }
}

TEST_CASE("what is known belongs to the data set's fingerprint, where its files are does not") {
  DataFiles files;
  auto spec = Spec(files);
  const uint64_t without = MustLoad(spec)->fingerprint();
  Know(files, &spec, {"gone", "b"});
  const uint64_t with = MustLoad(spec)->fingerprint();
  CHECK(with != without);
  const std::string elsewhere = files.Write("elsewhere.txt", VocabularyLines({"gone", "b"}));
  spec.mutable_known(0)->set_vocabulary_file(elsewhere);
  CHECK(MustLoad(spec)->fingerprint() == with);
  files.Write("elsewhere.txt", "other\nb\n");
  const auto changed = Dataset::Load(spec);
  REQUIRE_FALSE(changed.ok());
  CHECK_THAT(std::string(changed.status().message()), Catch::Contains("elsewhere.txt"));
}

}  // namespace
}  // namespace coxswain::data
