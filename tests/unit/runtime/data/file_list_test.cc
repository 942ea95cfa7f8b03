#include "runtime/data/file_list.h"

#include <catch2/catch.hpp>
#include <filesystem>
#include <string>
#include <vector>

#include "tests/testing/data_files.h"
#include "tests/testing/data_specs.h"

namespace coxswain::data {
namespace {

using Catch::Matchers::Contains;
using Strings = std::vector<std::string>;

TEST_CASE("file list: files, directories and patterns, sorted by name") {
  DataFiles files;
  std::filesystem::create_directory(files.Path("d"));
  for (const char* name : {"d/b.csv", "d/a.csv", "d/.hidden", "d/_SUCCESS", "c.csv", "x[1].csv"}) {
    files.Write(name, "x\n1\n");
  }
  const auto list = [&](const std::string& name) { return ListFiles(files.Path(name)).value(); };
  CHECK(list("c.csv") == Strings{files.Path("c.csv")});
  CHECK(list("gone.csv") == Strings{files.Path("gone.csv")});
  CHECK(list("d") == Strings{files.Path("d/a.csv"), files.Path("d/b.csv")});
  CHECK(list("*.csv") == Strings{files.Path("c.csv"), files.Path("x[1].csv")});
  CHECK(list("*/?.csv") == Strings{files.Path("d/a.csv"), files.Path("d/b.csv")});
  CHECK(list("x[1].csv") == Strings{files.Path("x[1].csv")});
  CHECK_THAT(std::string(ListFiles(files.Path("*.tsv")).status().message()),
             Contains("*.tsv: wanted files that match, found none"));
  std::filesystem::create_directory(files.Path("e"));
  CHECK_THAT(std::string(ListFiles(files.Path("e")).status().message()),
             Contains("found a directory without any"));
}

TEST_CASE("file list: a data set is made of them in their order") {
  DataFiles files;
  std::filesystem::create_directory(files.Path("d"));
  files.Write("d/2.csv", "x\n3\n");
  files.Write("d/1.csv", "x\n1\n2\n");
  auto spec = CsvSpec(files.Path("d"));
  spec.mutable_split()->add_test_paths(files.Path("d/*1*"));
  AddNumeric(&spec, "x");
  const auto data = MustLoad(spec);
  CHECK(Values<float>(*data, AllOf(*data, Part::kTraining), "x") == std::vector<float>{1, 2, 3});
  CHECK(Values<float>(*data, AllOf(*data, Part::kTest), "x") == std::vector<float>{1, 2});
}

}  // namespace
}  // namespace coxswain::data
