// docs/report.md and the report say the same.
#include <catch2/catch.hpp>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "coordinator/api/variable_info.h"
#include "coordinator/cli/display.h"
#include "coordinator/job/schema.h"
#include "nlohmann/json.hpp"
#include "runtime/config/yaml_reader.h"
#include "tests/testing/paths.h"

namespace coxswain::cli {
namespace {

using Json = nlohmann::json;

std::string Page() {
  const absl::StatusOr<std::string> page =
      config::ReadTextFile(COXSWAIN_SOURCE_DIR "/docs/report.md");
  REQUIRE(page.ok());
  return *page;
}

// A result in which everything is set, so that no list and no object of its report is empty. Its
// one metric has the name that the page gives to any.
runner::JobResult FullResult() {
  runner::JobResult r;
  r.job = "all";
  r.steps = 10;
  r.examples = 30;
  r.bad_rows = 1;
  r.train_seconds = 1.5;
  r.evaluate_seconds = 0.25;
  r.final_loss = 0.5;
  r.stopped_early = true;
  r.metrics = {{"NAME", 0.75}};
  r.baseline = {{"NAME", 0.125}};
  r.evaluated_part = "test";
  r.evaluated_examples = 40;
  r.evaluations = {{1, 5, 0.75, 2.5, "validation", 20, {{"NAME", 0.5}}, {{"NAME", 1}}},
                   {2, 10, 1.5, 1.5, "test", 40, {{"NAME", 0.75}}, {{"NAME", 2}}}};
  r.intervals = {{"NAME", {0.5, 1}}};
  for (runner::Evaluation& e : r.evaluations) e.intervals = r.intervals;
  r.slices = {{"country", "de", 25, {{"NAME", 0.5}}}};
  r.suggestions = {{"curl", {"libc6"}, {"zlib1g", "libssl3"}}};
  r.closures.scheduled = 12;
  r.closures.completed = 11;
  r.closures.failed = 1;
  r.closures.retried = 2;
  r.failures = {3, 2, 5, {0.5, 1.25}, 7, 9, 1, 6};
  r.resumes = 4;
  r.updates = {10, 9, 6, 8, 1, 9, {}};
  r.updates.rows[0] = {100, 0, 0, 0, {{1, 2, 0, 1}, 8, 6, 40, 10}};
  r.checkpoints = {6, 1, 1 << 20, 2.5, 0.125};
  r.visitation = {40, 2, 3};
  r.workers = 3;
  r.parameter_servers = 1;
  auto table = std::make_shared<VariableInfo>();
  table->name = "item";
  table->shape = Shape{100, 8};
  table->optimizer.set_kind("adagrad");
  table->table = true;
  table->strategy = "mod";
  table->shards.resize(1);
  table->shards[0].set_rows(100);
  r.variables = {table};
  r.traffic = {{4, 1000.5, 2000.5}};
  return r;
}

Json Report() { return Json::parse(ToReportJson(FullResult())); }

std::string ScalarType(const Json& value) {
  if (value.is_boolean()) return "true or false";
  if (value.is_number_integer()) return "integer";
  if (value.is_number()) return "number";
  return value.is_string() ? "text" : "nothing";
}

// "evaluations[].metrics.NAME" -> "number", for everything below `value`.
void Collect(const Json& value, const std::string& path, std::map<std::string, std::string>* keys) {
  for (const auto& [name, member] : value.items()) {
    const std::string key = path.empty() ? name : absl::StrCat(path, ".", name);
    if (member.is_object()) {
      (*keys)[key] = "object";
      Collect(member, key, keys);
    } else if (!member.is_array()) {
      (*keys)[key] = ScalarType(member);
    } else if (!member.empty() && member[0].is_object()) {
      (*keys)[key] = "list";
      for (const Json& element : member) Collect(element, key + "[]", keys);
    } else {
      (*keys)[key] = absl::StrCat("list of ", member.empty() ? "nothing" : ScalarType(member[0]));
    }
  }
}

// The tables with the head `key`: key -> type.
std::map<std::string, std::string> Documented() {
  std::map<std::string, std::string> keys;
  bool inside = false;
  for (absl::string_view line : absl::StrSplit(Page(), '\n')) {
    if (absl::StartsWith(line, "| key |")) {
      inside = true;
    } else if (!absl::StartsWith(line, "|")) {
      inside = false;
    } else if (inside && !absl::StartsWith(line, "|---")) {
      const std::vector<std::string> cells = absl::StrSplit(line, " | ");
      INFO(line);
      REQUIRE(cells.size() == 3);
      REQUIRE(cells[0].size() > 4);
      const std::string key = cells[0].substr(3, cells[0].size() - 4);  // "| `key`"
      CHECK(keys.emplace(key, cells[1]).second);
    }
  }
  return keys;
}

TEST_CASE("docs/report.md has every key of the report with its type, and no other", "[report]") {
  std::map<std::string, std::string> reported;
  Collect(Report(), "", &reported);
  const auto documented = Documented();
  for (const auto& [key, type] : reported) {
    INFO(key << " is in the report");
    REQUIRE(documented.count(key) == 1);
    CHECK(documented.at(key) == type);
  }
  for (const auto& [key, type] : documented) {
    INFO(key << " is on the page");
    CHECK(reported.count(key) == 1);
  }
}

TEST_CASE("the report shown in docs/report.md has the keys and types of a report", "[report]") {
  const std::string page = Page();
  const std::string open = "```json\n";
  const size_t begin = page.find(open);
  REQUIRE(begin != std::string::npos);
  const size_t end = page.find("```", begin + open.size());
  const Json shown =
      Json::parse(page.substr(begin + open.size(), end - begin - open.size()), nullptr, false);
  REQUIRE(shown.is_object());
  std::map<std::string, std::string> found, wanted;
  Collect(shown, "", &found);
  Collect(Report(), "", &wanted);
  wanted.erase("evaluations[].counts.NAME");   // what is shown is no word2vec's
  std::map<std::string, std::string> renamed;  // any metric is called NAME in `wanted`
  for (const auto& [key, type] : found) {
    const size_t metric = key.rfind(".hit_rate@10");
    renamed[metric == std::string::npos ? key : key.substr(0, metric) + ".NAME"] = type;
  }
  CHECK(renamed == wanted);
}

TEST_CASE("docs/report.md names the dtypes that a job's tables can have, and no other",
          "[report]") {
  std::set<std::string> possible, named;
  for (const job::SchemaKey& key : job::JobSection("tables.NAME").keys) {
    if (key.name != absl::string_view("dtype")) continue;
    for (const std::string& word : job::Words(key.choices)) possible.insert(word);
  }
  const std::string page = Page();
  const size_t begin = page.find("| `variables[].dtype` |");
  REQUIRE(begin != std::string::npos);
  const std::string row = page.substr(begin, page.find('\n', begin) - begin);
  for (const DType dtype :
       {DType::kF32, DType::kF64, DType::kI32, DType::kI64, DType::kBool, DType::kBF16}) {
    const std::string name(DTypeName(dtype));
    if (absl::StrContains(row, absl::StrCat("`", name, "`"))) named.insert(name);
  }
  CHECK(possible.size() > 1);
  CHECK(named == possible);
}

TEST_CASE("a report says what the result holds", "[report]") {
  const Json report = Report();
  CHECK(report["steps"] == 10);
  CHECK(report["examples_per_second"] == 20.0);
  CHECK(report["closures"] == Json({{"scheduled", 12},
                                    {"completed", 11},
                                    {"failed", 1},
                                    {"retried", 2},
                                    {"rerun", 7},
                                    {"quarantined", 1},
                                    {"timeouts", 6}}));
  CHECK(report["failures"] == Json({{"worker", 3},
                                    {"ps", 2},
                                    {"coordinator", 4},
                                    {"recovered", 5},
                                    {"recovery_seconds", {0.5, 1.25}}}));
  CHECK(report["updates"] == Json({{"scheduled", 10},
                                   {"applied", 9},
                                   {"duplicates_dropped", 6},
                                   {"shards", 8},
                                   {"shards_off", 1},
                                   {"lost", 9}}));
  CHECK(report["checkpoint"]["written"] == 6);
  CHECK(report["checkpoint"]["stall_seconds"] == 0.125);
  CHECK(report["visitation"] == Json({{"examples", 40}, {"missing", 2}, {"repeated", 3}}));
  CHECK(report["evaluations"][1]["train_seconds"] == 1.5);
  CHECK(report["variables"][0]["shape"] == Json({100, 8}));
  CHECK(report["variables"][0]["shards"][0]["rows"] == 100);
  CHECK(report["variables"][0]["staleness"] == Json({{"gradients", 4},
                                                     {"mean", 2.0},
                                                     {"most", 6},
                                                     {"histogram", {1, 2, 0, 1}},
                                                     {"rows", 40},
                                                     {"rows_changed", 10}}));
  CHECK(report["rpc"][0]["bytes_received_per_step"] == 1000.5);
  CHECK(report["suggestions"][0]["items"] == Json({"zlib1g", "libssl3"}));
}

TEST_CASE("a report is valid JSON also with names that are not UTF-8 and without training",
          "[report]") {
  runner::JobResult r = FullResult();
  r.suggestions[0].group = "\xff\xfe";
  r.train_seconds = 0;
  const Json report = Json::parse(ToReportJson(r), nullptr, false);
  REQUIRE(report.is_object());
  CHECK(report["examples_per_second"] == 0.0);
  r.visitation.reset();  // not counted: the key is there all the same
  CHECK(Json::parse(ToReportJson(r))["visitation"].is_null());
}

}  // namespace
}  // namespace coxswain::cli
