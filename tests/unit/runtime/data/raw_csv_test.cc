// CSV files as people find them: lines before the header, comments, blanks, marks for what is
// missing.
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "runtime/data/csv_reader.h"
#include "runtime/data/hash.h"
#include "tests/testing/same_when_streamed.h"

namespace coxswain::data {
namespace {

using Catch::Matchers::Contains;
using Catch::Matchers::EndsWith;
using Rows = std::vector<std::vector<std::string>>;

absl::StatusOr<Rows> ReadAll(const std::string& path, const CsvFormat& format) {
  auto reader = CsvReader::Open(path, format);
  if (!reader.ok()) return reader.status();
  Rows rows;
  while (true) {
    const auto found = (*reader)->Next();
    if (!found.ok()) return found.status();
    if (!*found) return rows;
    rows.emplace_back();
    for (absl::string_view field : (*reader)->fields()) rows.back().emplace_back(field);
  }
}

TEST_CASE("raw csv: the first lines can be skipped, before a header and before rows") {
  DataFiles files;
  const std::string iris = files.Write("iris.csv", "120,4,setosa\r\n5.1,3.5,0\n4.9,3.0,1\n");
  CsvFormat format;
  format.columns = {"length", "width", "species"};
  format.skip_lines = 1;
  CHECK(*ReadAll(iris, format) == Rows{{"5.1", "3.5", "0"}, {"4.9", "3.0", "1"}});
  format.columns.clear();
  format.header = true;
  format.quoting = true;
  format.skip_lines = 3;
  // What is skipped is not looked at: a quote there opens nothing.
  const std::string report = files.Write("report.csv", "a \"report\n\n\"of, May\nx,y\n1,2\n");
  CHECK(*ReadAll(report, format) == Rows{{"1", "2"}});
  format.skip_lines = 9;
  CHECK_THAT(std::string(ReadAll(report, format).status().message()),
             Contains("wanted a header line, found an empty file"));
  format.skip_lines = 4;
  const std::string wrong = files.Write("wrong.csv", "1\n2\n3\n4\nx,y\n5,6\n7\n");
  CHECK_THAT(std::string(ReadAll(wrong, format).status().message()),
             EndsWith("wrong.csv:7:1: wanted 2 fields (x, y), found 1"));
}

TEST_CASE("raw csv: a first line longer than a read block is skipped whole") {
  DataFiles files;
  CsvFormat format;
  format.header = true;
  format.skip_lines = 1;
  const std::string path = files.Write("a.csv", std::string(1 << 20, 'z') + "\nx,y\n1,2\n");
  CHECK(*ReadAll(path, format) == Rows{{"1", "2"}});
}

TEST_CASE("raw csv: a line that begins with the comment is none, but within quotes") {
  DataFiles files;
  CsvFormat format;
  format.header = true;
  format.quoting = true;
  format.comment = "//";
  const std::string path =
      files.Write("a.csv", "// who \"knows\nx,y\n//1,2\n\"a\n// b\",2\n/,//\n// the end");
  CHECK(*ReadAll(path, format) == Rows{{"a\n// b", "2"}, {"/", "//"}});
  format.comment = "";
  CHECK_FALSE(ReadAll(path, format).ok());
}

TEST_CASE("raw csv: blanks around fields are trimmed on demand, those within quotes never") {
  DataFiles files;
  CsvFormat format;
  format.header = true;
  format.quoting = true;
  const std::string path = files.Write(
      "a.csv", "x , y,\tz\n 1, State-gov,2 \r\n  \t \n \" a, b \" ,\"c\"  , d e\n , ,\" \"\"\"");
  const std::string plain = files.Write("b.csv", "x,y,z\n 1, State-gov,2 \r\n");
  CHECK(*ReadAll(plain, format) == Rows{{" 1", " State-gov", "2 "}});  // as ever
  format.trim = true;
  CHECK(*ReadAll(path, format) ==
        Rows{{"1", "State-gov", "2"}, {" a, b ", "c", "d e"}, {"", "", " \""}});
  CHECK((*CsvReader::Open(path, format))->columns() == std::vector<std::string>{"x", "y", "z"});
  // A separator that is blank is no blank around a field.
  format.separator = "\t";
  const std::string tabs = files.Write("a.tsv", "x\ty\tz\n a\t\t b \n\"c\" \t \"d\"\t\n");
  CHECK(*ReadAll(tabs, format) == Rows{{"a", "", "b"}, {"c", "d", ""}});
}

TEST_CASE("raw csv: trimmed fields keep their places in messages") {
  DataFiles files;
  CsvFormat format;
  format.header = true;
  format.trim = true;
  format.quoting = true;
  auto reader = CsvReader::Open(files.Write("a.csv", "x,y\n1,  oops\n\"1\" , oops\n"), format);
  REQUIRE(reader.ok());
  REQUIRE(*(*reader)->Next());
  CHECK_THAT(std::string((*reader)->FieldError(1, "a number").message()), Contains("a.csv:2:5: "));
  REQUIRE(*(*reader)->Next());
  CHECK_THAT(std::string((*reader)->FieldError(1, "a number").message()), Contains("a.csv:3:7: "));
}

TEST_CASE("raw csv: marks of missing values are read as empty fields") {
  DataFiles files;
  auto spec = CsvSpec(files.Write("a.csv", "n,c,l,y\n1,a,u|v,1\n?,NA,?,0\n3,?!,v|?,1\n"));
  spec.mutable_csv()->add_missing_values("?");
  spec.mutable_csv()->add_missing_values("NA");
  AddNumeric(&spec, "n")->set_missing_value(-5);
  AddCategorical(&spec, "c");
  proto::FeatureSpec* list = AddCategorical(&spec, "l");
  list->set_multi_valued(true);
  list->set_value_separator("|");
  spec.mutable_label()->set_column("y");
  const auto data = MustLoad(spec);
  const Ticket all = AllOf(*data, Part::kTraining);
  CHECK(Values<float>(*data, all, "n") == std::vector<float>{1, -5, 3});
  CHECK(*data->vocabulary("c") == std::vector<std::string>{"a", "", "?!"});
  CHECK(Values<int32_t>(*data, all, "l.offsets") == std::vector<int32_t>{0, 2, 2, 4});
  // As a label nothing is known of the row; it would count as a negative one.
  spec.set_paths(0, files.Write("b.csv", "n,c,l,y\n1,a,u,1\n2,b,v,?\n"));
  CHECK_THAT(LoadError(spec),
             EndsWith("b.csv:3:7: field 4 (\"y\"): wanted a finite number (f32), found \"?\""));
  spec.mutable_label()->add_positive_values("1");
  CHECK_THAT(LoadError(spec), EndsWith("wanted a label, found \"?\""));
  for (const char* empty : {"", " "}) {
    spec.set_paths(0, files.Write("b.csv", absl::StrCat("n,c,l,y\n1,a,u,1\n2,b,v,", empty, "\n")));
    CHECK_THAT(LoadError(spec), EndsWith(absl::StrCat("wanted a label, found \"", empty, "\"")));
  }
  spec.mutable_label()->add_positive_values(" ");  // it has a meaning where the job says so
  const auto blank = MustLoad(spec);
  CHECK(Values<float>(*blank, AllOf(*blank, Part::kTraining), "label") == std::vector<float>{1, 1});
}

TEST_CASE("raw csv: text in UTF-16 without a mark is refused by what it is") {
  DataFiles files;
  const std::string little("x\0,\0y\0\n\0", 8), big("\0x\0,\0y\0\n", 8);
  CsvFormat format;
  format.header = true;
  CHECK_THAT(std::string(ReadAll(files.Write("a.csv", little), format).status().message()),
             EndsWith("`iconv -f UTF-16LE -t UTF-8` converts it"));
  CHECK_THAT(std::string(ReadAll(files.Write("b.csv", big), format).status().message()),
             EndsWith("`iconv -f UTF-16BE -t UTF-8` converts it"));
}

// Lines as in UCI's Adult: a remark before the test rows, ", " between fields, "?" for what is not
// known, a full stop behind the labels of the test file, and an empty line at the end.
std::string AdultLines(int from, int to, bool test) {
  const char* const work[] = {"Private", "State-gov", "?"};
  std::string text = test ? "|1x3 Cross validator\n" : "";
  for (int i = from; i < to; ++i) {
    const uint64_t h = Mix64(static_cast<uint64_t>(i));
    absl::StrAppend(&text, 20 + h % 50, ", ", work[h % 3], ", ", 1000 + h % 77, ", ",
                    h % 5 < 2 ? ">50K" : "<=50K", test ? ".\n" : "\n");
  }
  return text + "\n";
}

TEST_CASE("raw csv: the lines of UCI's Adult are read as they are, streamed too") {
  DataFiles files;
  auto spec = CsvSpec(files.Write("adult.data", AdultLines(0, 120, false)));
  spec.mutable_split()->add_test_paths(files.Write("adult.test", AdultLines(200, 240, true)));
  proto::CsvOptions* csv = spec.mutable_csv();
  csv->set_header(false);
  for (const char* column : {"age", "workclass", "fnlwgt", "income"}) csv->add_columns(column);
  csv->set_trim(true);
  csv->set_comment("|");
  csv->set_quoting(true);
  csv->add_missing_values("?");
  AddNumeric(&spec, "age");
  AddCategorical(&spec, "workclass")->set_oov_buckets(1);
  spec.mutable_label()->set_column("income");
  spec.mutable_label()->add_positive_values(">50K");
  spec.mutable_label()->add_positive_values(">50K.");
  const auto data = MustLoad(spec);
  CHECK(data->num_examples(Part::kTraining) == 120);
  CHECK(data->num_examples(Part::kTest) == 40);
  CHECK(data->vocabulary("workclass")->size() == 3);
  CHECK(data->Lookup("workclass", "").has_value());
  CHECK(data->label_summary(Part::kTest).sum > 0);
  CHECK(*data->PlaceOf({Part::kTest, 0, 0, 1}) == files.Path("adult.test:2"));
  CheckSameWhenStreamed(files, spec);
}

TEST_CASE("raw csv: skipped lines and comments are where they were when blocks are read") {
  DataFiles files;
  std::string text = "made by hand\n# twice\n n ; y \n";
  for (int i = 0; i < 60; ++i) {
    const uint64_t h = Mix64(static_cast<uint64_t>(i));
    absl::StrAppend(&text, i % 4 == 0 ? "# a \"comment\n" : "", " ", h % 100, " ; \"a\n# ", h % 3,
                    "\" \n");
  }
  auto spec = CsvSpec(files.Write("a.csv", text));
  spec.mutable_csv()->set_separator(";");
  spec.mutable_csv()->set_skip_lines(1);
  spec.mutable_csv()->set_comment("#");
  spec.mutable_csv()->set_trim(true);
  spec.mutable_csv()->set_quoting(true);
  AddNumeric(&spec, "n");
  AddCategorical(&spec, "y")->set_oov_buckets(1);
  spec.mutable_split()->set_validation_fraction(0.2);
  spec.mutable_split()->set_test_fraction(0.1);
  CheckSameWhenStreamed(files, spec);
}

TEST_CASE("raw csv: data sets that say none of this have the fingerprint that they had") {
  DataFiles files;
  auto spec = CsvSpec(files.Write("a.csv", "n,y\n1,0\n2,1\n"));
  AddNumeric(&spec, "n");
  const uint64_t before = MustLoad(spec)->fingerprint();
  spec.mutable_csv()->set_skip_lines(0);
  spec.mutable_csv()->set_trim(false);
  spec.mutable_csv()->set_comment("");
  CHECK(MustLoad(spec)->fingerprint() == before);
  spec.mutable_csv()->set_trim(true);
  CHECK(MustLoad(spec)->fingerprint() != before);
}

}  // namespace
}  // namespace coxswain::data
