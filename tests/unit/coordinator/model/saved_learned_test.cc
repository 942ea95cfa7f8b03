// What a data set learns from its training part, and another one that is given it.
#include <algorithm>
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "coordinator/model/saved_learned.h"
#include "runtime/data/text_parts.h"
#include "runtime/data/vocabulary_file.h"
#include "tests/testing/data_files.h"
#include "tests/testing/data_specs.h"

namespace coxswain::model {
namespace {

using Catch::Matchers::Contains;
using proto::FeatureSpec;
using Floats = std::vector<float>;
using Ids = std::vector<int64_t>;
using Texts = std::vector<std::string>;

constexpr Part kTraining = Part::kTraining;
constexpr Part kTest = Part::kTest;

// The spec with what `data` learned, by way of files.
proto::DatasetSpec WithLearned(proto::DatasetSpec spec, const data::Dataset& data,
                               const DataFiles& files) {
  const auto real = env::NewRealFileSystem();
  const std::string directory = files.Path("model");
  REQUIRE(real->MakeDirs(directory).ok());
  REQUIRE(WriteLearned(data, real.get(), directory).ok());
  const auto trained = ReadLearned(directory, &spec);
  INFO(trained.status().ToString());
  REQUIRE(trained.ok());
  CHECK(trained->training == data.num_examples(kTraining));
  CHECK(trained->test == data.num_examples(kTest));
  return spec;
}

TEST_CASE(
    "learned: a value that only held-out rows have is an unknown one, with no row of its own") {
  const DataFiles files;
  auto spec = CsvSpec(files.Write("a.csv", "x,t\na,a b\nb,b\nb,c\n"));
  spec.mutable_split()->add_test_paths(files.Write("b.csv", "x,t\nz,z a\nb,z\ny,\n"));
  AddCategorical(&spec, "x")->set_oov_buckets(1);
  AddCategorical(&spec, "t")->set_multi_valued(true);
  const auto data = MustLoad(spec);
  CHECK(*data->vocabulary("x") == Texts{"b", "a"});
  CHECK(data->vocabulary_size("x") == 3);
  CHECK(Values<int64_t>(*data, AllOf(*data, kTest), "x") == Ids{2, 0, 2});
  CHECK(data->CountUnknown("x", kTest) == 2);
  CHECK(data->CountUnknown("x", kTraining) == 0);
  // Of several values the unknown ones are left out.
  CHECK(*data->vocabulary("t") == Texts{"b", "a", "c"});
  CHECK(Values<int64_t>(*data, AllOf(*data, kTest), "t.values") == Ids{1});
  // Without a bucket it is an error that names the line.
  spec.mutable_features(0)->set_oov_buckets(0);
  CHECK_THAT(LoadError(spec), Contains("\"z\" (in 0 training rows; ") && Contains("b.csv:2)") &&
                                  Contains("oov_buckets >= 1"));
}

TEST_CASE("learned: rows drawn for validation from the same file teach nothing either") {
  const DataFiles files;
  std::string text = "x,n\n";
  for (int i = 0; i < 400; ++i) absl::StrAppend(&text, "v", i, ",", i, "\n");
  auto spec = CsvSpec(files.Write("a.csv", text));
  AddCategorical(&spec, "x")->set_oov_buckets(1);
  AddNumeric(&spec, "n")->set_normalization(FeatureSpec::MIN_MAX);
  spec.mutable_split()->set_validation_fraction(0.3);
  const auto data = MustLoad(spec);
  const int64_t trained = data->num_examples(kTraining);
  REQUIRE(trained < 320);
  CHECK(data->vocabulary_size("x") == trained + 1);
  for (const int64_t id : Values<int64_t>(*data, AllOf(*data, Part::kValidation), "x")) {
    REQUIRE(id == trained);
  }
  const Floats numbers = Values<float>(*data, AllOf(*data, kTraining), "n");
  CHECK(*std::min_element(numbers.begin(), numbers.end()) == 0);
  CHECK(*std::max_element(numbers.begin(), numbers.end()) == 1);
}

TEST_CASE("learned: other files are read with the model's vocabularies and statistics") {
  const DataFiles files;
  auto spec = CsvSpec(files.Write("a.csv", "x,t,n,m,h\nb,p|q,1,0,k\na,p,3,10,l\nb,,5,5,k\n"));
  spec.mutable_csv()->set_quoting(true);
  AddCategorical(&spec, "x")->set_oov_buckets(1);
  FeatureSpec* tags = AddCategorical(&spec, "t");
  tags->set_multi_valued(true);
  tags->set_value_separator("|");
  AddNumeric(&spec, "n")->set_normalization(FeatureSpec::STANDARD);
  AddNumeric(&spec, "m")->set_normalization(FeatureSpec::MIN_MAX);
  AddCategorical(&spec, "h")->set_hash_buckets(16);
  const auto trained = MustLoad(spec);
  auto later = WithLearned(spec, *trained, files);
  // The same rows and newer ones, in which other values are the frequent ones.
  later.set_paths(0,
                  files.Write("later.csv",
                              "x,t,n,m,h\nb,p|q,1,0,k\na,p,3,10,l\nb,,5,5,k\n"
                              "c,r|q,90,90,x\nc,r,90,90,y\nc,r,90,90,z\n\"new,\nline\",,0,0,\n"));
  const auto data = MustLoad(later);
  CHECK(*data->vocabulary("x") == Texts{"b", "a"});
  CHECK(data->vocabulary_size("x") == 3);
  const Ticket old{kTraining, 0, 0, 3}, all = AllOf(*data, kTraining);
  for (const char* name : {"n", "m"}) {
    CHECK(Values<float>(*data, old, name) == Values<float>(*trained, old, name));
  }
  for (const char* name : {"x", "t.values", "h"}) {
    CHECK(Values<int64_t>(*data, old, name) == Values<int64_t>(*trained, old, name));
  }
  CHECK(Values<int64_t>(*data, all, "x") == Ids{0, 1, 0, 2, 2, 2, 2});
  CHECK(Values<int64_t>(*data, all, "t.values") == Ids{0, 1, 0, 1});
  CHECK(Values<float>(*data, all, "m") == Floats{0, 1, 0.5, 9, 9, 9, 0});
  // What it is given counts for the fingerprint, where the files lie does not.
  CHECK(data->fingerprint() != MustLoad(spec)->fingerprint());
  CHECK(MustLoad(later)->fingerprint() == data->fingerprint());
}

TEST_CASE("learned: a job that reads a feature in another way than the model is refused") {
  const DataFiles files;
  auto spec = CsvSpec(files.Write("a.csv", "x,n,h\na,1,k\nb,2,l\n"));
  AddCategorical(&spec, "x")->set_oov_buckets(1);
  AddNumeric(&spec, "n")->set_normalization(FeatureSpec::STANDARD);
  AddCategorical(&spec, "h")->set_hash_buckets(16);
  const auto learned = WithLearned(spec, *MustLoad(spec), files);
  const auto error = [&learned](auto change) {
    auto changed = learned;
    change(&changed);
    return LoadError(changed);
  };
  using Spec = proto::DatasetSpec;
  CHECK_THAT(error([](Spec* s) { s->mutable_features(2)->set_hash_buckets(8); }),
             Contains("\"h\"") && Contains("16 hash_buckets, the job says 8"));
  CHECK_THAT(error([](Spec* s) { s->mutable_features(1)->set_normalization(FeatureSpec::LOG1P); }),
             Contains("\"n\"") && Contains("STANDARD, the job says LOG1P"));
  CHECK_THAT(error([](Spec* s) {
               s->mutable_features(0)->set_oov_buckets(0);
               s->mutable_features(0)->set_id("hash");
             }),
             Contains("\"x\"") && Contains("trained with a vocabulary, the job says the id hash"));
  CHECK_THAT(error([](Spec* s) { AddNumeric(s, "other")->set_column("n"); }),
             Contains("\"other\"") && Contains("trained without it"));
}

TEST_CASE("learned: libsvm's indices end at the largest one of the training part") {
  const DataFiles files;
  proto::DatasetSpec spec;
  spec.set_format("libsvm");
  spec.add_paths(files.Write("a.svm", "1 1:1 3:1\n0 2:1\n"));
  spec.mutable_split()->add_test_paths(files.Write("b.svm", "1 1:1 9:4 2:3\n"));
  const auto data = MustLoad(spec);
  CHECK(data->vocabulary_size("features") == 3);
  CHECK(Values<int64_t>(*data, AllOf(*data, kTest), "features.values") == Ids{0, 1});
  CHECK(Values<float>(*data, AllOf(*data, kTest), "features.weights") == Floats{1, 3});
  auto later = WithLearned(spec, *data, files);
  later.set_paths(0, files.Write("later.svm", "1 1:1 7:1\n0 3:1\n"));
  const auto read = MustLoad(later);
  CHECK(read->vocabulary_size("features") == 3);
  CHECK(Values<int64_t>(*read, AllOf(*read, kTraining), "features.values") == Ids{0, 2});
  later.set_libsvm_features(4);
  CHECK_THAT(LoadError(later), Contains("3 indices, the job says 4"));
}

TEST_CASE("learned: a vocabulary file is the one that was saved, or refused") {
  const DataFiles files;
  const Texts values = {"a\\n", "line\nend", "cr\r", "", "\\", "\xef\xbb\xbf bom"};
  std::string csv = "x\n";
  for (const std::string& v : values) absl::StrAppend(&csv, "\"", v, "\"\n");
  auto spec = CsvSpec(files.Write("a.csv", csv));
  spec.mutable_csv()->set_quoting(true);
  AddCategorical(&spec, "x");
  const auto data = MustLoad(spec);
  REQUIRE(*data->vocabulary("x") == values);
  const auto learned = WithLearned(spec, *data, files);
  CHECK(*MustLoad(learned)->vocabulary("x") == values);
  const std::string path = learned.learned(0).vocabulary_file();
  const std::string whole = data::VocabularyLines(values);
  for (const std::string& content :
       {whole + "more\n", whole.substr(0, whole.size() - 1), std::string()}) {
    files.Write("model/vocabulary/x.txt", content);
    const auto loaded = data::Dataset::Load(learned);
    REQUIRE_FALSE(loaded.ok());
    CHECK(loaded.status().code() == absl::StatusCode::kDataLoss);
    CHECK_THAT(std::string(loaded.status().message()), Contains(path + ": not as it was saved"));
  }
}

TEST_CASE("learned: what a model without it, or of another version, is told by") {
  const DataFiles files;
  const auto read = [&files](const std::string& content) {
    proto::DatasetSpec spec;
    std::filesystem::create_directories(files.Path("model"));
    if (!content.empty()) files.Write("model/features.json", content);
    return ReadLearned(files.Path("model"), &spec).status();
  };
  const absl::Status none = read("");
  CHECK(none.code() == absl::StatusCode::kFailedPrecondition);
  CHECK_THAT(std::string(none.message()), Contains("earlier version") && Contains("again"));
  const absl::Status newer =
      read(R"({"format": "coxswain-features", "version": 2, "hash": 1, "features": []})");
  CHECK(newer.code() == absl::StatusCode::kFailedPrecondition);
  CHECK_THAT(std::string(newer.message()), Contains("'version' is 2, this program knows 1"));
  CHECK(
      read(R"({"format": "coxswain-features", "version": 1, "hash": 9, "features": []})").code() ==
      absl::StatusCode::kFailedPrecondition);
  for (const char* bad : {"{", "[]", R"({"format": "coxswain-features"})",
                          R"({"format": "coxswain-features", "version": 1, "hash": 1})",
                          R"({"format": "coxswain-features", "version": 1, "hash": 1,
                              "features": [{"name": "x", "vocabulary_file": "../secret"}]})",
                          R"({"format": "coxswain-features", "version": 1, "hash": 1,
                              "features": [{"name": 7}]})"}) {
    CAPTURE(bad);
    CHECK(read(bad).code() == absl::StatusCode::kDataLoss);
  }
}

