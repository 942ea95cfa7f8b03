// The front page shows what there is: its job, its cluster file, its program, its commands.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cstddef>
#include <regex>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "coordinator/cli/commands/command_list.h"
#include "coordinator/cli/exit_code.h"
#include "coordinator/job/job_parser.h"
#include "coordinator/job/model_kind.h"
#include "runtime/cluster/cluster_config.h"
#include "runtime/config/yaml_reader.h"
#include "tests/testing/pages.h"

namespace coxswain {
namespace {

// Lines without indentation; empty ones are left out.
std::vector<std::string> Trimmed(const std::string& text) {
  std::vector<std::string> lines;
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    const absl::string_view trimmed = absl::StripAsciiWhitespace(line);
    if (!trimmed.empty()) lines.emplace_back(trimmed);
  }
  return lines;
}

TEST_CASE("the job on the front page is valid", "[readme]") {
  const std::vector<std::string> blocks = CodeBlocks("README.md", "yaml");
  REQUIRE(blocks.size() == 2);
  const absl::StatusOr<job::JobSpec> job = job::ParseJob(blocks[0], "films.yaml");
  INFO(job.status().message());
  REQUIRE(job.ok());
  CHECK(std::string(job::KindOf(*job->model).name) == "matrix_factorization");
  CHECK(job->train.early_stopping.has_value());
}

TEST_CASE("the cluster on the front page is valid as a file and as TF_CONFIG", "[readme]") {
  const absl::StatusOr<cluster::ClusterConfig> file =
      cluster::ParseClusterConfig(CodeBlocks("README.md", "yaml")[1], "cluster.yaml");
  INFO(file.status().message());
  REQUIRE(file.ok());
  CHECK(file->ps.size() == 2);
  CHECK(file->workers.size() == 3);
  const std::vector<std::string> json = CodeBlocks("README.md", "json");
  REQUIRE(json.size() == 1);
  const absl::StatusOr<cluster::TaskConfig> task = cluster::ParseTfConfig(json[0]);
  INFO(task.status().message());
  REQUIRE(task.ok());
  CHECK(task->type == "ps");
}

TEST_CASE("the program on the front page is a part of the example program", "[readme]") {
  const std::vector<std::string> blocks = CodeBlocks("README.md", "cpp");
  REQUIRE(blocks.size() == 1);
  const std::vector<std::string> shown = Trimmed(blocks[0]);
  const std::vector<std::string> program = Trimmed(PageText("examples/program/main.cc"));
  REQUIRE(shown.size() > 10);
  const auto begin = std::find(program.begin(), program.end(), shown[0]);
  REQUIRE(program.end() - begin >= static_cast<std::ptrdiff_t>(shown.size()));
  for (size_t i = 0; i < shown.size(); ++i)
    CHECK(begin[static_cast<std::ptrdiff_t>(i)] == shown[i]);
}

TEST_CASE("the front page names every command and no other", "[readme]") {
  std::string source;
#define COX_FILE(file, function) source += PageText("coordinator/cli/commands/" #file ".cc");
  COX_COMMANDS(COX_FILE)
#undef COX_FILE
  const std::regex added("app\\.add_subcommand\\(\\s*\"([a-z]+)\"");
  std::set<std::string> commands;
  for (std::sregex_iterator it(source.begin(), source.end(), added), end; it != end; ++it) {
    commands.insert((*it)[1]);
  }
  CHECK(commands.size() >= 7);
  const std::regex shown("`coxswain ([a-z]+)[ `].*");
  std::set<std::string> named;
  for (const std::string& cell : FirstCells("README.md", "command")) {
    std::smatch match;
    if (std::regex_match(cell, match, shown)) named.insert(match[1]);
  }
  CHECK(named == commands);
}

TEST_CASE("the front page has the exit codes that the programs return", "[readme]") {
  const std::vector<std::string> wanted = {
      absl::StrCat(cli::kExitDone),      absl::StrCat(cli::kExitUsage),
      absl::StrCat(cli::kExitJobFailed), absl::StrCat(cli::kExitUnreachable),
      absl::StrCat(cli::kExitResumable), absl::StrCat(cli::kExitInterrupted)};
  CHECK(FirstCells("README.md", "exit code") == wanted);
}

}  // namespace
}  // namespace coxswain
