// Rows that cannot be read and are passed over: the data is what it is without them, in memory,
// streamed, and whoever makes the index.
#include <algorithm>
#include <catch2/catch.hpp>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "runtime/data/criteo.h"
#include "runtime/data/join_counts.h"
#include "tests/testing/same_when_streamed.h"

namespace coxswain::data {
namespace {

using Catch::Matchers::Contains;
using Catch::Matchers::EndsWith;
using Catch::Matchers::StartsWith;

// The same rows with others among them that cannot be read, of shop,tags,age,day,bought.
struct Rows {
  std::string clean = "shop,tags,age,day,bought\n", dirty = clean;
  int64_t bad = 0;
  std::vector<int> bad_lines;

  void Good(const std::string& row) {
    clean += row + "\n";
    dirty += row + "\n";
  }
  void Bad(const std::string& row) {
    dirty += row + "\n";
    // On its last line.
    bad_lines.push_back(static_cast<int>(std::count(dirty.begin(), dirty.end(), '\n')));
    ++bad;
  }
};

// `dates`: the job reads them, too.
Rows SomeRows(int from, int to, bool dates = false) {
  const char* const bad_rows[] = {
      dates ? "sBad,tBad,20,someday,1" : "sBad",
      "s1,t1,20,3",                          // a field is missing
      "s1,t1,20,3,1,7",                      // or there is one more
      "sBad,tBad,old,3,1",                   // no number, behind values that are
      "sBad,tBad,20,3,often",                // the last one is wrong
      "\"sBad\"x,t1,20,3,1",                 // a misplaced quote
      "\"sBad, of\ntwo lines\",t1,old,3,1",  // good quotes, and no number
      "s\xff,t1,20,3,1",                     // no text
      "sBad,tBad,20,3,2",                    // no label
  };
  Rows rows;
  for (int i = from; i < to; ++i) {
    if (i % 7 == 0) rows.Bad(bad_rows[static_cast<size_t>(i / 7) % std::size(bad_rows)]);
    if (i % 29 == 3) {
      for (const char* bad : bad_rows) rows.Bad(bad);
    }
    if (i % 10 == 4) {
      rows.clean += "\n";
      rows.dirty += "\n";
    }
    const std::string shop = absl::StrCat("s", (i * 7) % 13);
    rows.Good(absl::StrCat(i % 5 == 0 ? absl::StrCat("\"", shop, "\n,\"") : shop, ",t", (i * 5) % 9,
                           "|t", i % 4, ",", 20 + (i * 11) % 50, ",2024-05-", 10 + i % 17, ",",
                           i % 2));
  }
  rows.Bad("the end");
  return rows;
}

proto::DatasetSpec ShopSpec(const std::string& path) {
  proto::DatasetSpec spec = CsvSpec(path);
  spec.mutable_csv()->set_quoting(true);
  AddCategorical(&spec, "shop")->set_oov_buckets(2);
  proto::FeatureSpec* const tags = AddCategorical(&spec, "tags");
  tags->set_multi_valued(true);
  tags->set_value_separator("|");
  AddNumeric(&spec, "age")->set_normalization(proto::FeatureSpec::STANDARD);
  spec.mutable_label()->set_column("bought");
  spec.mutable_label()->set_bounded(true);
  spec.mutable_label()->set_high(1);
  return spec;
}

// All that the rows of the two are: of files that have only some of the same lines.
void CheckSameRows(proto::DatasetSpec found, proto::DatasetSpec wanted) {
  for (proto::DatasetSpec* spec : {&found, &wanted}) {
    spec->set_seed(3);
    spec->set_shuffle(true);
    spec->set_example_ids(true);
  }
  const auto a = MustLoad(found), b = MustLoad(wanted);
  for (const Part part : {Part::kTraining, Part::kValidation, Part::kTest}) {
    REQUIRE(a->num_examples(part) == b->num_examples(part));
    if (a->num_examples(part) == 0) continue;
    CHECK(Bytes(*a, AllOf(*a, part)) == Bytes(*b, AllOf(*b, part)));
  }
  CHECK(a->trained_rows().SerializeAsString() == b->trained_rows().SerializeAsString());
  for (const proto::FeatureSpec& feature : found.features()) {
    CHECK(a->training_counts(feature.name()) == b->training_counts(feature.name()));
    const auto *of_a = a->vocabulary(feature.name()), *of_b = b->vocabulary(feature.name());
    REQUIRE((of_a == nullptr) == (of_b == nullptr));
    if (of_a != nullptr) CHECK(*of_a == *of_b);
  }
}

TEST_CASE("bad rows: the data is what it is without them, in memory and streamed") {
  const DataFiles files;
  const std::string split = GENERATE("drawn", "files", "by", "held out", "history");
  CAPTURE(split);
  const bool dates = split == "by" || split == "history";
  const Rows rows = SomeRows(0, 200, dates), test = SomeRows(200, 260);
  auto dirty = ShopSpec(files.Write("dirty.csv", rows.dirty));
  auto clean = ShopSpec(files.Write("clean.csv", rows.clean));
  dirty.set_max_bad_rows(rows.bad + test.bad);
  for (auto* spec : {&dirty, &clean}) {
    if (split == "drawn") spec->mutable_split()->set_test_fraction(0.2);
    if (split == "files") {
      spec->mutable_split()->add_test_paths(
          files.Write(spec == &dirty ? "test.csv" : "clean_test.csv",
                      spec == &dirty ? test.dirty : test.clean));
    }
    if (split == "by") {
      spec->mutable_split()->set_by("day");
      spec->mutable_split()->set_test_fraction(0.2);
      spec->mutable_split()->set_validation_fraction(0.1);
    }
    if (split == "held out") {
      spec->mutable_split()->set_holdout_per("shop");
      spec->mutable_split()->set_holdout_min(3);
    }
    if (split == "history") {
      AddCategorical(spec, "had")->set_history_of("shop");
      spec->mutable_features(3)->set_group_by("age");
      spec->mutable_features(3)->set_by("day");
      spec->mutable_features(3)->clear_column();
    }
  }
  CheckSameRows(dirty, clean);
  CheckSameWhenStreamed(files, dirty);
  const auto data = MustLoad(dirty);
  const int64_t bad = rows.bad + (split == "files" ? test.bad : 0);
  CHECK(data->bad_rows().count == bad);
  const auto streamed = MustLoad(Streamed(files, dirty, 100));
  CHECK(streamed->bad_rows().count == bad);
  CHECK(streamed->bad_rows().first == data->bad_rows().first);
  REQUIRE(data->bad_rows().first.size() == 10);
  for (size_t i = 0; i < 10; ++i) {
    CHECK_THAT(data->bad_rows().first[i],
               StartsWith(absl::StrCat(files.Path("dirty.csv"), ":", rows.bad_lines[i])));
  }
}

TEST_CASE("bad rows: one more than may be is an error that says how many there are") {
  const DataFiles files;
  const std::string text =
      "shop,tags,age,day,bought\ns1,t1,1,3,0\ns1,t1,old,3,0\ns1\n"
      "s2,t1,2,3,1\ns3,t1,1,3,7\ns1,t1,1,3,1\n";
  auto spec = ShopSpec(files.Write("a.csv", text));
  CHECK_THAT(LoadError(spec), EndsWith("a.csv:3:7: field 3 (\"age\"): wanted a finite number "
                                       "(f32), found \"old\""));
  spec.set_max_bad_rows(3);
  CHECK(MustLoad(spec)->num_examples(Part::kTraining) == 3);
  CHECK(MustLoad(Streamed(files, spec, 1))->bad_rows().count == 3);
  spec.set_max_bad_rows(2);
  const std::string wanted = "3 rows cannot be read: wanted at most 2 (dataset.max_bad_rows)";
  CHECK_THAT(LoadError(spec), Contains("a.csv:6:11: field 5 (\"bought\")") && EndsWith(wanted));
  // What was indexed with another bound is no excuse.
  CHECK_THAT(LoadError(Streamed(files, spec, 1)), Contains("a.csv:6:11:") && EndsWith(wanted));
  for (const int workers : {1, 3}) {
    PlayedReaders readers(workers);
    const auto index = IndexByWorkers(CheckSpec(Streamed(files, spec, 1)).value(), 20, &readers);
    CHECK_THAT(std::string(index.status().message()), Contains("a.csv:6:11:") && EndsWith(wanted));
  }
  // All files count together.
  spec.mutable_split()->add_test_paths(files.Write("b.csv", text));
  spec.set_max_bad_rows(5);
  CHECK_THAT(LoadError(spec), Contains("b.csv:6:11:") && Contains("6 rows cannot be read"));
  CHECK_THAT(LoadError(Streamed(files, spec, 1)),
             Contains("b.csv:6:11:") && Contains("6 rows cannot be read"));
}

TEST_CASE("bad rows: the number that may be is no part of what the data is") {
  const DataFiles files;
  const Rows rows = SomeRows(0, 50);
  auto spec = ShopSpec(files.Write("a.csv", rows.dirty));
  spec.set_max_bad_rows(rows.bad);
  auto more = spec;
  more.set_max_bad_rows(1000);
  CHECK(MustLoad(spec)->fingerprint() == MustLoad(more)->fingerprint());
  CHECK(MustLoad(Streamed(files, spec, 100))->fingerprint() ==
        MustLoad(Streamed(files, more, 100))->fingerprint());
  // Where there is no bad row, none is known of either.
  auto clean = ShopSpec(files.Write("b.csv", rows.clean));
  const uint64_t before = MustLoad(clean)->fingerprint();
  clean.set_max_bad_rows(7);
  CHECK(MustLoad(clean)->fingerprint() == before);
}

TEST_CASE("bad rows: a quote that is closed on a later line, or never, ends the reading") {
  const DataFiles files;
  for (const char* rows : {"s1,t1,1,3,0\n\"s1,t1,2,3,0\ns2,\"t1\",1,3,0\n",
                           "s1,t1,1,3,0\n\"s1,t1,2,3,0\ns2,t1,1,3,0\n"}) {
    auto spec = ShopSpec(files.Write("a.csv", absl::StrCat("shop,tags,age,day,bought\n", rows)));
    spec.set_max_bad_rows(100);
    const std::string wrong = LoadError(spec);
    CHECK_THAT(wrong, Contains("a.csv:") && Contains("closing quote"));
    CHECK_FALSE(absl::StrContains(wrong, "max_bad_rows"));
    CHECK_THAT(LoadError(Streamed(files, spec, 1)), Contains("closing quote"));
  }
}

TEST_CASE("bad rows: files of nothing else, and lines that end in CRLF") {
  const DataFiles files;
  const Rows rows = SomeRows(0, 40);
  std::string crlf = rows.dirty;
  for (size_t at = 0; (at = crlf.find('\n', at)) != std::string::npos; at += 2) {
    crlf.insert(at, "\r");
  }
  auto spec = ShopSpec(files.Write("a.csv", "shop,tags,age,day,bought\nnone\nof,these\n"));
  spec.add_paths(files.Write("b.csv", crlf));
  spec.add_paths(files.Write("c.csv", "shop,tags,age,day,bought\nnone"));
  spec.add_paths(files.WriteGzip("d.csv.gz", rows.dirty));
  spec.set_max_bad_rows(1000);
  CheckSameWhenStreamed(files, spec);
  const auto data = MustLoad(Streamed(files, spec, 100));
  CHECK(data->num_examples(Part::kTraining) == 80);
  CHECK(data->bad_rows().count == 2 * rows.bad + 3);
  CHECK_THAT(data->bad_rows().first[0], Contains("a.csv:2:"));
  spec.clear_paths();
  spec.add_paths(files.Path("a.csv"));
  CHECK_THAT(LoadError(spec), Contains("wanted at least one row"));
}

TEST_CASE("bad rows: a value that is in no vocabulary is none of them") {
  const DataFiles files;
  auto spec = CsvSpec(files.Write("a.csv", "c,n\na,1\nb,2\nz,x\n"));
  AddNumeric(&spec, "n");
  AddCategorical(&spec, "c")->add_vocabulary("a");
  spec.set_max_bad_rows(10);
  CHECK_THAT(LoadError(spec), Contains("a.csv:3:1") && Contains("\"b\""));
  spec.mutable_features(1)->add_vocabulary("b");
  CHECK(MustLoad(spec)->num_examples(Part::kTraining) == 2);
  CHECK(MustLoad(spec)->training_counts("c") == std::vector<int64_t>{1, 1});
}

TEST_CASE("bad rows: combinations, ranges and joined columns have nothing of them") {
  const DataFiles files;
  const Rows rows = SomeRows(0, 100);
  const std::string shops =
      files.Write("shops.csv", "id,town\ns0,A\ns1,B\ns2,A\ns3,C\ns4,A\ns5,B\n");
  const auto made = [&](const std::string& path) {
    auto spec = ShopSpec(path);
    proto::FeatureSpec* const range = AddCategorical(&spec, "range");
    range->set_column("age");
    range->add_boundaries(30);
    proto::FeatureSpec* const both = AddCategorical(&spec, "both");
    both->add_crossed("shop");
    both->add_crossed("range");
    both->set_hash_buckets(50);
    AddCategorical(&spec, "town")->set_oov_buckets(1);
    proto::JoinSpec* const join = spec.add_joins();
    join->set_path(shops);
    join->mutable_csv()->set_header(true);
    join->set_left_on("shop");
    join->set_right_on("id");
    return spec;
  };
  auto dirty = made(files.Write("dirty.csv", rows.dirty));
  dirty.set_max_bad_rows(rows.bad);
  CheckSameRows(dirty, made(files.Write("clean.csv", rows.clean)));
  CheckSameWhenStreamed(files, dirty);
  // Rows are counted as they are read.
  CHECK(CountJoins(dirty).value().rows == 100);
}

TEST_CASE("bad rows: criteo's logs may have some, too") {
  const DataFiles files;
  const auto row = [](const std::string& first, const std::string& word) {
    std::string line = first;
    for (int i = 0; i < kCriteoNumbers; ++i) absl::StrAppend(&line, "\t", i);
    for (int i = 0; i < kCriteoWords; ++i) absl::StrAppend(&line, "\t", word);
    return line + "\n";
  };
  std::string clean, dirty;
  for (int i = 0; i < 60; ++i) {
    const std::string good = row(absl::StrCat(i % 2), absl::StrCat("ab", i % 10));
    clean += good;
    absl::StrAppend(&dirty, good, i % 9 == 0 ? row("2", "ab") : "", i % 9 == 4 ? "cut\t1\n" : "",
                    i % 9 == 5 ? row("1", "no hex") : "");
  }
  proto::DatasetSpec spec;
  spec.set_format("criteo");
  spec.mutable_split()->set_test_fraction(0.1);
  spec.add_paths(files.Write("clean.txt", clean));
  auto with = spec;
  with.set_paths(0, files.Write("dirty.txt", dirty));
  with.set_max_bad_rows(21);
  CheckSameRows(with, spec);
  CheckSameWhenStreamed(files, with);
  CHECK(MustLoad(with)->bad_rows().count == 21);
}

TEST_CASE("bad rows: what they cannot be passed over in is refused") {
  const DataFiles files;
  auto spec = ShopSpec(files.Write("a.csv", "shop,tags,age,day,bought\ns1,t1,1,3,0\n"));
  const auto refused = [](const proto::DatasetSpec& one) {
    return std::string(CheckSpec(one).status().message());
  };
  spec.set_max_bad_rows(-1);
  CHECK_THAT(refused(spec), Contains("dataset.max_bad_rows: wanted 0 to 1000000, found -1"));
  spec.set_max_bad_rows(1);
  spec.set_query("shop");
  CHECK_THAT(refused(spec), Contains("dataset.max_bad_rows: with dataset.query"));
  spec.clear_query();
  spec.set_format("jsonl");
  CHECK_THAT(refused(spec), Contains("dataset.max_bad_rows") && Contains("found jsonl"));
}

}  // namespace
}  // namespace coxswain::data
