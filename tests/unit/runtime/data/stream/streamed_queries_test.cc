// Queries whose rows are streamed: the same examples as in memory, wherever blocks end.
#include <catch2/catch.hpp>
#include <functional>
#include <string>

#include "absl/strings/str_cat.h"
#include "tests/testing/arrow_specs.h"
#include "tests/testing/same_queries_when_streamed.h"

namespace coxswain::data {
namespace {

using Catch::Matchers::Contains;

// Of 1 to 5 rows, one of 40.
int RowsOf(int query) { return query == 17 ? 40 : query * 7 % 5 + 1; }

// `row` writes the row of a query.
std::string Lines(int queries, const std::function<std::string(int query, int row)>& row) {
  std::string text;
  int n = 0;
  for (int q = 0; q < queries; ++q) {
    for (int i = 0; i < RowsOf(q); ++i) text += row(q, n++);
  }
  return text;
}

std::string CsvRow(int query, int row) {
  std::string tags;
  for (int i = 0; i < row % 5; ++i) absl::StrAppend(&tags, i > 0 ? "|" : "", "t", (row + i) % 7);
  return absl::StrCat("query ", query, ",", row, ",w", row % 13, ",", tags, ",", row % 3, "\n");
}

void Describe(proto::DatasetSpec* spec) {
  AddNumeric(spec, "n")->set_normalization(proto::FeatureSpec::STANDARD);
  AddCategorical(spec, "w");
  proto::FeatureSpec* tags = AddCategorical(spec, "tags");
  tags->set_multi_valued(true);
  tags->set_value_separator("|");
  tags->set_max_values(2);
  spec->mutable_label()->set_column("y");
  spec->mutable_split()->set_validation_fraction(0.2);
  spec->mutable_split()->set_test_fraction(0.1);
}

constexpr char kHeader[] = "q,n,w,tags,y\n";

TEST_CASE("streamed queries: of csv they are those in memory, whatever blocks end in them") {
  const DataFiles files;
  proto::DatasetSpec spec = CsvSpec(files.Write("a.csv", kHeader + Lines(60, CsvRow)));
  // A query of the same name as the last one of the file in front.
  spec.add_paths(
      files.Write("b.csv", absl::StrCat(kHeader, "query 59,1,w1,,0\n", "x,2,w2,t1,1\n")));
  spec.mutable_split()->add_test_paths(files.WriteGzip(
      "c.csv.gz", absl::StrCat(kHeader, "x,2,w2,,1\n", "y,2,w1,,1\ny,3,w2,t1,0\n")));
  spec.set_query("q");
  Describe(&spec);
  spec.mutable_split()->clear_test_fraction();
  CheckQueriesWhenStreamed(files, spec);
}

TEST_CASE("streamed queries: of libsvm, JSON lines and Parquet they are those in memory") {
  const DataFiles files;
  SECTION("libsvm") {
    proto::DatasetSpec spec;
    spec.set_format("libsvm");
    spec.add_paths(files.Write("a.svm", Lines(50, [](int query, int row) {
                                 return absl::StrCat(row % 3, " qid:", query, " ", row % 9 + 1,
                                                     ":0.5 ", row % 9 + 3, ":1\n");
                               })));
    spec.set_query("qid");
    spec.mutable_split()->set_validation_fraction(0.2);
    spec.mutable_split()->set_test_fraction(0.1);
    CheckQueriesWhenStreamed(files, spec);
  }
  SECTION("JSON lines") {
    proto::DatasetSpec spec;
    spec.set_format("jsonl");
    spec.add_paths(files.Write(
        "a.jsonl", Lines(50, [](int query, int row) {
          return absl::StrCat(R"({"q": "q)", query, R"(", "n": )", row, R"(, "w": "w)", row % 13,
                              R"(", "tags": "t1|t2|t)", row % 3, R"(", "y": )", row % 2, "}\n");
        })));
    spec.set_query("q");
    Describe(&spec);
    CheckQueriesWhenStreamed(files, spec);
  }
  SECTION("Parquet") {
    if (!HasArrow()) return;
    const std::string csv = files.Write("a.csv", kHeader + Lines(60, CsvRow));
    // Groups end within queries, and one query has several groups.
    proto::DatasetSpec spec = ParquetSpec(WriteParquet(
        files, csv, "a.parquet", 7, {"q:text", "n:f64", "w:text", "tags:text", "y:i8"}));
    spec.set_query("q");
    Describe(&spec);
    CheckQueriesWhenStreamed(files, spec);
  }
}

TEST_CASE("streamed queries: one that comes again, or does not fit into memory, is an error") {
  const DataFiles files;
  proto::DatasetSpec spec =
      CsvSpec(files.Write("a.csv", absl::StrCat(kHeader, "x,1,w1,,0\ny,2,w1,,1\nx,3,w1,,0\n")));
  spec.set_query("q");
  Describe(&spec);
  CHECK_THAT(LoadError(Streamed(files, spec, 1 << 20)),
             Contains("a.csv:4: wanted the rows of a query together, found \"x\" again"));
  spec.set_paths(0, files.Write("large.csv", [] {
    std::string text = kHeader;
    for (int i = 0; i < 3000; ++i) absl::StrAppend(&text, "x,", i, ",w1,,0\n");
    return text;
  }()));
  CHECK_THAT(LoadError(Streamed(files, spec, 100, 0, /*memory=*/50'000)),
             Contains("smaller queries, which are read as a whole"));
}

}  // namespace
}  // namespace coxswain::data
