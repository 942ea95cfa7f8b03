// docs/inputs.md says how values become inputs; what it says in Python is what the engine does.
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"
#include "runtime/data/hash.h"
#include "runtime/data/vocabulary.h"
#include "tests/integration/jobs.h"
#include "tests/testing/data_files.h"
#include "tests/testing/pages.h"

namespace coxswain {
namespace {

TEST_CASE("the documented hash of values is the one that chooses their buckets", "[inputs]") {
  if (Run({"/bin/sh", "-c", "command -v python3"}).code != 0) {
    WARN("skipped: python3 is not installed");
    return;
  }
  std::vector<std::string> values = {"\u00e4\u00f6\u00fc", "R&&D & de", " 7\t"};
  for (int size = 0; size <= 40; ++size) {
    std::string value;
    for (int i = 0; i < size; ++i) value.push_back(static_cast<char>('!' + (i * 37 + size) % 90));
    values.push_back(value);
  }
  const DataFiles files;
  const std::vector<std::string> blocks = CodeBlocks("docs/inputs.md", "python");
  REQUIRE(blocks.size() == 1);
  const std::string program = files.Write(
      "page.py", absl::StrCat(blocks[0], "\nimport json, sys\n",
                              "for v in json.load(open(sys.argv[1], encoding='utf-8')):\n",
                              "    print(hash64(v), bucket(v, 1000003))\n"));
  const std::string list = files.Write("values.json", nlohmann::json(values).dump());
  const auto printed = Run({"/usr/bin/env", "python3", program, list});
  CAPTURE(printed.out, printed.err);
  REQUIRE(printed.code == 0);
  std::string wanted;
  for (const std::string& value : values) {
    absl::StrAppend(&wanted, data::HashText(value), " ", data::IdOfHash(value, 1000003), "\n");
  }
  CHECK(printed.out == wanted);
}

}  // namespace
}  // namespace coxswain
