// Which error of a job removes the saved index of its data.
#include <catch2/catch.hpp>
#include <filesystem>
#include <string>

#include "coordinator/runner/data_checks.h"
#include "runtime/data/spec_check.h"
#include "runtime/data/stream/file_identity.h"
#include "runtime/data/stream/index_file.h"
#include "tests/testing/streamed_specs.h"

namespace coxswain::runner {
namespace {

using Catch::Matchers::Contains;

TEST_CASE("a saved index goes when a file of its data has changed, and not for another file") {
  const DataFiles files;
  proto::DatasetSpec spec = CsvSpec(files.Write("a.csv", "x\n1\n2\n"));
  AddNumeric(&spec, "x");
  spec = Streamed(files, spec, 2);
  const proto::DatasetSpec checked = data::CheckSpec(spec).value();
  const auto disk = env::NewRealFileSystem();
  REQUIRE(data::FindOrMakeIndex(checked, disk.get()).ok());
  const std::string index = data::IndexPath(checked);
  REQUIRE(disk->Exists(index));
  // What it is told of a file that is another one now.
  const auto changed = [&](const std::string& name) {
    const proto::IndexedFile before = data::IdentifyFile(files.Write(name, "x\n1\n2\n")).value();
    const std::string path = files.Write(name, "x\n1\n2\n3\n");
    return data::CheckUnchanged(path, before, /*same_machine=*/true);
  };
  const absl::Status of_another = changed("came.csv"), of_data = changed("a.csv");
  REQUIRE_FALSE(of_another.ok());
  CHECK(WithoutStaleIndex(of_another, spec) == of_another);
  CHECK(disk->Exists(index));
  CHECK_THAT(std::string(WithoutStaleIndex(of_data, spec).message()),
             Contains("the saved index is removed: the next run makes another one"));
  CHECK_FALSE(disk->Exists(index));
  // Once: there is none any more.
  CHECK(WithoutStaleIndex(of_data, spec) == of_data);
}

}  // namespace
}  // namespace coxswain::runner
