// Files in blocks of whole rows.
#include "runtime/data/row_blocks.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "runtime/data/csv_reader.h"
#include "runtime/data/spec_check.h"
#include "tests/testing/data_files.h"
#include "tests/testing/data_specs.h"

namespace coxswain::data {
namespace {

using Catch::Matchers::Contains;
using Texts = std::vector<std::string>;

proto::DatasetSpec CheckedCsv(bool quoting = true, const std::string& separator = ",") {
  auto spec = CsvSpec("unused.csv");
  spec.mutable_csv()->set_quoting(quoting);
  spec.mutable_csv()->set_separator(separator);
  AddNumeric(&spec, "n");
  return *CheckSpec(spec);
}

struct Read {
  Texts columns;
  std::vector<FileBlock> blocks;
  std::string all;
};

Read ReadAll(const proto::DatasetSpec& spec, const std::string& path, size_t block_bytes) {
  const auto blocks = RowBlocks::Open(spec, path, block_bytes);
  INFO(blocks.status().message());
  REQUIRE(blocks.ok());
  Read read;
  read.columns = (*blocks)->columns();
  while (true) {
    auto block = (*blocks)->Next();
    INFO(block.status().message());
    REQUIRE(block.ok());
    if (!*block) return read;
    read.all.append((*block)->bytes.begin(), (*block)->bytes.end());
    read.blocks.push_back(**std::move(block));
  }
}

TEST_CASE("row blocks: all bytes behind the header come, in whole rows, with their lines") {
  const DataFiles files;
  std::string rows;
  for (int i = 0; i < 1000; ++i) {
    // Quotes, separators and line ends inside of fields, empty ones, and a blank line now and then.
    absl::StrAppend(&rows, i, i % 3 == 0 ? ",\"a\n\"\"b,\"\" c\"" : ",plain \"5\"", ",",
                    i % 7 == 0 ? "\"\"" : "x", i % 5 == 0 ? "\r\n" : "\n", i % 11 == 0 ? "\n" : "");
  }
  const std::string path = files.Write("a.csv", absl::StrCat("\n\nn,text,last\n", rows));
  for (const size_t block_bytes : {1, 20, 1000, 1 << 20}) {
    CAPTURE(block_bytes);
    const Read read = ReadAll(CheckedCsv(), path, block_bytes);
    CHECK(read.columns == Texts{"n", "text", "last"});
    CHECK(read.all == rows);
    int64_t line = 4, records = 0;
    for (const FileBlock& block : read.blocks) {
      REQUIRE(block.first_line == line);
      line += std::count(block.bytes.begin(), block.bytes.end(), '\n');
      CsvFormat format;
      format.quoting = true;
      const auto reader = CsvReader::OfBlock(InputFile::OfBytes(path, block.bytes), format,
                                             read.columns, block.first_line);
      while (true) {
        const auto next = reader->Next();
        INFO(next.status().message());
        REQUIRE(next.ok());
        if (!*next) break;
        REQUIRE(reader->fields()[0] == absl::StrCat(records));
        ++records;
      }
    }
    CHECK(records == 1000);
  }
}

TEST_CASE("row blocks: the last line may lack its end, and a file may have no rows") {
  const DataFiles files;
  CHECK(ReadAll(CheckedCsv(), files.Write("a.csv", "n\n1\n2"), 1).all == "1\n2");
  CHECK(ReadAll(CheckedCsv(), files.Write("b.csv", "n\n"), 1).all.empty());
  CHECK(ReadAll(CheckedCsv(), files.Write("c.csv", "n"), 1).columns == Texts{"n"});
  CHECK(ReadAll(CheckedCsv(), files.WriteGzip("d.csv.gz", "n\n1\n"), 9).all == "1\n");
  const auto empty = RowBlocks::Open(CheckedCsv(), files.Write("e.csv", ""), 1);
  CHECK_THAT(std::string(empty.status().message()), Contains("e.csv") && Contains("empty file"));
}

TEST_CASE("row blocks: without quoting a quote is a character, and separators may be long") {
  const DataFiles files;
  const std::string path = files.Write("a.csv", "n::t\n1::\"x\n2::y\n");
  const Read read = ReadAll(CheckedCsv(false, "::"), path, 1);
  CHECK(read.columns == Texts{"n", "t"});
  REQUIRE(read.blocks.size() == 2);
  CHECK(read.blocks[1].first_line == 3);
}

TEST_CASE("row blocks: a criteo log may lack its label") {
  const DataFiles files;
  proto::DatasetSpec spec;
  spec.set_format("criteo");
  spec.add_paths("unused");
  const auto checked = CheckSpec(spec);
  REQUIRE(checked.ok());
  std::string fields;
  for (int i = 0; i < 39; ++i) absl::StrAppend(&fields, i == 0 ? "" : "\t", "");
  const Read without = ReadAll(*checked, files.Write("test", fields + "\n"), 100);
  CHECK(without.columns.size() == 39);
  CHECK(without.columns[0] == "I1");
  const Read with = ReadAll(*checked, files.Write("train", "1\t" + fields + "\n"), 100);
  CHECK(with.columns.size() == 40);
}

}  // namespace
}  // namespace coxswain::data
