#include "coordinator/cli/user_values.h"

#include <catch2/catch.hpp>

namespace coxswain::cli {
namespace {

using Catch::Matchers::Contains;

const std::vector<RawColumn> kColumns = {{"age", RawColumn::Kind::kNumber},
                                         {"city", RawColumn::Kind::kValue},
                                         {"had", RawColumn::Kind::kValues}};

TEST_CASE("values of a user: one for each column, in any order, lists by commas") {
  const auto values = ValuesOf(kColumns, {"had=a,\"b, c\"", "city=x=y,z", "age=25"});
  REQUIRE(values.ok());
  CHECK((*values)[0] == RawValue("25"));
  CHECK((*values)[1] == RawValue("x=y,z"));  // one value, whatever is in it
  CHECK((*values)[2] == RawValue(std::vector<std::string>{"a", "b, c"}));
  // A list may be empty or missing.
  const RawValue none = std::vector<std::string>();
  CHECK((*ValuesOf(kColumns, {"city=", "age=25"}))[2] == none);
  CHECK((*ValuesOf(kColumns, {"had=", "city=x", "age=25"}))[2] == none);
}

TEST_CASE("values of a user that are wrong are refused, with what there is") {
  const auto refused = [](const std::vector<std::string>& pairs) {
    const auto values = ValuesOf(kColumns, pairs);
    CHECK(absl::IsInvalidArgument(values.status()));
    return std::string(values.status().message());
  };
  CHECK_THAT(refused({"age=1", "citty=x"}), Contains("citty") && Contains("age, city, had"));
  CHECK_THAT(refused({"age=1"}), Contains("\"city\"") && Contains("age, city, had"));
  CHECK_THAT(refused({"age=1", "age=2", "city=x"}), Contains("twice"));
  CHECK_THAT(refused({"age"}), Contains("NAME=VALUE"));
  CHECK_THAT(refused({"age=1", "city=x", "had=a,,b"}), Contains("had"));
}

}  // namespace
}  // namespace coxswain::cli
