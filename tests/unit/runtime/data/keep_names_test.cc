// The values behind hashed ids: kept in memory, streamed and by workers alike, without a change of
// anything else.
#include <catch2/catch.hpp>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "runtime/data/hash.h"
#include "runtime/data/stream/index_file.h"
#include "runtime/data/vocabulary_file.h"
#include "tests/testing/same_when_streamed.h"

namespace coxswain::data {
namespace {

using Catch::Matchers::Contains;
using proto::FeatureSpec;
using Ids = std::vector<int64_t>;
using Strings = std::vector<std::string>;

// Hashed features of all kinds, each with names.
proto::DatasetSpec Spec(const DataFiles& files, const std::string& csv, bool keep = true) {
  auto spec = CsvSpec(files.Write("a.csv", csv));
  AddCategorical(&spec, "page")->set_hash_buckets(3);
  AddCategorical(&spec, "user")->set_id("hash");
  FeatureSpec* const tags = AddCategorical(&spec, "tags");
  tags->set_multi_valued(true);
  tags->set_value_separator("|");
  tags->set_hash_buckets(int64_t{1} << 40);
  FeatureSpec* const crossed = spec.add_features();
  crossed->set_name("both");
  crossed->add_crossed("page");
  crossed->add_crossed("user");
  crossed->set_id("hash");
  for (FeatureSpec& feature : *spec.mutable_features()) feature.set_keep_names(keep);
  spec.mutable_label()->set_column("y");
  return spec;
}

constexpr char kCsv[] =
    "page,user,tags,y\n"
    "p,ann,a|b,1\n"
    "q,bob,,0\n"
    "q,ann,c|a|c,1\n"
    "r,,b,0\n";

// The spec in memory and streamed.
std::vector<proto::DatasetSpec> Both(const DataFiles& files, const proto::DatasetSpec& spec) {
  return {spec, Streamed(files, spec, 10)};
}

TEST_CASE("keep_names: values of the training part, the frequent ones and then the first ones") {
  const DataFiles files;
  auto spec = Spec(files, kCsv);
  spec.mutable_split()->add_test_paths(files.Write("t.csv", "page,user,tags,y\nx,bob,z|b,1\n"));
  for (const auto& each : Both(files, spec)) {
    const auto data = MustLoad(each);
    CHECK(data->names("page") == Strings{"q", "p", "r"});
    CHECK(data->names("user") == Strings{"ann", "bob", ""});
    CHECK(data->names("tags") == Strings{"a", "b", "c"});
    CHECK(data->names("both") == Strings{"p & ann", "q & bob", "q & ann", "r & "});
    CHECK(data->keeps_names("page"));
    CHECK_FALSE(data->keeps_names("y"));
    CHECK(data->vocabulary("page") == nullptr);
    CHECK(data->vocabulary_size("page") == 3);
    CHECK(data->vocabulary_size("user") == 0);
    CHECK(data->Lookup("user", "never seen") == static_cast<int64_t>(HashText("never seen")));
  }
  CHECK_FALSE(MustLoad(Spec(files, kCsv, false))->names("page").has_value());
}

TEST_CASE("keep_names changes no id, no count, no part and no fingerprint") {
  const DataFiles files;
  std::string csv = "page,user,tags,y\n";
  for (int i = 0; i < 300; ++i) {
    const uint64_t h = Mix64(static_cast<uint64_t>(i));
    absl::StrAppend(&csv, "p", h % 40, ",u", h % 90, ",", h % 7, "|", h % 11, ",", i % 2, "\n");
  }
  const bool is_label = GENERATE(false, true);
  const auto make = [&](bool keep) {
    auto spec = Spec(files, csv, keep);
    spec.mutable_split()->set_validation_fraction(0.2);
    spec.set_shuffle(true);
    if (is_label) {
      spec.mutable_label()->clear_column();
      spec.mutable_label()->set_feature("page");
    }
    return spec;
  };
  const auto with = Both(files, make(true)), without = Both(files, make(false));
  for (size_t i = 0; i < with.size(); ++i) {
    const auto kept = MustLoad(with[i]), none = MustLoad(without[i]);
    CHECK(kept->fingerprint() == none->fingerprint());
    CHECK(kept->training_counts("page") == none->training_counts("page"));
    for (const Part part : {Part::kTraining, Part::kValidation}) {
      REQUIRE(kept->num_examples(part) == none->num_examples(part));
      CHECK(Bytes(*kept, AllOf(*kept, part, 1)) == Bytes(*none, AllOf(*none, part, 1)));
      CHECK(kept->CountUnknown("page", part) == none->CountUnknown("page", part));
    }
    for (size_t f = 0; f < none->learned().size(); ++f) {
      CHECK(kept->learned()[f].ShortDebugString() == none->learned()[f].ShortDebugString());
    }
    if (none->index() == nullptr) continue;
    CHECK(kept->index()->largest_block() == none->index()->largest_block());
    CHECK(kept->index()->features(0).training_counts_size() ==
          none->index()->features(0).training_counts_size());
    CHECK(ForWorkers(kept->index())->features(0).vocabulary().empty());
  }
}

TEST_CASE("keep_names: streamed, and in parts that workers read, there are the same names") {
  const DataFiles files;
  std::string csv = "page,user,tags,y\n";
  for (int i = 0; i < 60; ++i) {
    const uint64_t h = Mix64(static_cast<uint64_t>(i));
    absl::StrAppend(&csv, "p", h % 13, ",u", h % 30, ",", h % 7, "|", h % 11, ",", i % 2, "\n");
  }
  auto spec = Spec(files, csv);
  spec.mutable_split()->set_validation_fraction(0.3);
  CheckSameWhenStreamed(files, spec);
}

TEST_CASE("keep_names: a history of the feature has its names") {
  const DataFiles files;
  auto spec = Spec(files, kCsv);
  FeatureSpec* const history = spec.add_features();
  history->set_name("seen");
  history->set_history_of("page");
  history->set_group_by("user");
  for (const auto& each : Both(files, spec)) {
    CHECK(MustLoad(each)->names("seen") == Strings{"q", "p", "r"});
  }
}

TEST_CASE("keep_names: an index without names is not taken for a data set that keeps them") {
  const DataFiles files;
  CHECK_FALSE(MustLoad(Streamed(files, Spec(files, kCsv, false), 10))->names("page").has_value());
  CHECK(MustLoad(Streamed(files, Spec(files, kCsv), 10))->names("page") == Strings{"q", "p", "r"});
  const auto again = MustLoad(Streamed(files, Spec(files, kCsv), 10));  // by the index that is kept
  CHECK(again->names("page") == Strings{"q", "p", "r"});
}

TEST_CASE("keep_names: names of before stay in front, and say nothing of the data") {
  const DataFiles files;
  auto spec = Spec(files, kCsv);
  const uint64_t fingerprint = MustLoad(spec)->fingerprint();
  const auto know = [&](const Strings& names) {
    const std::string lines = VocabularyLines(names);
    spec.clear_known();
    proto::LearnedFeature* const known = spec.add_known();
    known->set_name("page");
    known->set_hash_buckets(3);
    known->set_names_file(files.Write("known.names", lines));
    known->set_names_hash(HashText(lines));
  };
  for (const Strings& names : {Strings{"gone", "r"}, Strings{"p"}}) {
    know(names);
    Strings wanted = names;
    for (const char* name : {"q", "p", "r"}) {
      if (name != names.back()) wanted.emplace_back(name);
    }
    for (const auto& each : Both(files, spec)) CHECK(MustLoad(each)->names("page") == wanted);
    CHECK(MustLoad(spec)->fingerprint() == fingerprint);
    CheckSameIndex(Streamed(files, spec, 10));
  }
  files.Write("known.names", "other\n");
  const auto damaged = Dataset::Load(spec);
  CHECK(damaged.status().code() == absl::StatusCode::kDataLoss);
  CHECK_THAT(std::string(damaged.status().message()), Contains("known.names: not as it was saved"));
}

TEST_CASE("keep_names: names that do not fit into memory are an error that says what to do") {
  const DataFiles files;
  std::string csv = "page,user,tags,y\n";
  for (int i = 0; i < 12000; ++i) absl::StrAppend(&csv, "page number ", i, ",u,a,1\n");
  auto spec = Streamed(files, Spec(files, csv), 1 << 12, 0, int64_t{1} << 20);
  spec.mutable_features()->RemoveLast();
  CHECK_THAT(LoadError(spec), Contains("\"page\"") && Contains("keep_names has kept") &&
                                  Contains("dataset.memory") && Contains("wanted no keep_names"));
  for (FeatureSpec& feature : *spec.mutable_features()) feature.set_keep_names(false);
  CHECK(MustLoad(spec)->num_examples(Part::kTraining) == 12000);
}

TEST_CASE("keep_names: what cannot keep names is told") {
  const DataFiles files;
  const auto error = [&](auto change) {
    auto spec = Spec(files, kCsv, false);
    spec.mutable_features(0)->set_keep_names(true);
    change(&spec, spec.mutable_features(0));
    const auto data = Dataset::Load(spec);
    REQUIRE_FALSE(data.ok());
    CHECK(data.status().code() == absl::StatusCode::kInvalidArgument);
    return std::string(data.status().message());
  };
  using Spec = proto::DatasetSpec;
  const auto wanted = Contains("\"page\": keep_names: wanted hash_buckets or the id \"hash\"");
  CHECK_THAT(error([](Spec*, FeatureSpec* f) { f->set_hash_buckets(0); }),
             wanted && Contains("a vocabulary has the names already"));
  CHECK_THAT(error([](Spec*, FeatureSpec* f) {
               f->set_hash_buckets(0);
               f->set_id("raw");
             }),
             wanted && Contains("a value is its own name"));
  CHECK_THAT(error([](Spec* s, FeatureSpec* f) {
               s->clear_features();
               f = AddNumeric(s, "page");
               f->set_keep_names(true);
             }),
             wanted && Contains("numbers are not hashed"));
  CHECK_THAT(error([](Spec* s, FeatureSpec* f) {
               s->mutable_features()->RemoveLast();
               f->set_history_of("user");
               f->set_group_by("user");
             }),
             wanted && Contains("a history has the names of the feature that it is of"));
  CHECK_THAT(error([](Spec* s, FeatureSpec*) { s->set_followed(true); }),
             Contains("\"page\": keep_names: with dataset.follow"));
  Spec libsvm;
  libsvm.set_format("libsvm");
  libsvm.add_paths(files.Write("a.svm", "1 1:1\n"));
  FeatureSpec* const indices = libsvm.add_features();
  indices->set_name("features");
  indices->set_kind(FeatureSpec::CATEGORICAL);
  indices->set_multi_valued(true);
  indices->set_keep_names(true);
  CHECK_THAT(LoadError(libsvm), Contains("indices are ids already"));
}

TEST_CASE("keep_names: a model's data set collects nothing again") {
  const DataFiles files;
  auto spec = Spec(files, kCsv);
  const auto trained = MustLoad(spec);
  for (const proto::LearnedFeature& learned : trained->learned()) *spec.add_learned() = learned;
  const auto data = MustLoad(spec);
  CHECK_FALSE(data->keeps_names("page"));
  CHECK(Bytes(*data, AllOf(*data, Part::kTraining)) ==
        Bytes(*trained, AllOf(*trained, Part::kTraining)));
}

}  // namespace
}  // namespace coxswain::data
