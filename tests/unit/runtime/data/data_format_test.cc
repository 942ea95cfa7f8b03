#include "runtime/data/data_format.h"

#include <catch2/catch.hpp>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "runtime/data/spec_check.h"

namespace coxswain::data {
namespace {

TEST_CASE("a format of the list is found by its name, and messages name them all", "[data]") {
  proto::DatasetSpec spec;
  spec.set_format("orc");
  spec.add_paths("a");
  const absl::Status unknown = CheckSpec(spec).status();
  CHECK(absl::IsInvalidArgument(unknown));
  for (const DataFormat* format : AllDataFormats()) {
    INFO(format->name());
    CHECK(FindDataFormat(format->name()) == format);
    CHECK(absl::StrContains(unknown.message(), absl::StrCat("\"", format->name(), "\"")));
  }
  CHECK(FindDataFormat("orc") == nullptr);
  CHECK(absl::EndsWith(
      unknown.message(),
      "\"csv\", \"libsvm\", \"libffm\", \"criteo\", \"text\", \"jsonl\", \"tfrecord\", "
      "\"parquet\", \"arrow\", \"idx\", \"labelled_lines\" or \"labelled_files\", found \"orc\""));
}

TEST_CASE("what a format fills in satisfies its own check", "[data]") {
  for (const DataFormat* format : AllDataFormats()) {
    INFO(format->name());
    proto::DatasetSpec spec;
    spec.set_format(format->name());
    spec.add_paths("a");
    const auto filled = CheckSpec(spec);
    REQUIRE(filled.ok());
    CHECK(CheckSpec(*filled)->SerializeAsString() == filled->SerializeAsString());
  }
}

}  // namespace
}  // namespace coxswain::data
