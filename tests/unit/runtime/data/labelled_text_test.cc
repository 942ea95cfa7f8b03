// Texts with a class each, from lines and from files, and the words of texts.
#include <catch2/catch.hpp>
#include <filesystem>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "runtime/data/labelled_text.h"
#include "runtime/data/words.h"
#include "tests/testing/same_when_streamed.h"

namespace coxswain::data {
namespace {

using Catch::Matchers::Contains;
using Strings = std::vector<std::string>;

std::string WordsOf(const std::string& text) {
  std::string words;
  AppendWordsOf(text, &words);
  return words;
}

TEST_CASE("the words of a text are runs of letters and digits in lower case") {
  CHECK(WordsOf("A good, GOOD film!") == "a good good film");
  CHECK(WordsOf("it's 'so-called' 3D") == "it's so called 3d");
  CHECK(WordsOf("dogs' '' a'") == "dogs a");
  CHECK(WordsOf("na\xc3\xafve \xe2\x82\xac") == "na\xc3\xafve \xe2\x82\xac");
  CHECK(WordsOf("").empty());
  CHECK(WordsOf(" -\n\t.").empty());
  // Those of several texts are the words of all.
  std::string words = "one";
  AppendWordsOf("Two", &words);
  CHECK(words == "one two");
}

TEST_CASE("the class of a text is told by the name of its file or directory") {
  CHECK(ClassOfFile("/data/pos.txt") == "pos");
  CHECK(ClassOfFile("pos.txt.gz") == "pos");
  CHECK(ClassOfFile("rt-polarity.neg") == "rt-polarity.neg");
  CHECK(ClassOfFile("pos") == "pos");
  CHECK(ClassOfFile("a/.txt") == ".txt");
  CHECK(ClassOfDirectory("/train/neg/17_2.txt") == "neg");
  CHECK(ClassOfDirectory("17_2.txt").empty());
}

// Words of the text, and whether its class is `positive`.
proto::DatasetSpec Spec(const std::string& format, const Strings& paths,
                        const std::string& positive) {
  proto::DatasetSpec spec;
  spec.set_format(format);
  for (const std::string& path : paths) spec.add_paths(path);
  proto::FeatureSpec* const words = AddCategorical(&spec, "text");
  words->set_multi_valued(true);
  words->set_tokens("words");
  AddCategorical(&spec, "class");
  spec.mutable_label()->set_column("class");
  spec.mutable_label()->add_positive_values(positive);
  return spec;
}

std::string Lines(int rows, const std::string& word) {
  std::string text;
  for (int i = 0; i < rows; ++i) {
    absl::StrAppend(&text, i % 4 == 0 ? "" : word, " Word", i % 7, ", said ", i % 3, "!\n",
                    i % 9 == 0 ? "\n \n" : "");
  }
  return text;
}

TEST_CASE("labelled_lines: a text on each line, a file for each class, streamed or not") {
  const DataFiles files;
  auto spec = Spec(
      "labelled_lines",
      {files.Write("pos.txt", Lines(60, "good")), files.WriteGzip("neg.txt.gz", Lines(40, "bad"))},
      "pos");
  spec.mutable_split()->set_test_fraction(0.2);
  CheckSameWhenStreamed(files, spec);
}

Strings TextFiles(const DataFiles& files) {
  Strings paths;
  for (int i = 0; i < 30; ++i) {
    const std::string of = i % 3 == 0 ? "pos" : "neg";
    std::filesystem::create_directories(files.Path(of));
    paths.push_back(files.Write(absl::StrCat(of, "/", i, ".txt"),
                                i == 7 ? "" : Lines(i % 5 + 1, absl::StrCat(of, "ly"))));
  }
  return paths;
}

TEST_CASE("labelled_files: a text in each file, a directory for each class, streamed or not") {
  const DataFiles files;
  auto spec = Spec("labelled_files", TextFiles(files), "pos");
  spec.mutable_split()->set_test_fraction(0.2);
  CheckSameWhenStreamed(files, spec);
}

TEST_CASE("labelled text: words are values of a row, and the class is its label") {
  const DataFiles files;
  const auto data = MustLoad(
      Spec("labelled_lines",
           {files.Write("pos.txt", "Good film, good!\n\nfine\n"), files.Write("neg.txt", "...\n")},
           "pos"));
  REQUIRE(data->num_examples(Part::kTraining) == 3);
  CHECK(*data->vocabulary("text") == Strings{"good", "film", "fine"});
  CHECK(*data->vocabulary("class") == Strings{"pos", "neg"});
  const auto batch = data->Read({Part::kTraining, 0, 0, 3});
  REQUIRE(batch.ok());
  const auto& columns = data->columns(Part::kTraining);
  const auto column = [&](const std::string& name) -> const Tensor& {
    for (size_t i = 0; i < columns.size(); ++i) {
      if (columns[i].name == name) return (*batch)[i];
    }
    FAIL("no column " << name);
    return (*batch)[0];
  };
  const auto values = column("text.values").values<int64_t>();
  CHECK(std::vector<int64_t>(values.begin(), values.end()) == std::vector<int64_t>{0, 1, 0, 2});
  const auto offsets = column("text.offsets").values<int32_t>();
  CHECK(std::vector<int32_t>(offsets.begin(), offsets.end()) == std::vector<int32_t>{0, 3, 4, 4});
  const auto labels = column("label").values<float>();
  CHECK(std::vector<float>(labels.begin(), labels.end()) == std::vector<float>{1, 1, 0});
}

TEST_CASE("labelled text: what is wrong is told by file, line and column") {
  const DataFiles files;
  const std::string good = files.Write("pos.txt", "good\n");
  const auto lines = [&](const std::string& text) {
    return LoadError(Spec("labelled_lines", {good, files.Write("neg.txt", text)}, "pos"));
  };
  CHECK_THAT(lines("fine\nb\xe9te\n"),
             Contains("neg.txt:2: column \"text\": wanted text in UTF-8, found a text of 4 bytes"));
  auto other = Spec("labelled_lines", {good}, "pos");
  other.mutable_label()->set_column("label");
  CHECK_THAT(LoadError(other), Contains("pos.txt: wanted a column \"label\", found those of "
                                        "labelled text, which are text and class"));
  auto number = Spec("labelled_lines", {good}, "pos");
  number.mutable_label()->clear_positive_values();
  CHECK_THAT(LoadError(number), Contains("pos.txt:1: column \"class\": wanted"));
}

TEST_CASE("words of a column of any format") {
  const DataFiles files;
  proto::DatasetSpec spec;
  spec.set_format("csv");
  spec.mutable_csv()->set_header(true);
  spec.mutable_csv()->set_quoting(true);
  spec.add_paths(files.Write("a.csv", "y,review\n1,\"Good, GOOD film\"\n0,bad\n"));
  proto::FeatureSpec* const words = AddCategorical(&spec, "review");
  words->set_multi_valued(true);
  words->set_tokens("words");
  spec.mutable_label()->set_column("y");
  const auto data = MustLoad(spec);
  CHECK(*data->vocabulary("review") == Strings{"good", "film", "bad"});
  CHECK(data->training_counts("review") == std::vector<int64_t>{2, 1, 1});
}

TEST_CASE("tokens that cannot be are refused, with the feature and the field") {
  const DataFiles files;
  const auto error = [&](auto change) {
    auto spec = Spec("labelled_lines", {files.Write("pos.txt", "good\n")}, "pos");
    change(spec.mutable_features(0));
    return LoadError(spec);
  };
  CHECK_THAT(error([](auto* f) { f->set_tokens("letters"); }),
             Contains("feature \"text\": wanted the tokens \"words\", found \"letters\""));
  CHECK_THAT(error([](auto* f) { f->set_multi_valued(false); }), Contains("multi_valued"));
  CHECK_THAT(error([](auto* f) { f->set_value_separator("|"); }), Contains("value_separator"));
}

}  // namespace
}  // namespace coxswain::data