// Runs of a text whose words are "w0" ... "w1030", again and again.
std::string Rounds(int64_t words) {
  std::string text;
  for (int64_t i = 0; i < words; ++i) absl::StrAppend(&text, "w", i % 1031, " ");
  return text;
}

TEST_CASE("learned: a text's words are those of its training part, also when text is appended") {
  const DataFiles files;
  proto::DatasetSpec spec;
  spec.set_format("text");
  const std::string before = Rounds(30 * data::kTextRun);
  spec.add_paths(files.Write("a.txt", before));
  spec.mutable_text()->set_window(2);
  spec.mutable_split()->set_validation_fraction(0.2);
  const auto runs = data::HoldOutRuns(30 * data::kTextRun, 0.2, spec.seed());
  REQUIRE(runs.ok());
  const auto out = static_cast<size_t>(std::find(runs->begin(), runs->end(), true) - runs->begin());
  REQUIRE(out < runs->size());
  // A word that stands only in a run that is held out.
  const std::string secret = "secret";
  std::string text;
  for (size_t run = 0; run < 30; ++run) {
    for (int64_t i = 0; i < data::kTextRun; ++i) {
      const bool here = run == out && i % 3 == 0;
      absl::StrAppend(&text, here ? secret : absl::StrCat("w", i % 1031), " ");
    }
  }
  spec.set_paths(0, files.Write("b.txt", text));
  const auto data = MustLoad(spec);
  CHECK_FALSE(data->Lookup("word", secret).has_value());
  CHECK(data->vocabulary_size("word") == data::kTextRun);
  for (const int64_t count : data->training_counts("word")) CHECK(count > 0);

  auto later = WithLearned(spec, *data, files);
  later.set_paths(0, files.Write("c.txt", absl::StrCat(text, "new words ", Rounds(5'000))));
  const auto longer = MustLoad(later);
  CHECK(*longer->vocabulary("word") == *data->vocabulary("word"));
  CHECK(longer->training_counts("word") == data->training_counts("word"));
  // What was held out still is, and comes first.
  const int64_t n = data->num_examples(Part::kValidation);
  REQUIRE(longer->num_examples(Part::kValidation) >= n);
  CHECK(Values<int64_t>(*longer, {Part::kValidation, 0, 0, n - 2}, "center") ==
        Values<int64_t>(*data, {Part::kValidation, 0, 0, n - 2}, "center"));
}

// Rows 0 .. n - 1, the later half of them held out.
proto::DatasetSpec InTime(const DataFiles& files, int n) {
  std::string csv = "x,t\n";
  for (int i = 0; i < n; ++i) absl::StrAppend(&csv, i, ",", i, "\n");
  auto spec = CsvSpec(files.Write(absl::StrCat(n, ".csv"), csv));
  AddNumeric(&spec, "x");
  AddNumeric(&spec, "t");
  spec.mutable_split()->set_by("t");
  spec.mutable_split()->set_test_fraction(0.5);
  return spec;
}

struct After {
  proto::DatasetSpec spec;  // as the next job's
  TrainedOn trained;
};

// What a model of the spec's data leaves.
After Train(const DataFiles& files, const std::string& name, const proto::DatasetSpec& spec,
            const TrainedOn* earlier) {
  const auto real = env::NewRealFileSystem();
  REQUIRE(real->MakeDirs(files.Path(name)).ok());
  REQUIRE(WriteLearned(*MustLoad(spec), real.get(), files.Path(name), earlier).ok());
  After after;
  const auto trained = ReadLearned(files.Path(name), &after.spec);
  REQUIRE(trained.ok());
  after.trained = *trained;
  return after;
}

TEST_CASE("learned: a model that was trained on from another one knows how its rows were split") {
  const DataFiles files;
  const After first = Train(files, "first", InTime(files, 4), nullptr);
  CHECK(first.trained.rows.rows() == 4);
  CHECK_FALSE(first.trained.doubtful);
  proto::DatasetSpec spec = InTime(files, 8);
  *spec.mutable_trained() = first.spec.trained();
  const auto grown = MustLoad(spec);
  CHECK(KeepsParts(first.trained, *grown));
  const Floats training = Values<float>(*grown, AllOf(*grown, kTraining), "x");
  CHECK(training == Floats{0, 1});
  const After second = Train(files, "second", spec, &first.trained);
  CHECK(second.trained.rows.rows() == 8);
  CHECK(second.trained.split_as.rows() == 4);
  CHECK_FALSE(second.trained.doubtful);
  // As it was, whoever goes on and how often.
  *spec.mutable_trained() = second.spec.trained();
  const auto again = MustLoad(spec);
  CHECK(KeepsParts(second.trained, *again));
  CHECK(Values<float>(*again, AllOf(*again, kTraining), "x") == training);
  CHECK(again->fingerprint() == grown->fingerprint());
  const After third = Train(files, "third", spec, &second.trained);
  CHECK(third.trained.split_as.rows() == 4);
  CHECK_FALSE(third.trained.doubtful);
  // With still more rows nothing tells the parts of those between.
  proto::DatasetSpec more = InTime(files, 12);
  *more.mutable_trained() = second.spec.trained();
  CHECK_FALSE(KeepsParts(second.trained, *MustLoad(more)));
  CHECK(Train(files, "more", more, &second.trained).trained.doubtful);
  // A draw that other rows do not change needs no memory of them.
  more.mutable_split()->clear_by();
  more.clear_trained();
  proto::DatasetSpec less = InTime(files, 8);
  less.mutable_split()->clear_by();
  const After drawn = Train(files, "drawn", less, nullptr);
  *more.mutable_trained() = drawn.spec.trained();
  const After drawn_on = Train(files, "drawn_on", more, &drawn.trained);
  CHECK(drawn_on.trained.split_as.rows() == 12);
  CHECK_FALSE(drawn_on.trained.doubtful);
}

TEST_CASE(
    "learned: what was trained on before, and is not told from what is held out, stays a doubt") {
  const DataFiles files;
  auto spec = InTime(files, 8);
  const After first = Train(files, "first", spec, nullptr);
  *spec.mutable_trained() = first.spec.trained();
  CHECK_FALSE(Train(files, "same", spec, &first.trained).trained.doubtful);
  spec.mutable_split()->set_test_fraction(0.2);
  const After other_split = Train(files, "split", spec, &first.trained);
  CHECK(other_split.trained.doubtful);
  *spec.mutable_trained() = other_split.spec.trained();
  CHECK(Train(files, "after", spec, &other_split.trained).trained.doubtful);
  // Of a model of an earlier version nothing is known.
  spec.mutable_trained()->Clear();
  const TrainedOn unknown;
  CHECK(Train(files, "unknown", spec, &unknown).trained.doubtful);
}

TEST_CASE("learned: what training goes on from makes other data of it only by other parts") {
  const DataFiles files;
  auto few = InTime(files, 8), spec = InTime(files, 12);
  const bool by_time = GENERATE(true, false);
  CAPTURE(by_time);
  if (!by_time) {
    few.mutable_split()->clear_by();
    spec.mutable_split()->clear_by();
  }
  const uint64_t alone = MustLoad(spec)->fingerprint(), of_few = MustLoad(few)->fingerprint();
  const After first = Train(files, "first", few, nullptr);
  *few.mutable_trained() = *spec.mutable_trained() = first.spec.trained();
  CHECK(MustLoad(few)->fingerprint() == of_few);
  CHECK((MustLoad(spec)->fingerprint() != alone) == by_time);
  // Without its rows.
  spec.mutable_trained()->Clear();
  CHECK(MustLoad(spec)->fingerprint() == alone);
}

}  // namespace
}  // namespace coxswain::model
