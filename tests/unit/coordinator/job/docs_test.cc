// docs/job.md, the examples and the schema say the same.
#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "coordinator/job/checked_yaml.h"
#include "coordinator/job/job_parser.h"
#include "coordinator/job/loss_kind.h"
#include "coordinator/job/metric_kind.h"
#include "coordinator/job/model_kind.h"
#include "coordinator/job/schema.h"
#include "runtime/config/yaml_reader.h"
#include "runtime/data/spec_check.h"
#include "tests/testing/pages.h"
#include "tests/testing/paths.h"

namespace coxswain::job {
namespace {

const std::string kRoot = COXSWAIN_SOURCE_DIR;

std::string Page() {
  const absl::StatusOr<std::string> page = config::ReadTextFile(kRoot + "/docs/job.md");
  REQUIRE(page.ok());
  return *page;
}

std::string Title(const SchemaSection& section) {
  return absl::StrCat("## ", section.path[0] == '\0' ? "The file" : section.path, "\n\n");
}

TEST_CASE("docs/job.md has every key of the schema with its type, default and meaning") {
  const std::string page = Page();
  for (const SchemaSection* section : AllSections(JobSchema())) {
    const std::string wanted = Title(*section) + SchemaTable(*section) + "\n";
    INFO("the page should have:\n" << wanted);
    CHECK(absl::StrContains(page, wanted));
  }
}

std::string Quoted(const std::vector<const LossKind*>& losses) {
  std::string text;
  for (const LossKind* loss : losses) {
    absl::StrAppend(&text, text.empty() ? "`" : ", `", loss->name, "`");
  }
  return text;
}

TEST_CASE("docs/job.md has every kind of model with its score and its losses") {
  const std::string page = Page();
  for (const ModelKind* kind : AllModelKinds()) {
    const bool labelled = kind->predicts == Predicts::kLabel;
    std::string row =
        absl::StrCat("| `", kind->name, "` | ", kind->score, " | ", Quoted(LossesOf(*kind, 1)));
    if (!kind->says_of_classes.empty()) {
      absl::StrAppend(&row, "; with classes ", Quoted(LossesOf(*kind, 2)));
    }
    absl::StrAppend(&row, labelled ? " | as below |\n" : " | ");
    INFO("the page should have:\n" << row);
    CHECK(absl::StrContains(page, row));
  }
}

// "**auc**, **logloss**, `accuracy@5` (or another K)"
std::string MetricsLine(PredictionKind prediction) {
  std::string text;
  for (const MetricKind* metric : MetricsOf(prediction)) {
    const auto defaults = DefaultMetrics(prediction);
    const bool bold = std::find(defaults.begin(), defaults.end(), metric) != defaults.end();
    absl::StrAppend(&text, text.empty() ? "" : ", ", bold ? "**" : "`", metric->name,
                    bold ? "**" : "`", metric->has_k ? " (or another K)" : "");
  }
  return text;
}

TEST_CASE("docs/job.md has every metric, and those of each loss in their order") {
  const std::string page = Page();
  for (const MetricKind* kind : AllMetricKinds()) {
    INFO(kind->name);
    CHECK((absl::StrContains(page, absl::StrCat("`", kind->name, "`")) ||
           absl::StrContains(page, absl::StrCat("**", kind->name, "**"))));
  }
  for (const LossKind* loss : AllLossKinds()) {
    if (loss->prediction == PredictionKind::kRank || loss->prediction == PredictionKind::kPairs ||
        loss->prediction == PredictionKind::kTasks) {
      continue;  // of models, or of each task's loss
    }
    const std::string wanted = absl::StrCat(": ", MetricsLine(loss->prediction));
    INFO("the page should have: - `" << loss->name << "`" << wanted);
    bool found = false;
    for (absl::string_view line : absl::StrSplit(page, '\n')) {
      found = found || (absl::StartsWith(line, "- `") && absl::EndsWith(line, wanted) &&
                        absl::StrContains(line, absl::StrCat("`", loss->name, "`")));
    }
    CHECK(found);
  }
}

TEST_CASE("docs/metrics.md defines every metric, and docs/job.md every loss") {
  const absl::StatusOr<std::string> metrics = config::ReadTextFile(kRoot + "/docs/metrics.md");
  REQUIRE(metrics.ok());
  for (const MetricKind* kind : AllMetricKinds()) {
    std::string name = kind->name;
    if (kind->has_k) name = name.substr(0, name.find('@') + 1) + "K";
    INFO("the page should have: `" << name << "`");
    CHECK(absl::StrContains(*metrics, absl::StrCat("`", name, "`")));
  }
  const std::string page = Page();
  const size_t losses = page.find("\n## Losses\n");
  REQUIRE(losses != std::string::npos);
  for (const LossKind* loss : AllLossKinds()) {
    INFO(loss->name);
    if (loss->prediction == PredictionKind::kPairs) continue;  // of the model of words
    CHECK(absl::StrContains(page.substr(losses), absl::StrCat("`", loss->name, "`")));
  }
}

TEST_CASE("docs/job.md has no key that the schema lacks") {
  int keys = 0;
  for (const SchemaSection* section : AllSections(JobSchema())) {
    keys += static_cast<int>(section->keys.size());
  }
  const std::string page = Page();
  // Tables of keys are those with this head.
  int rows = 0;
  bool inside = false;
  for (absl::string_view line : absl::StrSplit(page, '\n')) {
    if (absl::StartsWith(line, "| key |")) {
      inside = true;
    } else if (!absl::StartsWith(line, "|")) {
      inside = false;
    } else if (inside && !absl::StartsWith(line, "|---")) {
      ++rows;
    }
  }
  CHECK(rows == keys);
}

TEST_CASE("the job shown in docs/job.md is valid") {
  const std::string page = Page();
  const std::string open = "```yaml\n";
  const size_t begin = page.find(open) + open.size();
  const absl::StatusOr<JobSpec> job =
      ParseJob(page.substr(begin, page.find("```", begin) - begin), "docs/job.md",
               {"train.batch_size=256", "features.genres.dim=32", "model.deep.hidden=[256, 128]",
                "train.epochs=", "train.steps=1000"});
  INFO(job.status().message());
  REQUIRE(job.ok());
  CHECK(job->FindFeature("genres")->dim() == 32);
  CHECK(job->train.steps == 1000);
}

// What is wrong with a piece of a job, beside what it lacks of the rest.
std::vector<std::string> WrongInPiece(const std::string& text, const std::string& page) {
  absl::StatusOr<config::YamlNode> root = config::ParseYaml(text, page);
  if (!root.ok()) return {std::string(root.status().message())};
  Problems problems;
  std::map<std::string, std::string> locations;
  SchemaChecker(&problems, &locations, JobSchema()).Check(&*root);
  std::vector<std::string> wrong =
      absl::StrSplit(problems.status().message(), '\n', absl::SkipEmpty());
  std::erase_if(wrong, [](const std::string& line) {
    return absl::StrContains(line, ": the file: '") && absl::StrContains(line, "' is missing (");
  });
  return wrong;
}

TEST_CASE("the jobs that pages show are valid, and so are the pieces of jobs") {
  std::vector<std::string> pages = {"README.md"};
  for (const auto& entry : std::filesystem::directory_iterator(kRoot + "/docs")) {
    if (entry.path().extension() == ".md") {
      pages.push_back("docs/" + entry.path().filename().string());
    }
  }
  int jobs = 0, pieces = 0;
  for (const std::string& page : pages) {
    for (const std::string& text : CodeBlocks(page, "yaml")) {
      INFO(page << " shows:\n" << text);
      const absl::StatusOr<config::YamlNode> root = config::ParseYaml(text, page);
      REQUIRE(root.ok());
      // Files of clusters, of faults, and of Prometheus' alerts.
      if (root->Find("ps") != nullptr || root->Find("faults") != nullptr) continue;
      if (root->Find("groups") != nullptr) continue;
      if (root->Find("dataset") != nullptr && root->Find("model") != nullptr) {
        CHECK(ParseJob(text, page).status().message() == "");
        ++jobs;
      } else {
        CHECK(WrongInPiece(text, page) == std::vector<std::string>{});
        ++pieces;
      }
    }
  }
  CHECK(jobs >= 8);
  CHECK(pieces >= 20);
}

TEST_CASE("every example is a valid job with paths from its own directory") {
  std::vector<std::string> files;
  for (const char* folder : {"/examples", "/examples/quality"}) {
    for (const auto& entry : std::filesystem::directory_iterator(kRoot + folder)) {
      const std::string name = entry.path().filename().string();
      const bool faults = name == "chaos.yaml" || name == "soak.yaml";  // no jobs
      if (entry.path().extension() == ".yaml" && !faults) files.push_back(entry.path().string());
    }
  }
  std::sort(files.begin(), files.end());
  CHECK(files.size() >= 3);
  for (const std::string& file : files) {
    const absl::StatusOr<JobSpec> job = ParseJobFile(file);
    INFO(job.status().message());
    REQUIRE(job.ok());
    CHECK(job->name == std::filesystem::path(file).stem().string());
    CHECK(absl::StartsWith(job->dataset.paths(0), kRoot + "/examples/"));
    CHECK(job->evaluate.enabled);
    const absl::StatusOr<proto::DatasetSpec> checked = data::CheckSpec(job->dataset);
    CHECK(checked.status().message() == "");
  }
}

TEST_CASE("the quickstart's job is the one that its quality was measured with") {
  const absl::StatusOr<JobSpec> job = ParseJobFile(kRoot + "/examples/packages.yaml");
  REQUIRE(job.ok());
  CHECK(std::string(KindOf(*job->model).name) == "two_tower");
  CHECK(job->model->Options() ==
        "user: {features: [history], hidden: []}, item: {feature: item, features: [], hidden: [], "
        "bias: true}, "
        "dim: 64, normalize: false, activation: relu, layer_norm: false, dropout: 0");
  CHECK(job->loss->sampling()->negatives == 1024);
  CHECK(job->loss->sampling()->distribution == Distribution::kUniform);
  CHECK(job->train.batch_size == 512);
  CHECK(job->train.epochs == 6);
  const proto::FeatureSpec& history = *job->FindFeature("history");
  CHECK(history.max_values() == 16);
  CHECK(history.combiner() == "sqrtn");
  CHECK(job->FindFeature("item")->oov_buckets() == 1);
  CHECK(job->dataset.split().holdout_min() == 3);
  REQUIRE(job->tables.size() == 3);
  for (const TableSpec& table : job->tables) {
    CHECK(table.optimizer.kind() == "lazy_adam");
    CHECK(table.optimizer.learning_rate() == 0.005);
  }
  CHECK(job->FindTable("item")->initializer.stddev() == 0.1);
  CHECK(job->FindTable("item_bias")->initializer.kind() == "zeros");
}

TEST_CASE("every section's selector is one of its keys and every default fits its type") {
  for (const SchemaSection* section : AllSections(JobSchema())) {
    INFO(section->path);
    std::vector<std::string> selectors;
    for (const SchemaKey& key : section->keys) {
      if (key.name == absl::string_view(section->selector)) selectors = Words(key.choices);
      CHECK((key.type == KeyType::kChoice) == (key.choices[0] != '\0'));
      CHECK((key.Sub() != nullptr) ==
            (key.type == KeyType::kSection || key.type == KeyType::kSections ||
             key.type == KeyType::kNamed));
    }
    if (section->selector[0] == '\0') continue;
    CHECK_FALSE(selectors.empty());
    for (const SchemaKey& key : section->keys) {
      for (const std::string& word : Words(key.only)) {
        INFO(key.name << " only for " << word);
        CHECK(std::find(selectors.begin(), selectors.end(), word) != selectors.end());
      }
    }
  }
}

TEST_CASE("a file that cannot be read is told by its path") {
  CHECK(ParseJobFile(kRoot + "/no/such.yaml").status().code() == absl::StatusCode::kNotFound);
  const absl::Status directory = ParseJobFile(kRoot).status();
  CHECK_FALSE(directory.ok());
  CHECK(absl::StrContains(directory.message(), kRoot));
}

}  // namespace
}  // namespace coxswain::job
