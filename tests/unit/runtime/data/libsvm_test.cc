#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "runtime/data/libsvm_reader.h"
#include "tests/testing/data_files.h"

namespace coxswain::data {
namespace {

using Catch::Matchers::Contains;
using Catch::Matchers::EndsWith;

std::string FirstError(const std::string& path, const LibsvmFormat& format) {
  auto reader = LibsvmReader::Open(path, format);
  REQUIRE(reader.ok());
  while (true) {
    auto found = (*reader)->Next();
    if (!found.ok()) return std::string(found.status().message());
    if (!*found) return "";
  }
}

TEST_CASE("libsvm: labels, ids from 0 and weights; comments, blanks and spaces are skipped") {
  DataFiles files;
  const std::string path =
      files.Write("a.txt", "# head\n+1 1:0.5  3:2 \r\n\n-1\t2:-1e-1 # 3:9\n0\n");
  auto reader = LibsvmReader::Open(path, {3, false});
  REQUIRE(reader.ok());
  REQUIRE(*(*reader)->Next());
  CHECK((*reader)->label() == "+1");
  CHECK(std::vector<int64_t>((*reader)->ids().begin(), (*reader)->ids().end()) ==
        std::vector<int64_t>{0, 2});
  CHECK((*reader)->weights()[0] == 0.5f);
  CHECK((*reader)->weights()[1] == 2.0f);
  REQUIRE(*(*reader)->Next());
  CHECK((*reader)->label() == "-1");
  REQUIRE((*reader)->ids().size() == 1);
  CHECK((*reader)->ids()[0] == 1);
  CHECK((*reader)->weights()[0] == -0.1f);
  REQUIRE(*(*reader)->Next());
  CHECK((*reader)->label() == "0");
  CHECK((*reader)->ids().empty());
  CHECK_FALSE(*(*reader)->Next());
}

TEST_CASE("libsvm: zero-based indices are ids as they are") {
  DataFiles files;
  auto reader = LibsvmReader::Open(files.Write("a.txt", "1 0:1 2:1\n"), {3, true});
  REQUIRE(reader.ok());
  REQUIRE(*(*reader)->Next());
  CHECK((*reader)->ids()[0] == 0);
  CHECK((*reader)->ids()[1] == 2);
}

TEST_CASE("libsvm: errors name file, line, column, wanted and found") {
  DataFiles files;
  const LibsvmFormat three{3, false};
  CHECK_THAT(FirstError(files.Write("a", "1 1:1\n1 2:1 4:1\n"), three),
             EndsWith("a:2:7: wanted an index from 1 to 3, found 4"));
  CHECK_THAT(FirstError(files.Write("b", "1 0:1\n"), three),
             EndsWith("b:1:3: wanted an index from 1 to 3, found 0"));
  CHECK_THAT(FirstError(files.Write("c", "1 0:1\n"), {0, false}),
             EndsWith("wanted an index of at least 1, found 0"));
  CHECK_THAT(FirstError(files.Write("d", "1 3:1\n"), {3, true}),
             EndsWith("wanted an index from 0 to 2, found 3"));
  CHECK_THAT(FirstError(files.Write("e", "1 1:1 2\n"), three),
             EndsWith("e:1:7: wanted index:value, found \"2\""));
  CHECK_THAT(
      FirstError(files.Write("f", "1 qid:1\n"), three),
      EndsWith("f:1:3: wanted index:value, found \"qid:1\"; dataset.query: qid reads queries"));
  CHECK_THAT(FirstError(files.Write("g", "1 2:x\n"), three),
             EndsWith("g:1:5: wanted a finite number, found \"x\""));
  CHECK_THAT(FirstError(files.Write("h", "1 2:\n"), three), Contains("wanted a finite number"));
  CHECK_THAT(FirstError(files.Write("i", "1 2:1e300\n"), three),
             Contains("wanted a finite number"));
}

}  // namespace
}  // namespace coxswain::data
