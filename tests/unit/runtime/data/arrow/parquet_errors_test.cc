// What a user is told of a Parquet file that is not what the job takes it for.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "absl/strings/str_cat.h"
#include "tests/testing/arrow_specs.h"
#include "tests/testing/streamed_specs.h"

namespace coxswain::data {
namespace {

using Catch::Matchers::Contains;
using Catch::Matchers::EndsWith;
using proto::FeatureSpec;

std::string Csv(int rows) {
  std::string text = "n,c,l,y\n";
  for (int i = 0; i < rows; ++i) {
    absl::StrAppend(&text, i, ".5,c", i % 9, ",a|b", i % 5, ",", i % 2, "\n");
  }
  return text;
}
const std::vector<std::string> kTypes = {"n:f64", "c:text", "l:texts", "y:i32"};

TEST_CASE("parquet: a value that does not fit is told by row group, row and column", "[arrow]") {
  if (!HasArrow()) return;
  DataFiles files;
  const std::string csv = files.Write("a.csv", "x,y,s,t\n1,1,7,a\n2,1,8,b\n3,0,x y,c\n4,,9,d\n");
  const std::string path =
      WriteParquet(files, csv, "a.parquet", 3, {"x:f64", "y:i32", "s:text", "t:struct"});
  auto spec = ParquetSpec(path);
  AddNumeric(&spec, "x");
  SECTION("a text that is no number") {
    AddNumeric(&spec, "s");
    const std::string error =
        "a.parquet: row group 0, row 3, column \"s\": wanted a finite number (f32), found \"x y\"";
    CHECK_THAT(LoadError(spec), EndsWith(error));
    CHECK_THAT(LoadError(Streamed(files, spec, 1)), EndsWith(error));
  }
  SECTION("a label that is missing") {
    spec.mutable_label()->set_column("y");
    CHECK_THAT(LoadError(spec), EndsWith("a.parquet: row group 1, row 1, column \"y\": wanted a "
                                         "finite number (f32), found null"));
  }
  SECTION("a label beyond what the loss takes") {
    spec.mutable_label()->set_column("x");
    spec.mutable_label()->set_bounded(true);
    spec.mutable_label()->set_high(2);
    CHECK_THAT(LoadError(spec),
               Contains("row group 0, row 3, column \"x\": wanted a label from 0 "
                        "to 2, as the loss wants it (label.positive_values names texts), found 3"));
  }
  SECTION("an id that is no integer") {
    AddCategorical(&spec, "t2")->set_column("s");
    spec.mutable_features(1)->set_id("raw");
    CHECK_THAT(LoadError(spec), Contains("column \"s\": wanted an integer of 64 bits"));
  }
  SECTION("a column of another type") {
    AddCategorical(&spec, "t");
    CHECK_THAT(LoadError(spec),
               Contains("a.parquet: column \"t\": wanted numbers, texts, times, or lists of them, "
                        "found struct<a: int32>"));
  }
  SECTION("no such column") {
    AddCategorical(&spec, "tt");
    CHECK_THAT(LoadError(spec), Contains("a.parquet: wanted a column \"tt\", found none of that "
                                         "name; did you mean \"t\"? there are: x, y, s, t"));
  }
}

TEST_CASE("parquet: a list for a feature of one value is an error that says what to do",
          "[arrow]") {
  if (!HasArrow()) return;
  DataFiles files;
  auto spec = ParquetSpec(
      WriteParquet(files, files.Write("a.csv", "l\na|b\n"), "a.parquet", 3, {"l:texts"}));
  AddCategorical(&spec, "l");
  CHECK_THAT(LoadError(spec), Contains("column \"l\": wanted one value a row (a feature of several "
                                       "has multi_valued: true), found list<"));
}

TEST_CASE("parquet: what is no whole Parquet file is an error", "[arrow]") {
  if (!HasArrow()) return;
  DataFiles files;
  const std::string path =
      WriteParquet(files, files.Write("a.csv", Csv(300)), "a.parquet", 100, kTypes);
  const auto size = std::filesystem::file_size(path);
  auto spec = ParquetSpec(path);
  AddNumeric(&spec, "n");
  for (const auto bytes : {size - 1, size / 2, uintmax_t{8}, uintmax_t{1}, uintmax_t{0}}) {
    INFO(bytes << " bytes of " << size);
    std::filesystem::resize_file(path, bytes);
    CHECK_THAT(LoadError(spec), Contains("a.parquet: wanted a Parquet file, found " +
                                         std::to_string(bytes) + " bytes"));
  }
  files.Write("a.parquet", Csv(30));
  CHECK_THAT(LoadError(spec), Contains("a.parquet: wanted a Parquet file"));
  spec.set_paths(0, files.Path("none.parquet"));
  CHECK_THAT(LoadError(spec), Contains("none.parquet") && Contains("No such file"));
}

std::string Content(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// The place in the file of the first such number.
size_t PlaceOf(const std::string& bytes, double number) {
  char wanted[sizeof(number)];
  std::memcpy(wanted, &number, sizeof(number));
  const size_t at = bytes.find({wanted, sizeof(wanted)});
  REQUIRE(at != std::string::npos);
  return at;
}

TEST_CASE("parquet: a page whose bytes are not those of its checksum is an error with its place",
          "[arrow]") {
  if (!HasArrow()) return;
  DataFiles files;
  const std::string path =
      WriteParquet(files, files.Write("a.csv", Csv(300)), "a.parquet", 100,
                   {"plain", "checksums", "n:f64", "c:text", "l:texts", "y:i32"});
  auto spec = ParquetSpec(path);
  AddCategorical(&spec, "c");
  AddNumeric(&spec, "n");
  CHECK(MustLoad(spec)->num_examples(Part::kTraining) > 0);
  std::string bytes = Content(path);
  bytes[PlaceOf(bytes, 150.5)] = 1;
  files.Write("a.parquet", bytes);
  for (const auto& tried : {spec, Streamed(files, spec, 1000, 1, 64 << 10)}) {
    const std::string error = LoadError(tried);
    CHECK_THAT(error, Contains("a.parquet: row group 1, column \"n\": ") &&
                          Contains("CRC checksum verification failed"));
    CHECK_THAT(error, !Contains("\n"));
  }
  // Columns that nobody reads may be damaged.
  auto other = ParquetSpec(path);
  AddCategorical(&other, "c");
  CHECK(MustLoad(other)->num_examples(Part::kTraining) > 0);
}

TEST_CASE("parquet: a page header that cannot be read is told on one line, with its place",
          "[arrow]") {
  if (!HasArrow()) return;
  DataFiles files;
  const std::string path = WriteParquet(files, files.Write("a.csv", Csv(300)), "a.parquet", 100,
                                        {"plain", "n:f64", "c:text", "l:texts", "y:i32"});
  auto spec = ParquetSpec(path);
  AddCategorical(&spec, "c");
  AddNumeric(&spec, "n");
  std::string bytes = Content(path);
  // The header is in front of the levels and values of the group's only page.
  const size_t values = PlaceOf(bytes, 100.5);
  std::fill(bytes.begin() + static_cast<int64_t>(values) - 24,
            bytes.begin() + static_cast<int64_t>(values), '\xff');
  files.Write("a.parquet", bytes);
  const std::string error = LoadError(spec);
  CHECK_THAT(error, Contains("a.parquet: row group 1, column \"n\": "));
  CHECK_THAT(error, !Contains("\n"));
}

TEST_CASE("parquet: a Parquet file that is read as text is told", "[arrow]") {
  DataFiles files;
  auto spec = CsvSpec(files.Write("a.csv", "PAR1\x15\x04"));
  AddNumeric(&spec, "n");
  CHECK_THAT(LoadError(spec),
             Contains("a.csv: wanted text, found a Parquet file: dataset.format: parquet"));
}

TEST_CASE("parquet: a file that changes, shrinks or goes in training is an error that names it",
          "[arrow]") {
  if (!HasArrow()) return;
  DataFiles files;
  const std::string csv = files.Write("a.csv", Csv(3000));
  const std::string path = WriteParquet(files, csv, "a.parquet", 500, kTypes);
  auto spec = ParquetSpec(path);
  AddNumeric(&spec, "n");
  AddCategorical(&spec, "c");
  spec = Streamed(files, spec, 2000, 1, 16 << 10);
  const auto data = MustLoad(spec);
  const auto error = [&](int64_t begin) {
    const auto batch = data->Read({Part::kTraining, 0, begin, begin + 10});
    REQUIRE_FALSE(batch.ok());
    CHECK(absl::IsFailedPrecondition(batch.status()));
    return std::string(batch.status().message());
  };
  REQUIRE(data->Read({Part::kTraining, 0, 2000, 2010}).ok());
  const auto size = std::filesystem::file_size(path);
  SECTION("another file of other values") {
    std::string text = Csv(3000);
    for (size_t at = 0; (at = text.find(".5,", at)) != std::string::npos;) text[at + 1] = '7';
    WriteParquet(files, files.Write("b.csv", text), "a.parquet", 500, kTypes);
    CHECK_THAT(error(2800), Contains("a.parquet: changed since it was indexed: wanted "));
  }
  SECTION("fewer bytes") {
    std::filesystem::resize_file(path, size / 2);
    CHECK_THAT(error(2800), Contains("a.parquet: changed since it was indexed: wanted "));
  }
  SECTION("something else") {
    files.Write("a.parquet", std::string(size, 'x'));
    CHECK_THAT(error(2800), Contains("a.parquet: changed since") && Contains("other content"));
  }
  SECTION("it is gone") {
    std::filesystem::remove(path);
    const auto batch = data->Read({Part::kTraining, 0, 2800, 2810});
    CHECK(absl::IsNotFound(batch.status()));
  }
}

TEST_CASE("parquet: a row group that does not fit memory is refused when the index is made",
          "[arrow]") {
  if (!HasArrow()) return;
  DataFiles files;
  std::string csv = "n,noise\n";
  for (int i = 0; i < 20'000; ++i) absl::StrAppend(&csv, i, ".5,", i * 7919, "x", i, "\n");
  files.Write("a.csv", csv);
  const std::vector<std::string> types = {"plain", "n:f64", "noise:text"};
  for (const std::string format : {"parquet", "arrow"}) {
    INFO(format);
    const auto write = [&](int rows_per_group) {
      return WriteParquet(files, files.Path("a.csv"), "a." + format, rows_per_group, types);
    };
    auto spec = ParquetSpec(write(20'000));
    spec.set_format(format);
    AddNumeric(&spec, "n");
    // 8 bytes a number; of a batch of Arrow's own the noise counts, too.
    const auto error = LoadError(Streamed(files, spec, 1000, 1, 100 << 10));
    CHECK_THAT(error, Contains("a." + format + ": row group 0: the columns that are read have ") &&
                          Contains("KiB") && Contains("dataset.memory (100 KiB)") &&
                          Contains("smaller row groups"));
    CHECK(MustLoad(Streamed(files, spec, 1000, 1, 1 << 20))->num_examples(Part::kTraining) > 0);
    write(2'000);
    CHECK(MustLoad(Streamed(files, spec, 1000, 1, 100 << 10))->num_examples(Part::kTraining) > 0);
    // In memory all of it is held anyway.
    CHECK(MustLoad(spec)->index() == nullptr);
  }
}

TEST_CASE("parquet: bytes that are changed anywhere end in an error or in data, never in a crash",
          "[arrow]") {
  if (!HasArrow()) return;
  DataFiles files;
  const std::string csv = files.Write("a.csv", Csv(200));
  for (const bool plain : {false, true}) {
    std::vector<std::string> types = kTypes;
    if (plain) types.insert(types.begin(), "plain");
    const std::string path = WriteParquet(files, csv, "a.parquet", 60, types);
    const Process::Result result =
        Run({ArrowProgram("load_columns"), "mutate", path, "300"}, {}, absl::Seconds(120));
    INFO(result.err);
    CHECK(result.code == 0);
    CHECK_THAT(result.out, Contains(" loaded, ") && !Contains(" 0 errors"));
  }
}

TEST_CASE("parquet: without the plugin an error says what to install", "[arrow]") {
  if (!HasArrow()) return;  // nor the program
  DataFiles files;
  const std::string path = files.Write("a.parquet", "PAR1");
  const Process::Result result = Run({ArrowProgram("load_columns"), "load", path},
                                     {{"COXSWAIN_ARROW_PLUGIN", "/none/libcoxswain_arrow.so"}});
  CHECK(result.code == 0);
  CHECK_THAT(result.out,
             Contains("a.parquet: it is read by Apache Arrow, and this build of Coxswain "
                      "has no plugin for it (looked for /none/libcoxswain_arrow.so): `./dev build` "
                      "fetches Arrow"));
}

}  // namespace
}  // namespace coxswain::data
