// What is streamed is what is in memory: the same parts, vocabularies, statistics and examples.
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "runtime/data/criteo.h"
#include "runtime/data/hash.h"
#include "tests/testing/same_when_streamed.h"

namespace coxswain::data {
namespace {

using proto::FeatureSpec;

TEST_CASE("streaming: csv with quoted line ends, lists, weights and all kinds of features") {
  DataFiles files;
  const auto text = [](int from, int to, const char* end) {
    std::string csv = absl::StrCat("\xef\xbb\xbfn,c,l,w,u,y", end);
    for (int i = from; i < to; ++i) {
      const uint64_t h = Mix64(static_cast<uint64_t>(i));
      absl::StrAppend(&csv, i % 5 == 0 ? "" : absl::StrCat(h % 1000, ".5"), ",", "\"c", h % 7,
                      "\n\"\",", h % 3, "\",");
      for (uint64_t v = 0; v < h % 5; ++v)
        absl::StrAppend(&csv, v > 0 ? "|" : "", "v", (h + v) % 13);
      absl::StrAppend(&csv, ",a:0.5 b", h % 9, " c:2", ",u", h % 50, ",", h % 2, end);
      if (i % 17 == 0) csv += end;  // blank lines
    }
    return csv;
  };
  auto spec = CsvSpec(files.Write("a.csv", text(0, 90, "\n")));
  spec.add_paths(files.Write("b.csv", text(90, 130, "\r\n")));
  spec.mutable_csv()->set_quoting(true);
  AddNumeric(&spec, "n")->set_normalization(FeatureSpec::MIN_MAX);
  FeatureSpec* twice = AddNumeric(&spec, "n2");
  twice->set_column("n");
  twice->set_missing_value(-1);
  AddCategorical(&spec, "c")->set_oov_buckets(1);
  FeatureSpec* list = AddCategorical(&spec, "l");
  list->set_multi_valued(true);
  list->set_value_separator("|");
  list->set_max_values(2);
  list->set_min_count(5);
  FeatureSpec* weighted = AddCategorical(&spec, "w");
  weighted->set_multi_valued(true);
  weighted->set_weight_separator(":");
  AddCategorical(&spec, "u")->set_oov_buckets(3);
  spec.mutable_features()->rbegin()->set_max_size(10);
  FeatureSpec* hashed = AddCategorical(&spec, "h");
  hashed->set_column("u");
  hashed->set_id("hash");
  spec.mutable_label()->set_column("y");
  spec.mutable_split()->set_validation_fraction(0.2);
  SECTION("parts drawn from the rows") { spec.mutable_split()->set_test_fraction(0.1); }
  SECTION("a test file of its own") {
    spec.mutable_split()->add_test_paths(files.Write("t.csv", text(200, 230, "\n")));
  }
  // Of a list that is sampled, what is drawn depends on the position in the order.
  spec.mutable_features(3)->set_max_values(0);
  CheckSameWhenStreamed(files, spec);
}

TEST_CASE("streaming: in the order of the files samples of long lists are the same") {
  DataFiles files;
  std::string text = "tags\n";
  for (int row = 0; row < 50; ++row) {
    for (int i = 0; i < 30; ++i) absl::StrAppend(&text, i == 0 ? "" : " ", i);
    text += "\n";
  }
  auto spec = CsvSpec(files.Write("a.csv", text));
  FeatureSpec* tags = AddCategorical(&spec, "tags");
  tags->set_multi_valued(true);
  tags->set_max_values(10);
  const auto whole = MustLoad(spec);
  const auto streamed = MustLoad(Streamed(files, spec, 100));
  const Ticket ticket{Part::kTraining, 3, 10, 33};
  CHECK(Bytes(*streamed, ticket) == Bytes(*whole, ticket));
}

TEST_CASE("streaming: numbers are normalized by the same bits as in memory") {
  DataFiles files;
  std::string text = "t\n";
  for (int i = 0; i < 1000; ++i) {
    absl::StrAppend(&text, 964982703 + Mix64(static_cast<uint64_t>(i)) % 1000, "\n");
  }
  auto spec = CsvSpec(files.Write("a.csv", text));
  AddNumeric(&spec, "t")->set_normalization(FeatureSpec::STANDARD);
  const auto whole = MustLoad(spec);
  const auto streamed = MustLoad(Streamed(files, spec, 100));
  CHECK(streamed->transform("t")->shift == whole->transform("t")->shift);
  CHECK(streamed->transform("t")->scale == whole->transform("t")->scale);
  CheckSameIndex(Streamed(files, spec, 100));
}

TEST_CASE("streaming: criteo's lines") {
  DataFiles files;
  std::string text;
  for (int i = 0; i < 60; ++i) {
    const uint64_t h = Mix64(static_cast<uint64_t>(i));
    absl::StrAppend(&text, h % 2);
    for (int n = 0; n < kCriteoNumbers; ++n) {
      absl::StrAppend(&text, "\t", n == 3 ? "" : absl::StrCat(h % (10 + n)));
    }
    for (int w = 0; w < kCriteoWords; ++w) {
      absl::StrAppend(&text, "\t", w == 5 ? "" : absl::StrCat(absl::Hex(h % (100 + w))));
    }
    text += "\n";
  }
  proto::DatasetSpec spec;
  spec.set_format(kCriteoFormat);
  spec.add_paths(files.Write("a.tsv", text));
  spec.mutable_split()->set_test_fraction(0.2);
  CheckSameWhenStreamed(files, spec);
}

TEST_CASE("streaming: libsvm's lines, with comments, and indices that training has not") {
  DataFiles files;
  std::string text;
  for (int i = 0; i < 80; ++i) {
    const uint64_t h = Mix64(static_cast<uint64_t>(i));
    absl::StrAppend(&text, h % 2, " ", 1 + h % 4, ":1 ", 6 + h % 30, ":", h % 10, ".25",
                    i % 9 == 0 ? " # a comment\n\n" : "\n");
  }
  proto::DatasetSpec spec;
  spec.set_format("libsvm");
  spec.add_paths(files.Write("a.svm", text));
  spec.mutable_split()->set_validation_fraction(0.5);
  SECTION("indices as the files have them") {}
  SECTION("a number of them that is given") { spec.set_libsvm_features(100); }
  CheckSameWhenStreamed(files, spec);
}

TEST_CASE("streaming: with memory for a few blocks only every example comes once") {
  DataFiles files;
  std::string csv = "id,x\n";
  for (int i = 0; i < 20000; ++i) absl::StrAppend(&csv, "u", i % 97, ",", i % 31, "\n");
  auto spec = CsvSpec(files.Write("a.csv", csv));
  AddCategorical(&spec, "id");
  AddNumeric(&spec, "x");
  spec.set_shuffle(true);
  spec.set_example_ids(true);
  const auto whole = MustLoad(spec);
  // Memory for a few blocks only: each is read several times.
  const auto streamed = MustLoad(Streamed(files, spec, 8192, 2, 90 << 10));
  CHECK(Examples(*streamed, Part::kTraining, 0, 512) == Examples(*whole, Part::kTraining, 0, 512));
}

}  // namespace
}  // namespace coxswain::data
