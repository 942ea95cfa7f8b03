// Every op has a case, every gradient is checked against differences, and everything lies where its
// name says.
#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "kernels/register_list.h"
#include "tests/ops/op_case.h"
#include "tests/testing/paths.h"

namespace coxswain::testing {
namespace {

struct OpFile {
  const char* name;
  const char* function_name;
  void (*function)(graph::OpRegistry*);
};
#define COX_OP_FILE(file, function) {#file, #function, kernels::function},
constexpr OpFile kOpFiles[] = {COX_OP_FILES(COX_OP_FILE)};
#undef COX_OP_FILE

// The file of kernels/ that registers each op.
std::map<std::string, std::string> FilesByOp() {
  std::map<std::string, std::string> files;
  for (const OpFile& file : kOpFiles) {
    graph::OpRegistry registry;
    file.function(&registry);
    for (const std::string& op : registry.Names()) files[op] = file.name;
  }
  return files;
}

std::string ReadFile(const std::filesystem::path& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

TEST_CASE("the list of op files has each file of kernels/ that registers ops, in order") {
  std::vector<std::string> listed, found;
  for (const OpFile& file : kOpFiles) {
    listed.push_back(absl::StrCat("X(", file.name, ", ", file.function_name, ")"));
  }
  const std::regex definition(R"(\nvoid (Register\w+)\(graph::OpRegistry\* registry\) \{)");
  const std::filesystem::path kernels = std::filesystem::path(COXSWAIN_SOURCE_DIR) / "kernels";
  for (const auto& entry : std::filesystem::directory_iterator(kernels)) {
    const std::filesystem::path& path = entry.path();
    if (path.extension() != ".cc" || path.stem() == "register") continue;
    const std::string text = ReadFile(path);
    if (std::smatch match; std::regex_search(text, match, definition)) {
      found.push_back(absl::StrCat("X(", path.stem().string(), ", ", match[1].str(), ")"));
    }
  }
  std::sort(found.begin(), found.end());
  CHECK(absl::StrJoin(listed, "\n") == absl::StrJoin(found, "\n"));
}

TEST_CASE("the cases of an op lie in the file that is named like the op's") {
  const std::map<std::string, std::string> files = FilesByOp();
  for (const OpCase& op_case : AllOpCases()) {
    INFO("kernels/" << files.at(op_case.op) << ".cc registers " << op_case.op);
    CHECK(absl::StrCat(op_case.file, "_cases.cc") ==
          absl::StrCat(files.at(op_case.op), "_cases.cc"));
  }
}

// An op that no kernel makes: the executor gives it its values.
bool IsFedByExecutor(const std::string& op) {
  return AllOps().Find(op)->not_differentiable && !AllOps().HasKernel(op);
}

TEST_CASE("every op has a kernel and a case") {
  std::set<std::string> covered;
  for (const OpCase& op_case : AllOpCases()) covered.insert(op_case.op);
  for (const std::string& op : AllOps().Names()) {
    if (IsFedByExecutor(op)) continue;
    INFO(op);
    CHECK(AllOps().HasKernel(op));
    CHECK(covered.contains(op));
  }
}

TEST_CASE("only arguments and copies are made by the executor itself") {
  std::vector<std::string> fed;
  for (const std::string& op : AllOps().Names()) {
    if (IsFedByExecutor(op)) fed.push_back(op);
  }
  CHECK(fed == std::vector<std::string>{"Arg", "CopyBetweenDevices", "CopyToDevice", "CopyToHost"});
}

TEST_CASE("every gradient of every input is checked by a case") {
  std::set<std::pair<std::string, int>> checked, flowing;
  for (const OpCase& op_case : AllOpCases()) {
    for (int input : op_case.differentiate) checked.insert({op_case.op, input});
    for (int input : InputsWithGradient(op_case, AllOps())) flowing.insert({op_case.op, input});
  }
  for (const auto& [op, input] : flowing) {
    INFO(op << ", input " << input);
    CHECK(checked.count({op, input}) == 1);
  }
  for (const std::string& op : AllOps().Names()) {
    const graph::OpSchema* schema = AllOps().Find(op);
    if (schema->gradient == nullptr || schema->not_differentiable) continue;
    INFO(op);
    CHECK(std::any_of(checked.begin(), checked.end(),
                      [&](const auto& input) { return input.first == op; }));
  }
}

TEST_CASE("no op without a derivative has a gradient") {
  for (const std::string& op : AllOps().Names()) {
    const graph::OpSchema* schema = AllOps().Find(op);
    INFO(op);
    CHECK((schema->gradient == nullptr) == schema->not_differentiable);
  }
}

TEST_CASE("every op computes what its cases say") { CheckAllCases(CheckForward); }

TEST_CASE("every gradient agrees with central differences") {
  CheckAllCases(CheckGradient, HasGradient);
}

}  // namespace
}  // namespace coxswain::testing
