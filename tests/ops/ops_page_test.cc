// docs/ops.md has every op that programs compute with, and says of each what the registry does.
#include <catch2/catch.hpp>
#include <regex>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "kernels/compute.h"
#include "tests/ops/op_case.h"
#include "tests/testing/pages.h"

namespace coxswain::testing {
namespace {

std::set<std::string> InBackquotes(const std::string& cell) {
  std::set<std::string> names;
  static const std::regex name("`([A-Za-z_]+)`");
  for (std::sregex_iterator it(cell.begin(), cell.end(), name), end; it != end; ++it) {
    names.insert((*it)[1]);
  }
  return names;
}

std::vector<std::string> Lines(const std::string& page) {
  return absl::StrSplit(PageText(page), '\n');
}

// What passes and partitioning add.
bool IsForPrograms(const graph::OpSchema& schema) {
  static const std::set<std::string> made = {"Arg", "CheckGradient", "UniqueShards"};
  return !schema.on_parameter_server && !absl::EndsWith(schema.name, "Grad") &&
         !absl::StartsWith(schema.name, "Block") && !absl::StartsWith(schema.name, "Copy") &&
         made.count(schema.name) == 0;
}

TEST_CASE(
    "docs/ops.md has every op for programs, with its attributes and whether it has a gradient") {
  std::set<std::string> listed;
  for (const std::string& line : Lines("docs/ops.md")) {
    if (!absl::StartsWith(line, "| `")) continue;
    const std::vector<std::string> cells = absl::StrSplit(line, '|');
    REQUIRE(cells.size() == 6);  // with those before and behind
    for (const std::string& op : InBackquotes(cells[1])) {
      INFO(op);
      CHECK(listed.insert(op).second);
      const graph::OpSchema* const schema = AllOps().Find(op);
      REQUIRE(schema != nullptr);
      std::set<std::string> attrs(schema->attrs.begin(), schema->attrs.end());
      attrs.erase(kernels::kComputeAttr);
      attrs.erase(kernels::kSameOnAnyThreadsAttr);
      if (absl::StartsWith(op, "Reduce")) attrs.erase("mean");  // of ReduceGrad
      CHECK(absl::StrJoin(InBackquotes(cells[3]), " ") == absl::StrJoin(attrs, " "));
      const bool source = schema->max_inputs == 0;
      CHECK((source || absl::StrContains(cells[4], "no gradient")) == schema->not_differentiable);
    }
  }
  std::vector<std::string> missing;
  for (const std::string& op : AllOps().Names()) {
    if (IsForPrograms(*AllOps().Find(op)) && listed.count(op) == 0) missing.push_back(op);
  }
  CHECK(absl::StrJoin(missing, " ") == "");
}

}  // namespace
}  // namespace coxswain::testing
