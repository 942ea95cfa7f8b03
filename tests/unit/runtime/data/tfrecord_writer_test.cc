#include "runtime/data/tfrecord_writer.h"

#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "runtime/data/input_file.h"
#include "runtime/data/tfrecord_reader.h"
#include "tests/testing/data_files.h"

namespace coxswain::data {
namespace {

std::string Record(const std::string& bytes) {
  std::string record;
  AppendTfRecord(bytes, &record);
  return record;
}

// What other programs write of these bytes.
TEST_CASE("tfrecord: records are written as other programs write them", "[data]") {
  CHECK(absl::BytesToHexString(Record("")) == "000000000000000029039807d8ea82a2");
  CHECK(absl::BytesToHexString(Record("123456789")) ==
        "090000000000000037f97139313233343536373839e5b08ac7");
  std::string all;
  for (int byte = 0; byte < 256; ++byte) all += static_cast<char>(byte);
  const std::string record = Record(all);
  CHECK(absl::BytesToHexString(record.substr(0, 12)) == "00010000000000002fb308df");
  CHECK(record.substr(12, 256) == all);
  CHECK(absl::BytesToHexString(record.substr(268)) == "60231ad3");
}

TEST_CASE("tfrecord: what is written is read again, record by record", "[data]") {
  const DataFiles files;
  const std::vector<std::string> records = {"one", "", std::string(70000, '\xff'), "four"};
  std::string file;
  for (const std::string& record : records) AppendTfRecord(record, &file);
  auto input = InputFile::Open(files.Write("records", file));
  REQUIRE(input.ok());
  TfRecordReader reader(*std::move(input));
  absl::string_view read;
  for (const std::string& record : records) {
    const auto more = reader.Next(&read);
    REQUIRE(more.ok());
    REQUIRE(*more);
    CHECK(read == record);
  }
  const auto more = reader.Next(&read);
  REQUIRE(more.ok());
  CHECK_FALSE(*more);
}

}  // namespace
}  // namespace coxswain::data
