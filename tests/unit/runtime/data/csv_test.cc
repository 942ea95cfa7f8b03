#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "runtime/data/csv_reader.h"
#include "runtime/data/number.h"
#include "tests/testing/data_files.h"

namespace coxswain::data {
namespace {

using Rows = std::vector<std::vector<std::string>>;
using Catch::Matchers::Contains;
using Catch::Matchers::EndsWith;

// All records, or the error that ended them.
absl::StatusOr<Rows> ReadAll(const std::string& path, const CsvFormat& format) {
  auto reader = CsvReader::Open(path, format);
  if (!reader.ok()) return reader.status();
  Rows rows;
  while (true) {
    auto found = (*reader)->Next();
    if (!found.ok()) return found.status();
    if (!*found) return rows;
    rows.emplace_back();
    for (absl::string_view field : (*reader)->fields()) rows.back().emplace_back(field);
  }
}

CsvFormat Header() {
  CsvFormat format;
  format.header = true;
  return format;
}

CsvFormat Quoting() {
  CsvFormat format = Header();
  format.quoting = true;
  return format;
}

TEST_CASE("csv: the header names the columns and the rest are records") {
  DataFiles files;
  const std::string path = files.Write("a.csv", "x,y\n1,2\n,\n3,\n");
  auto reader = CsvReader::Open(path, Header());
  REQUIRE(reader.ok());
  CHECK((*reader)->columns() == std::vector<std::string>{"x", "y"});
  CHECK(*(*reader)->FindColumn("y") == 1);
  CHECK(*ReadAll(path, Header()) == Rows{{"1", "2"}, {"", ""}, {"3", ""}});
}

TEST_CASE("csv: CRLF, a byte order mark, blank lines and a missing last line end do no harm") {
  DataFiles files;
  const std::string path = files.Write("a.csv", "\xef\xbb\xbfx,y\r\n\r\n1,2\r\n\n3,4");
  CHECK(*ReadAll(path, Header()) == Rows{{"1", "2"}, {"3", "4"}});
  CHECK((*CsvReader::Open(path, Header()))->columns()[0] == "x");
  CHECK(*ReadAll(files.Write("b.csv", "x,y\r\n1,2\r"), Header()) == Rows{{"1", "2"}});
}

TEST_CASE("csv: a separator of several characters splits only where all of them stand") {
  DataFiles files;
  CsvFormat format;
  format.separator = "::";
  format.columns = {"user", "item", "rating"};
  const std::string path = files.Write("a.dat", "1::a:b::5\n2::::3\n");
  CHECK(*ReadAll(path, format) == Rows{{"1", "a:b", "5"}, {"2", "", "3"}});
}

TEST_CASE(
    "csv: columns are numbered when nothing names them, and a header is skipped for given names") {
  DataFiles files;
  const std::string path = files.Write("a.csv", "7,8\n9,10\n");
  CHECK(*ReadAll(path, CsvFormat{}) == Rows{{"7", "8"}, {"9", "10"}});
  CHECK((*CsvReader::Open(path, CsvFormat{}))->columns() == std::vector<std::string>{"1", "2"});
  CsvFormat given = Header();
  given.columns = {"a", "b"};
  CHECK(*ReadAll(path, given) == Rows{{"9", "10"}});
  CHECK((*CsvReader::Open(path, given))->columns() == given.columns);
}

TEST_CASE("csv: quoted fields hold separators, quotes and line ends") {
  DataFiles files;
  const std::string path = files.Write(
      "a.csv",
      "x,y\n\"a,b\",1\n\"say \"\"hi\"\"\",\"two\r\nlines\"\r\n\"\",\"\"\"\"\nin\"side,2\n");
  CHECK(*ReadAll(path, Quoting()) ==
        Rows{{"a,b", "1"}, {"say \"hi\"", "two\r\nlines"}, {"", "\""}, {"in\"side", "2"}});
  CHECK(ReadAll(path, Header()).status().code() == absl::StatusCode::kInvalidArgument);
}

TEST_CASE("csv: quoted fields may use a long separator and end the file") {
  DataFiles files;
  CsvFormat format = Quoting();
  format.separator = "||";
  const std::string path = files.Write("a.csv", "x||y\n\"a||b\"||\"c|\"\n|||\"q\"");
  CHECK(*ReadAll(path, format) == Rows{{"a||b", "c|"}, {"", "|\"q\""}});
}

TEST_CASE("csv: records are the same wherever the blocks of the file end") {
  DataFiles files;
  // Records of odd lengths over several read blocks, some of them quoted over lines.
  std::string text = "x,y\n";
  Rows wanted;
  for (int i = 0; i < 60000; ++i) {
    const std::string number = absl::StrCat(i);
    const std::string filler(static_cast<size_t>(i % 13), 'z');
    if (i % 7 == 0) {
      absl::StrAppend(&text, "\"", filler, "\"\"\n,\",", number, "\r\n");
      wanted.push_back({absl::StrCat(filler, "\"\n,"), number});
    } else {
      absl::StrAppend(&text, filler, ",", number, "\n");
      wanted.push_back({filler, number});
    }
  }
  REQUIRE(text.size() > 600000);
  CHECK(*ReadAll(files.Write("a.csv", text), Quoting()) == wanted);
  const std::string zipped = files.WriteGzip("a.csv.gz", text);
  CHECK(std::filesystem::file_size(zipped) < text.size() / 2);
  CHECK(*ReadAll(zipped, Quoting()) == wanted);
}

TEST_CASE("csv: a field longer than the read block comes whole") {
  DataFiles files;
  const std::string big(3 << 20, 'b');
  CHECK(*ReadAll(files.Write("a.csv", "x,y\n" + big + ",1\n\"" + big + "\",2\n"), Quoting()) ==
        Rows{{big, "1"}, {big, "2"}});
}

TEST_CASE("csv: the content hash is of the unpacked bytes, and of every one of them") {
  DataFiles files;
  const auto hash = [](const std::string& path) {
    auto reader = CsvReader::Open(path, Header());
    REQUIRE(reader.ok());
    while (*(*reader)->Next()) {
    }
    return (*reader)->content_hash();
  };
  std::string text = "x\n";
  for (int i = 0; i < 200000; ++i) absl::StrAppend(&text, i, "\n");
  const uint64_t plain = hash(files.Write("a.csv", text));
  CHECK(hash(files.WriteGzip("a.gz", text)) == plain);
  std::string changed = text;
  changed[changed.size() - 2] ^= 1;
  CHECK(hash(files.Write("b.csv", changed)) != plain);
  CHECK(hash(files.Write("c.csv", text.substr(0, text.size() - 1))) != plain);
}

TEST_CASE("csv: a wrong number of fields names file, line, column, wanted and found") {
  DataFiles files;
  const std::string path = files.Write("a.csv", "x,y\n1,2\n\n10,20,30\n");
  const auto many = ReadAll(path, Header()).status();
  CHECK(many.code() == absl::StatusCode::kInvalidArgument);
  CHECK_THAT(std::string(many.message()), EndsWith("a.csv:4:7: wanted 2 fields (x, y), found 3"));
  const auto few = ReadAll(files.Write("b.csv", "x,y\n1,2\n10\n"), Header()).status();
  CHECK_THAT(std::string(few.message()), EndsWith("b.csv:3:1: wanted 2 fields (x, y), found 1"));
}

TEST_CASE("csv: an unterminated quote names where it opens") {
  DataFiles files;
  const auto status =
      ReadAll(files.Write("a.csv", "x,y\n1,2\n3,\"open\nand on\n"), Quoting()).status();
  CHECK_THAT(std::string(status.message()), Contains("a.csv:3:3: wanted a closing quote"));
}

TEST_CASE("csv: text after a closing quote names its line and column") {
  DataFiles files;
  const auto status = ReadAll(files.Write("a.csv", "x,y\n\"a\nb\"c,2\n"), Quoting()).status();
  CHECK_THAT(std::string(status.message()), Contains("a.csv:3:3: wanted the separator \",\""));
  CHECK_THAT(std::string(status.message()), EndsWith("found \"c\""));
}

TEST_CASE("csv: a missing column lists the columns there are and the nearest name") {
  DataFiles files;
  auto reader = CsvReader::Open(files.Write("a.csv", "userId,movieId,a,a\n"), Header());
  REQUIRE(reader.ok());
  const auto status = (*reader)->FindColumn("userid").status();
  CHECK(status.code() == absl::StatusCode::kNotFound);
  CHECK_THAT(std::string(status.message()),
             EndsWith("a.csv: wanted a column \"userid\", found none of that name; did you mean "
                      "\"userId\"? there are: userId, movieId, a, a"));
  CHECK_THAT(std::string((*reader)->FindColumn("zzzzz").status().message()),
             !Contains("did you mean"));
  CHECK((*reader)->FindColumn("a").status().code() == absl::StatusCode::kInvalidArgument);
}

TEST_CASE(
    "csv: an error of a field points at its start, also behind quoted fields of several lines") {
  DataFiles files;
  auto reader =
      CsvReader::Open(files.Write("a.csv", "x,y\n\"\"\"a\"\"\nb\",oops\n12,oops\n"), Quoting());
  REQUIRE(reader.ok());
  REQUIRE(*(*reader)->Next());
  CHECK((*reader)->line() == 2);
  CHECK_THAT(std::string((*reader)->FieldError(1, "a number").message()),
             EndsWith("a.csv:3:4: field 2 (\"y\"): wanted a number, found \"oops\""));
  REQUIRE(*(*reader)->Next());
  CHECK((*reader)->line() == 4);
  CHECK_THAT(std::string((*reader)->FieldError(1, "a number").message()), Contains("a.csv:4:4: "));
}

TEST_CASE("csv: files that cannot be read say why") {
  DataFiles files;
  CHECK(ReadAll(files.Path("none.csv"), Header()).status().code() == absl::StatusCode::kNotFound);
  const absl::Status directory = ReadAll(files.Path(""), Header()).status();
  CHECK(directory.code() == absl::StatusCode::kInvalidArgument);
  CHECK_THAT(std::string(directory.message()), Contains("wanted a file, found a directory"));
  CHECK_THAT(std::string(ReadAll(files.Write("e.csv", ""), Header()).status().message()),
             Contains("wanted a header line, found an empty file"));
  CsvFormat format;
  format.separator = "";
  CHECK(ReadAll(files.Write("s.csv", "a\n"), format).status().code() ==
        absl::StatusCode::kInvalidArgument);
  format.separator = "\n";
  CHECK(ReadAll(files.Path("s.csv"), format).status().code() == absl::StatusCode::kInvalidArgument);
}

TEST_CASE("csv: a torn or damaged gzip file is data loss, not an end") {
  DataFiles files;
  std::string text = "x\n";
  for (int i = 0; i < 100000; ++i) absl::StrAppend(&text, i * 7919, "\n");
  const std::string path = files.WriteGzip("a.gz", text);
  std::filesystem::resize_file(path, std::filesystem::file_size(path) / 2);
  CHECK(ReadAll(path, Header()).status().code() == absl::StatusCode::kDataLoss);
  const std::string damaged = files.WriteGzip("b.gz", text);
  std::fstream file(damaged, std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(5000);
  file.write("\xff\xff\xff\xff\xff\xff\xff\xff", 8);
  file.close();
  CHECK(ReadAll(damaged, Header()).status().code() == absl::StatusCode::kDataLoss);
}

TEST_CASE("csv: a quote that is never closed does not read a huge file into memory") {
  DataFiles files;
  std::string text = "x,y\n\"";
  text.append((kMaxRecordBytes + (2 << 20)), 'a');
  const auto status = ReadAll(files.WriteGzip("a.gz", text), Quoting()).status();
  CHECK(status.code() == absl::StatusCode::kOutOfRange);
  CHECK_THAT(std::string(status.message()), Contains("line 2"));
}

TEST_CASE("numbers: decimal texts are rounded correctly and nothing else passes") {
  const auto parse = [](absl::string_view text) {
    double number = -12345;
    return ParseNumber(text, &number) ? number : -12345;
  };
  CHECK(parse("0") == 0);
  CHECK(parse("-17") == -17);
  CHECK(parse("+4.5") == 4.5);
  CHECK(parse(" 3.1415926 ") == 3.1415926);
  CHECK(parse(".5") == 0.5);
  CHECK(parse("5.") == 5);
  CHECK(parse("0.1") == 0.1);
  CHECK(parse("964982703") == 964982703);
  CHECK(parse("123456789012345678901234567890") == 123456789012345678901234567890.0);
  CHECK(parse("1e-3") == 1e-3);
  CHECK(parse("2.2250738585072014e-308") == 2.2250738585072014e-308);
  CHECK(parse("1e-999") == 0);
  for (const char* bad : {"", " ", ".", "-", "+-1", "--1", "1,5", "1.2.3", "nan", "inf", "-inf",
                          "1e999", "0x10", "1e", "abc", "1 2"}) {
    INFO(bad);
    CHECK(parse(bad) == -12345);
  }
}

TEST_CASE("csv: lines that end in a carriage return alone are an error that says so") {
  DataFiles files;
  const auto old = ReadAll(files.Write("a.csv", "x,y\r1,0\r2,1\r"), CsvFormat());
  CHECK_THAT(std::string(old.status().message()),
             Contains("a.csv: wanted lines that end in \\n or \\r\\n, found some that end in \\r "
                      "alone"));
  CHECK(ReadAll(files.Write("a.csv", "x,y\r\n1,0\r\n"), CsvFormat()).ok());
}

}  // namespace
}  // namespace coxswain::data
