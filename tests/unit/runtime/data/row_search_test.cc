// Where rows begin is found from any place in a file.
#include "runtime/data/row_search.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "runtime/data/hash.h"
#include "tests/testing/data_files.h"
#include "tests/testing/tf_records.h"

namespace coxswain::data {
namespace {

std::unique_ptr<env::RandomAccessFile> Open(const DataFiles& files, const std::string& bytes) {
  auto file = env::RandomAccessFile::Open(files.Write("file", bytes));
  REQUIRE(file.ok());
  return *std::move(file);
}

// The first of the places at `at` or behind it; they ascend, and the last is the file's end.
int64_t FirstAt(const std::vector<int64_t>& places, int64_t at) {
  return *std::lower_bound(places.begin(), places.end(), at);
}

uint64_t Drawn(int i) { return Mix64(static_cast<uint64_t>(i)); }

TEST_CASE("row search: a record of TFRecord is found from any byte", "[data]") {
  const DataFiles files;
  std::string bytes;
  std::vector<int64_t> begins;
  for (int i = 0; i < 60; ++i) {
    begins.push_back(static_cast<int64_t>(bytes.size()));
    // Some are empty; many bytes are zero, as lengths have them.
    std::string record(Drawn(i) % 5 == 0 ? 0 : Drawn(i) % 90, '\0');
    for (size_t at = 0; at < record.size(); at += 1 + Drawn(i) % 7) record[at] = 'x';
    bytes += TfRecord(record);
  }
  begins.push_back(static_cast<int64_t>(bytes.size()));
  const auto file = Open(files, bytes);
  for (int64_t at = 0; at <= begins.back(); ++at) {
    const auto found = FindTfRecord(*file, at);
    REQUIRE(found.ok());
    REQUIRE(*found == FirstAt(begins, at));
  }
}

TEST_CASE("row search: records larger than what is read at a time are found", "[data]") {
  const DataFiles files;
  std::string bytes;
  std::vector<int64_t> begins;
  for (const size_t size : {3'000'000, 70'000, 5, 1'500'000}) {
    begins.push_back(static_cast<int64_t>(bytes.size()));
    bytes += TfRecord(std::string(size, 'y'));
  }
  begins.push_back(static_cast<int64_t>(bytes.size()));
  const auto file = Open(files, bytes);
  for (int64_t at = 0; at <= begins.back(); at += 99'991) {
    CHECK(FindTfRecord(*file, at).value() == FirstAt(begins, at));
  }
}

TEST_CASE("row search: a checksum alone is no record, and what is no TFRecord has none", "[data]") {
  const DataFiles files;
  // Within the first record lies a header, without a record behind what it says.
  const std::string inner = TfRecord("abc").substr(0, 12) + std::string(100, 'z');
  const std::string first = TfRecord(inner), second = TfRecord("d");
  const auto file = Open(files, first + second + second + second);
  CHECK(FindTfRecord(*file, 1).value() == static_cast<int64_t>(first.size()));
  const auto other = Open(files, std::string(200'000, '\0'));
  CHECK(FindTfRecord(*other, 1).value() == 200'000);
}

// Rows of four columns; the fields of two are in quotes and have line ends, quotes and separators.
std::string Quoted(int rows, const std::string& separator, std::vector<int64_t>* begins) {
  std::string text;
  for (int i = 0; i < rows; ++i) {
    begins->push_back(static_cast<int64_t>(text.size()));
    const std::string row =
        absl::StrCat(i, ",\"one\nwith, \"\"some\"\"\n",
                     Drawn(i) % 9 == 0 ? "7,8,9,10\n\"\"" : "of it", "\",it's 5\" ,",
                     Drawn(i) % 3 == 0 ? "\"\"" : "\"\n\n\"", Drawn(i) % 4 == 0 ? "\r\n" : "\n");
    text += absl::StrReplaceAll(row, {{",", separator}});
  }
  begins->push_back(static_cast<int64_t>(text.size()));
  return text;
}

TEST_CASE("row search: a record of csv is found though its fields have line ends", "[data]") {
  const DataFiles files;
  for (const char* const separator : {",", "::"}) {
    std::vector<int64_t> begins;
    const auto file = Open(files, Quoted(1500, separator, &begins));
    CsvFormat format;
    format.separator = separator;
    format.quoting = true;
    for (int64_t at = 1; at <= begins.back(); at += 13) {
      // A little in front, and far in front of it.
      for (const int64_t known : {FirstAt(begins, std::max<int64_t>(0, at - 300)), int64_t{0}}) {
        if (known >= at) continue;
        const auto found = FindCsvRecord(*file, format, 4, known, at);
        REQUIRE(found.ok());
        INFO("from " << at << ", known " << known);
        REQUIRE(*found == FirstAt(begins, at));
      }
    }
  }
}

TEST_CASE("row search: csv without quotes, with comments, empty lines and no last line end",
          "[data]") {
  const DataFiles files;
  CsvFormat format;
  format.quoting = true;
  format.comment = "#";
  format.trim = true;
  std::string text;
  std::vector<int64_t> ends;
  for (int i = 0; i < 900; ++i) {
    absl::StrAppend(&text, i, " , a\"b, c", i < 899 ? "\n" : "");
    ends.push_back(static_cast<int64_t>(text.size()));
    if (i % 7 == 0 && i < 899) text += "# a, \"comment\n";
    if (i % 5 == 0 && i < 899) text += "  \n\n";
  }
  const auto file = Open(files, text);
  for (int64_t at = 1; at <= ends.back(); ++at) {
    const auto found = FindCsvRecord(*file, format, 3, 0, at);
    REQUIRE(found.ok());
    // Behind the end of a record: lines that are none belong to the next one.
    INFO("from " << at);
    const bool is_end = std::binary_search(ends.begin(), ends.end(), *found);
    CHECK((is_end || at > ends.back() - 20 || text[static_cast<size_t>(*found) - 1] == '\n'));
    CHECK(*found >= at);
  }
}

TEST_CASE("row search: broken csv gives some line, and no error", "[data]") {
  const DataFiles files;
  CsvFormat format;
  format.quoting = true;
  std::string text;
  for (int i = 0; i < 5000; ++i) absl::StrAppend(&text, i, ",\"x\"y,\n");
  const auto file = Open(files, text);
  const auto found = FindCsvRecord(*file, format, 3, 0, 20'000);
  REQUIRE(found.ok());
  CHECK(*found >= 20'000);
  CHECK(text[static_cast<size_t>(*found) - 1] == '\n');
  // A quote that is never closed.
  const auto open = Open(files, "1,\"" + text);
  CHECK(FindCsvRecord(*open, format, 3, 0, 20'000).ok());
}

}  // namespace
}  // namespace coxswain::data
