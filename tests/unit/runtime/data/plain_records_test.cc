// Records that are read many at a time, numbers and ids of whole columns: the same as one by one.
#include <catch2/catch.hpp>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "runtime/data/csv_reader.h"
#include "runtime/data/number.h"
#include "runtime/data/vocabulary.h"
#include "tests/testing/data_files.h"
#include "tests/testing/data_specs.h"

namespace coxswain::data {
namespace {

using Catch::Matchers::Contains;

struct Record {
  int64_t line;
  std::vector<std::string> fields;
  bool operator==(const Record& other) const {
    return line == other.line && fields == other.fields;
  }
};

struct All {
  std::vector<Record> records;
  std::string error;
  int64_t next_line = 0;
  int64_t plain = 0;  // of the records
};

All Read(const std::string& path, const CsvFormat& format, bool many) {
  auto reader = CsvReader::Open(path, format);
  All all;
  if (!reader.ok()) return {{}, std::string(reader.status().message())};
  while (true) {
    const int64_t plain = many ? (*reader)->NextPlain(1 << 20) : 0;
    for (int64_t row = 0; row < plain; ++row) {
      all.records.push_back({(*reader)->plain_line() + row, {}});
      for (size_t c = 0; c < (*reader)->columns().size(); ++c) {
        all.records.back().fields.emplace_back((*reader)->plain_column(static_cast<int>(c))[row]);
      }
    }
    all.plain += plain;
    if (plain > 0) continue;
    const auto found = (*reader)->Next();
    all.next_line = (*reader)->next_line();
    if (!found.ok()) all.error = std::string(found.status().message());
    if (!found.ok() || !*found) return all;
    all.records.push_back({(*reader)->line(), {}});
    for (const absl::string_view field : (*reader)->fields()) {
      all.records.back().fields.emplace_back(field);
    }
  }
}

std::string RandomLines(std::mt19937* random, int lines, bool only_good) {
  const std::vector<std::string> good = {"1,2,3", ",,", "a b,,\xc3\xa9", "12345678901234567,x,y",
                                         "1,2,3\r"};
  const std::vector<std::string> other = {
      "",    "\r",   "\"a,\"\"b\nc\",2,3", "# no record", "1,\"2\",3", "a\"b,c,d", "1,2,3,4",
      "1,2", "#,2,3"};
  std::string text = "x,y,z\n";
  for (int i = 0; i < lines; ++i) {
    const unsigned draw = (*random)();
    const bool plain = draw % 16 != 0;
    const size_t many = only_good ? other.size() - 3 : other.size();
    text += plain ? good[draw / 16 % good.size()] : other[draw / 16 % many];
    if (i + 1 < lines || draw % 2 == 0) text += "\n";
  }
  return text;
}

TEST_CASE("csv: records that are read many at a time are those that are read one by one") {
  DataFiles files;
  std::mt19937 random(7);
  int64_t plain = 0;
  for (int round = 0; round < 200; ++round) {
    CsvFormat format;
    format.header = true;
    format.quoting = round % 3 != 0;
    format.comment = round % 4 == 0 ? "#" : "";
    format.trim = round % 10 == 9;
    const int lines = round % 5 == 0 ? 3000 : 1 + round % 40;
    const std::string path = files.Write("a.csv", RandomLines(&random, lines, round % 2 == 0));
    const All one = Read(path, format, false), many = Read(path, format, true);
    INFO("round " << round << " of " << lines << " lines");
    REQUIRE(one.records.size() == many.records.size());
    CHECK(one.records == many.records);
    CHECK(one.error == many.error);
    CHECK(one.next_line == many.next_line);
    if (format.trim) CHECK(many.plain == 0);
    plain += many.plain;
  }
  CHECK(plain > 10000);
}

TEST_CASE("csv: of a column alone, blank lines are no records, read many at a time or not") {
  DataFiles files;
  CsvFormat format;
  format.header = true;
  const std::string path = files.Write("a.csv", "x\n1\n\n2\n\r\n3\r\n4");
  CHECK(Read(path, format, true).records == Read(path, format, false).records);
  CHECK(Read(path, format, true).records.size() == 4);
}

TEST_CASE("csv: no more bytes are read at a time than are asked for, but for the last record's") {
  DataFiles files;
  CsvFormat format;
  format.header = true;
  auto reader = *CsvReader::Open(files.Write("a.csv", "x,y\n1,2\n3,4\n5,6\n"), format);
  CHECK(reader->NextPlain(1) == 1);
  CHECK(reader->NextPlain(5) == 2);
  CHECK(reader->NextPlain(1) == 0);
}

TEST_CASE("csv: of wrong fields the first by row is told, with line and column, then by column") {
  DataFiles files;
  std::string text = "a,b,c\n";
  for (int i = 0; i < 5000; ++i) absl::StrAppend(&text, i, ",", i, ",", i, "\n");
  const std::string good = text;
  const auto error = [&](const std::string& end) {
    auto spec = CsvSpec(files.Write("a.csv", good + end));
    for (const char* name : {"c", "a", "b"}) AddNumeric(&spec, name);
    return LoadError(spec);
  };
  CHECK_THAT(error("1,2,3\n1,x,3\n1,2,y\n"), Contains("a.csv:5003:3: field 2 (\"b\"): wanted"));
  CHECK_THAT(error("1,x,y\n"), Contains("a.csv:5002:5: field 3 (\"c\")"));
  CHECK_THAT(error("1,x,3\n1,2\n"), Contains("a.csv:5002:3"));
  CHECK_THAT(error("1,2\n1,x,3\n"), Contains("a.csv:5002"));
}

TEST_CASE("number: what is parsed in words of 8 characters is what is parsed one by one") {
  std::mt19937_64 random(3);
  const std::string characters = "0123456789012345678901234567890123456789..-+e x\xff";
  for (int round = 0; round < 300000; ++round) {
    std::string text(random() % 20, ' ');
    for (char& c : text) c = characters[random() % (round % 2 == 0 ? 42 : characters.size())];
    const std::string buffer = text + "99999999";
    double one = -7, many = -7;
    const bool found = ParseNumber(text, &one);
    const absl::string_view view(buffer.data(), text.size());
    INFO(text);
    for (const size_t spare : {size_t{0}, size_t{8}}) {
      REQUIRE(ParseNumber(view, buffer.data() + text.size() + spare, &many) == found);
      if (found) REQUIRE(std::memcmp(&one, &many, sizeof(one)) == 0);
    }
    int64_t integer = 0, index = 0;
    if (ParseDigits(view, buffer.data() + buffer.size(), &integer)) {
      REQUIRE(ParseIndex(text, &index));
      REQUIRE(integer == index);
    }
  }
}

TEST_CASE("vocabulary: ids of many texts at once are those of each") {
  std::vector<std::string> texts;
  for (int i = 0; i < 1000; ++i) texts.push_back(absl::StrCat("text-", i * i));
  std::vector<std::string> asked = {"", "17", "-3", "007", "123456789012345678", "word"};
  for (int i = 0; i < 500; ++i) asked.push_back(texts[static_cast<size_t>(i * 7 % 1000)]);
  for (int i = 0; i < 500; ++i) asked.push_back(absl::StrCat(i));
  std::string all;
  for (const std::string& text : asked) all += text;
  std::vector<absl::string_view> views;
  for (size_t at = 0; const std::string& text : asked) {
    views.emplace_back(all.data() + at, text.size());
    at += text.size();
  }
  std::vector<std::unique_ptr<Vocabulary>> vocabularies;
  for (const int64_t oov : {0, 1, 100}) vocabularies.push_back(Vocabulary::OfTexts(texts, oov));
  vocabularies.push_back(Vocabulary::OfTexts({}, 0));
  vocabularies.push_back(Vocabulary::OfTexts({}, 5));
  vocabularies.push_back(Vocabulary::OfBuckets(1000));
  vocabularies.push_back(Vocabulary::OfIntegers());
  vocabularies.push_back(Vocabulary::OfHashes());
  vocabularies.push_back(Vocabulary::OfNumbers(100, 1));
  for (const auto& vocabulary : vocabularies) {
    std::vector<int64_t> ids(views.size());
    const char* const limit = all.data() + all.size();
    for (size_t at = 0; at < views.size(); ++at) {
      const auto rest = absl::MakeConstSpan(views).subspan(at);
      const size_t found = vocabulary->FindAll(rest, limit, ids.data());
      for (size_t i = 0; i < found; ++i) REQUIRE(vocabulary->Find(rest[i]) == ids[i]);
      at += found;
      if (at < views.size()) REQUIRE(!vocabulary->Find(views[at]));
    }
    if (vocabulary->unbounded()) continue;
    vocabulary->FindEach(views, ids.data());
    for (size_t i = 0; i < views.size(); ++i) {
      REQUIRE(vocabulary->Find(views[i]).value_or(-1) == ids[i]);
    }
  }
}

}  // namespace
}  // namespace coxswain::data
