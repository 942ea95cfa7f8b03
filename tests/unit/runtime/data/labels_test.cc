// Labels that the loss cannot use, and text that is none: the file and line.
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "runtime/data/spec_check.h"
#include "runtime/data/utf8.h"
#include "tests/testing/data_files.h"
#include "tests/testing/data_specs.h"

namespace coxswain::data {
namespace {

using Catch::Matchers::Contains;
using Catch::Matchers::EndsWith;

void Bound(proto::DatasetSpec* spec, double low, double high, bool whole) {
  spec->mutable_label()->set_bounded(true);
  spec->mutable_label()->set_low(low);
  spec->mutable_label()->set_high(high);
  spec->mutable_label()->set_whole(whole);
}

TEST_CASE("labels: one outside of the loss's range is an error with file and line") {
  const DataFiles files;
  auto spec = CsvSpec(files.Write("a.csv", "x,y\n1,0\n2,0.5\n3,1\n4,5\n"));
  AddNumeric(&spec, "x");
  spec.mutable_label()->set_column("y");
  MustLoad(spec);
  Bound(&spec, 0, 1, false);
  CHECK_THAT(LoadError(spec),
             EndsWith("a.csv:5:3: field 2 (\"y\"): wanted a label from 0 to 1, as "
                      "the loss wants it (label.positive: \"> 0\" compares numbers, "
                      "label.positive_values names texts), found "
                      "\"5\""));
  Bound(&spec, 0, 9, true);
  CHECK_THAT(LoadError(spec), Contains("a.csv:3:3") && Contains("an integer from 0 to 9") &&
                                  EndsWith("found \"0.5\""));
  // A comparison makes 0 and 1 of any number.
  spec.mutable_label()->set_positive_comparison(">");
  Bound(&spec, 0, 1, false);
  MustLoad(spec);
}

TEST_CASE("labels: a field that is there is 1 where its presence is the label, and else 0") {
  const DataFiles files;
  auto spec = CsvSpec(files.Write("a.csv", "x,y\n1,17:30\n2,\n3, \n4,0\n5,n/a\n"));
  spec.mutable_csv()->add_missing_values("n/a");
  AddNumeric(&spec, "x");
  spec.mutable_label()->set_column("y");
  spec.mutable_label()->set_positive_comparison(kPresent);
  Bound(&spec, 0, 1, false);
  const auto data = MustLoad(spec);
  CHECK(Values<float>(*data, AllOf(*data, Part::kTraining), "label") ==
        std::vector<float>{1, 0, 0, 1, 0});
}

TEST_CASE("labels: of joined rows those without a match have no label, which may count as 0") {
  const DataFiles files;
  auto spec = CsvSpec(files.Write("a.csv", "x,id\n1,a\n2,b\n3,c\n"));
  proto::JoinSpec* const join = spec.add_joins();
  join->set_path(files.Write("clicks.csv", "id,at,bought\na,17:30,1\nc,,\n"));
  join->set_left_on("id");
  join->mutable_csv()->set_header(true);
  AddNumeric(&spec, "x");
  spec.mutable_label()->set_column("at");
  spec.mutable_label()->set_positive_comparison(kPresent);
  const auto labels = [&] {
    const auto data = MustLoad(spec);
    return Values<float>(*data, AllOf(*data, Part::kTraining), "label");
  };
  CHECK(labels() == std::vector<float>{1, 0, 0});
  spec.mutable_label()->set_column("bought");
  spec.mutable_label()->clear_positive_comparison();
  CHECK_THAT(LoadError(spec), Contains("a.csv:3"));
  spec.mutable_label()->set_missing_value(0);
  CHECK(labels() == std::vector<float>{1, 0, 0});
  // It is compared as any other number is.
  spec.mutable_label()->set_positive_comparison("<");
  spec.mutable_label()->set_positive_threshold(0.5);
  CHECK(labels() == std::vector<float>{0, 1, 1});
}

TEST_CASE("labels: an empty one that is to be compared is told what to do about it") {
  const DataFiles files;
  auto spec = CsvSpec(files.Write("a.csv", "x,y\n1,31\n2,\n"));
  AddNumeric(&spec, "x");
  spec.mutable_label()->set_column("y");
  spec.mutable_label()->set_positive_comparison(">");
  spec.mutable_label()->set_positive_threshold(30);
  Bound(&spec, 0, 1, false);
  CHECK_THAT(
      LoadError(spec),
      EndsWith("a.csv:3:3: field 2 (\"y\"): wanted a number, which label.positive compares (> "
               "30); what a missing one counts as is label.missing_value, found \"\""));
  spec.mutable_label()->set_positive_comparison(kPresent);
  spec.mutable_label()->set_missing_value(0);
  CHECK_THAT(LoadError(spec), Contains("missing_value is for labels that are numbers"));
}

TEST_CASE("labels: libsvm's -1 and 1 are told to a loss that wants 0 and 1") {
  const DataFiles files;
  proto::DatasetSpec spec;
  spec.set_format("libsvm");
  spec.add_paths(files.Write("a.svm", "1 1:1\n\n-1 2:1\n"));
  Bound(&spec, 0, 1, false);
  CHECK_THAT(LoadError(spec), Contains("a.svm:3:1: label: wanted a label from 0 to 1"));
}

TEST_CASE("labels: how they are spread is known by part") {
  const DataFiles files;
  auto spec = CsvSpec(files.Write("a.csv", "x,y\n1,0\n2,0\n3,1\n4,0\n"));
  spec.mutable_split()->add_test_paths(files.Write("b.csv", "x,y\n1,1\n"));
  AddNumeric(&spec, "x");
  spec.mutable_label()->set_column("y");
  const auto data = MustLoad(spec);
  const LabelSummary labels = data->label_summary(Part::kTraining);
  CHECK(labels.count == 4);
  CHECK(labels.mean() == 0.25);
  CHECK_FALSE(labels.constant());
  CHECK(labels.ToString() == "0 75.0%, 1 25.0%");
  CHECK(data->label_summary(Part::kTest).constant());
  LabelSummary numbers;
  for (int i = 0; i < 100; ++i) numbers.Add(static_cast<float>(i));
  CHECK(numbers.ToString() == "mean 49.5, 0 to 99");
  CHECK_FALSE(LabelSummary().constant());
}

TEST_CASE("UTF-8: what is none is told by its first byte") {
  for (const char* good : {"", "plain text of more than eight bytes", "é", "日本語の文字 and more",
                           "12345678é", "1234567é", "\xf0\x9f\x98\x80"}) {
    CAPTURE(good);
    CHECK(IsUtf8(good));
  }
  const std::string bad = "12345678\xe9t\xe9";
  CHECK(FindBadUtf8(bad) == bad.data() + 8);
  for (const char* text : {"\xe9", "caf\xe9", "\xc0\xaf", "\xed\xa0\x80", "\xf5\x80\x80\x80",
                           "\xe2\x82", "\x80", "12345678\xff"}) {
    CHECK_FALSE(IsUtf8(text));
  }
}

TEST_CASE("text that is not UTF-8 is named with file and line, whatever becomes of it") {
  const DataFiles files;
  const std::string path = files.Write("a.csv", "x,y\na,1\nb,2\ncaf\xe9,3\n");
  auto spec = CsvSpec(path);
  proto::FeatureSpec* x = AddCategorical(&spec, "x");
  const std::string wanted = "a.csv:4:1: field 1 (\"x\"): wanted text in UTF-8, found \"caf\\351\"";
  CHECK_THAT(LoadError(spec), EndsWith(wanted));
  x->set_hash_buckets(10);
  CHECK_THAT(LoadError(spec), EndsWith(wanted));
  x->clear_hash_buckets();
  x->set_id("hash");
  CHECK_THAT(LoadError(spec), EndsWith(wanted));
  x->clear_id();
  for (const char* value : {"a", "b"}) x->add_vocabulary(value);
  x->set_oov_buckets(1);
  CHECK_THAT(LoadError(spec), EndsWith(wanted));
  x->set_multi_valued(true);
  CHECK_THAT(LoadError(spec), EndsWith(wanted));
  x->clear_multi_valued();
  x->clear_vocabulary();
  x->set_oov_buckets(0);
  x->set_vocabulary_file(files.Write("words.txt", "a\ncaf\xe9\n"));
  CHECK_THAT(LoadError(spec), Contains("words.txt:2:4: wanted UTF-8"));
  // A column that nobody reads may be anything.
  proto::DatasetSpec numbers = CsvSpec(path);
  AddNumeric(&numbers, "y");
  MustLoad(numbers);
  numbers.mutable_split()->set_holdout_per("x");
  CHECK_THAT(LoadError(numbers), EndsWith(wanted));
}

}  // namespace
}  // namespace coxswain::data
