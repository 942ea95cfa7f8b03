#include "coordinator/cli/name_list.h"

#include <catch2/catch.hpp>

namespace coxswain::cli {
namespace {

using Names = std::vector<std::string>;

Names MustSplit(const std::string& list) {
  const auto names = SplitNames(list);
  INFO(list << ": " << names.status().ToString());
  REQUIRE(names.ok());
  return *names;
}

TEST_CASE("a list of names: commas between them, and in quotes commas and quotes within") {
  CHECK(MustSplit("a") == Names{"a"});
  CHECK(MustSplit("a,b c,d") == Names{"a", "b c", "d"});
  CHECK(MustSplit("\"Good, the Bad and the Ugly, The\",Heat") ==
        Names{"Good, the Bad and the Ugly, The", "Heat"});
  CHECK(MustSplit("Heat,\"a \"\"b\"\", c\"") == Names{"Heat", "a \"b\", c"});
  CHECK(MustSplit("5\" disk,x") == Names{"5\" disk", "x"});
}

TEST_CASE("a list of names that is wrong is refused") {
  for (const char* list : {"", ",", "a,", ",a", "a,,b", "\"a", "\"a\"b", "\"\""}) {
    CAPTURE(list);
    CHECK(SplitNames(list).status().code() == absl::StatusCode::kInvalidArgument);
  }
}

}  // namespace
}  // namespace coxswain::cli
