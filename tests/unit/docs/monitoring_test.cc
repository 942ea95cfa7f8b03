// docs/monitoring.md and the programs say the same.
#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <regex>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "coordinator/cli/train_families.h"
#include "ps_server/ps_metrics.h"
#include "runtime/cluster/daemon_metrics.h"
#include "runtime/config/yaml_reader.h"
#include "runtime/metrics/metrics_endpoint.h"
#include "tests/testing/http_get.h"
#include "tests/testing/pages.h"
#include "worker_server/worker_metrics.h"

namespace coxswain {
namespace {

constexpr char kPage[] = "docs/monitoring.md";

// Of a metric: its type, and its labels as the page has them.
using Described = std::map<std::string, std::pair<std::string, std::string>>;

// Readings of which nothing is left out.
metrics::Families AllFamilies() {
  metrics::Families all;
  const auto add = [&](const metrics::Families& some) {
    all.insert(all.end(), some.begin(), some.end());
  };
  cli::TrainReading train;
  train.job = "films";
  train.progress.emplace();
  train.epoch = train.epochs = train.total_steps = 1;
  train.meter = runner::TrainingMeter::Reading{5, 50, 1, 0.5, 0.5};
  runner::Evaluation evaluation;
  evaluation.part = "test";
  evaluation.metrics = {{"auc", 0.5}};
  train.evaluations["test"] = evaluation;
  train.cluster.emplace();
  train.cluster->last_checkpoint = core::Controller::Stats::LastCheckpoint{7, absl::Now(), 0.5};
  add(cli::TrainFamilies(train));

  proto::TaskStatus status;
  status.add_shards()->set_variable("item");
  add(cluster::TaskInfo("coxswain_ps", 0));
  add(ps::PsFamilies("coxswain_ps", status, {}, false));

  static const worker::AttemptsEnded ended;
  worker::WorkerReading reading;
  reading.ended = &ended;
  reading.traffic = {{0, {1, 2}}};
  reading.gpus = {{"GPU", 1}};
  add(cluster::TaskInfo("coxswain_worker", 0));
  add(worker::WorkerFamilies("coxswain_worker", status, reading));
  return all;
}

std::string LabelsOf(absl::string_view text) {
  static const std::regex name("([a-z_]+)=\"");
  std::vector<std::string> names;
  const std::string labels(text);
  for (std::sregex_iterator it(labels.begin(), labels.end(), name), end; it != end; ++it) {
    if ((*it)[1] != "le") names.push_back(absl::StrCat("`", (*it)[1].str(), "`"));
  }
  return absl::StrJoin(names, ", ");
}

// From what a scrape of everything shows.
Described Shown() {
  auto endpoint = metrics::MetricsEndpoint::Listen("127.0.0.1:0", AllFamilies);
  REQUIRE(endpoint.ok());
  Scrape((*endpoint)->address());  // the exposer's own are of the scrapes before
  Described shown;
  std::string name;
  for (absl::string_view line : absl::StrSplit(Scrape((*endpoint)->address()), '\n')) {
    if (absl::ConsumePrefix(&line, "# TYPE ")) {
      const std::vector<std::string> words = absl::StrSplit(line, ' ');
      name = words.at(0);
      CHECK(shown.count(name) == 0);  // a family is there once
      shown[name].first = words.at(1);
    } else if (!name.empty() && absl::StartsWith(line, name) && absl::StrContains(line, '{')) {
      const std::string labels = LabelsOf(line);
      if (!labels.empty()) shown[name].second = labels;
    }
  }
  return shown;
}

Described OnPage() {
  Described page;
  for (absl::string_view line : absl::StrSplit(PageText(kPage), '\n')) {
    std::vector<std::string> cells = absl::StrSplit(line, '|');
    if (cells.size() != 6) continue;
    for (std::string& cell : cells) absl::StripAsciiWhitespace(&cell);
    std::string name = cells[1];
    if (!absl::StartsWith(name, "`")) continue;
    name = name.substr(1, name.size() - 2);
    CHECK(page.count(name) == 0);
    page[name] = {cells[2], cells[3]};
    INFO(name);
    CHECK_FALSE(cells[4].empty());
  }
  return page;
}

}  // namespace

TEST_CASE("docs/monitoring.md has every metric with its type and labels, and no other", "[docs]") {
  const Described shown = Shown(), page = OnPage();
  CHECK(shown.size() > 60);
  for (const auto& [name, described] : shown) {
    CAPTURE(name);
    const auto found = page.find(name);
    REQUIRE(found != page.end());
    CHECK(found->second == described);
  }
  for (const auto& [name, described] : page) {
    CAPTURE(name);
    CHECK(shown.count(name) == 1);
  }
}

TEST_CASE("metrics keep to Prometheus' habits", "[docs]") {
  for (const metrics::Family& family : AllFamilies()) {
    CAPTURE(family.name);
    CHECK((family.kind == metrics::Kind::kCounter) == absl::EndsWith(family.name, "_total"));
    CHECK(std::all_of(family.name.begin(), family.name.end(),
                      [](char c) { return absl::ascii_islower(c) || c == '_'; }));
    CHECK_FALSE(family.samples.empty());
    // The text format has one line for it.
    CHECK(family.help.find_first_of("\n\\") == std::string::npos);
    CHECK_FALSE(absl::EndsWith(family.help, "."));
    for (const metrics::Sample& sample : family.samples) {
      for (const metrics::Label& label : sample.labels) {
        CHECK(label.name != "job");       // Prometheus' own
        CHECK(label.name != "instance");  // as is this
      }
    }
  }
}

TEST_CASE("queries and alerts of docs/monitoring.md name metrics that there are", "[docs]") {
  const Described page = OnPage();
  const std::regex name("(coxswain|process)_[a-z_]+");
  std::set<std::string> asked;
  std::vector<std::string> blocks = CodeBlocks(kPage, "promql");
  CHECK(blocks.size() >= 4);
  const std::vector<std::string> rules = CodeBlocks(kPage, "yaml");
  REQUIRE(rules.size() == 1);
  const auto yaml = config::ParseYaml(rules[0], "rules.yaml");
  INFO(yaml.status().ToString());
  CHECK(yaml.ok());
  blocks.push_back(rules[0]);
  for (const std::string& block : blocks) {
    for (std::sregex_iterator it(block.begin(), block.end(), name), end; it != end; ++it) {
      asked.insert(std::string(absl::StripSuffix(it->str(), "_bucket")));
    }
  }
  CHECK(asked.size() > 10);
  for (const std::string& one : asked) {
    CAPTURE(one);
    CHECK(page.count(one) == 1);
  }
}

}  // namespace coxswain
