// The lists of model kinds, losses and metrics have every file, and their entries fit each other.
#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "coordinator/model/kinds/kind_list.h"
#include "coordinator/model/losses/loss_list.h"
#include "coordinator/model/metrics/metric_list.h"
#include "runtime/config/yaml_reader.h"
#include "tests/testing/paths.h"

namespace coxswain::model {
namespace {

using Files = std::set<std::string>;

// The files of a folder that define one of the things: `const job::ModelKind& MlpKind() {`.
Files Defining(const std::string& folder, const std::string& type) {
  Files files;
  const std::string path = absl::StrCat(COXSWAIN_SOURCE_DIR, "/coordinator/model/", folder);
  for (const auto& entry : std::filesystem::directory_iterator(path)) {
    if (entry.path().extension() != ".cc" ||
        absl::EndsWith(entry.path().stem().string(), "_list")) {
      continue;
    }
    const std::string text = config::ReadTextFile(entry.path().string()).value();
    if (absl::StrContains(text, absl::StrCat("\nconst job::", type, "& "))) {
      files.insert(entry.path().stem().string());
    }
  }
  return files;
}

TEST_CASE("every file of a model kind, a loss and a metric is in its list") {
#define COX_FILE(file, function) #file,
  const Files kinds = {COX_MODEL_KINDS(COX_FILE)};
  const Files losses = {COX_LOSSES(COX_FILE)};
  const Files metrics = {COX_METRICS(COX_FILE)};
#undef COX_FILE
  CHECK(Defining("kinds", "ModelKind") == kinds);
  CHECK(Defining("losses", "LossKind") == losses);
  CHECK(Defining("metrics", "MetricKind") == metrics);
}

TEST_CASE("every model kind has a file of its name, losses that there are, and bound keys") {
  std::set<std::string> names;
  for (const job::ModelKind* kind : job::AllModelKinds()) {
    INFO(kind->name);
    CHECK(names.insert(kind->name).second);
    CHECK(job::FindModelKind(kind->name) == kind);
    CHECK(kind->score != std::string());
    CHECK_FALSE(job::LossesOf(*kind, 1).empty());
    CHECK_FALSE(job::LossesOf(*kind, 2).empty());
    for (const job::SchemaKey& key : kind->keys) CHECK(key.binding != nullptr);
  }
#define COX_NAMED(file, function) CHECK(std::string(function().name) == #file);
  COX_MODEL_KINDS(COX_NAMED)
  COX_LOSSES(COX_NAMED)
#undef COX_NAMED
  CHECK(job::FindModelKind("perceptron") == nullptr);
}

TEST_CASE("a model that samples has losses that say how, and others have none") {
  for (const job::ModelKind* kind : job::AllModelKinds()) {
    for (const job::LossKind* known : job::LossesOf(*kind, 1)) {
      INFO(kind->name << " " << known->name);
      CHECK(job::FindLossKind(known->name) == known);
      const config::YamlNode empty;
      const auto loss = known->read(job::SectionView(&empty));
      const bool draws =
          kind->predicts != job::Predicts::kLabel && loss->against() == job::Against::kDrawn;
      CHECK((loss->sampling() != nullptr) == draws);
    }
  }
}

TEST_CASE("losses of rankings that are new change nothing for models of words") {
  std::vector<std::string> names;
  for (const job::LossKind* loss : job::LossesOf(*job::FindModelKind("word2vec"), 1)) {
    names.push_back(loss->name);
  }
  CHECK(names == std::vector<std::string>{"negative_sampling", "sampled_softmax"});
}

TEST_CASE("every metric that is asked for is counted, and has a place of its own") {
  std::set<std::pair<job::PredictionKind, int>> places;
  for (const job::MetricKind* kind : job::AllMetricKinds()) {
    INFO(kind->name);
    CHECK(job::FindMetricKind(kind->name) == kind);
    CHECK(kind->has_k == absl::StrContains(kind->name, "@"));
    for (const job::MetricKind::Of& of : kind->of) {
      CHECK(places.emplace(of.prediction, of.place).second);
      CHECK(kind->make(10) != nullptr);
    }
  }
  for (const job::PredictionKind p :
       {job::PredictionKind::kProbability, job::PredictionKind::kClasses,
        job::PredictionKind::kNumber, job::PredictionKind::kRank}) {
    CHECK_FALSE(job::DefaultMetrics(p).empty());
    for (const job::MetricKind* kind : job::DefaultMetrics(p)) CHECK_FALSE(kind->by_group);
  }
}

}  // namespace
}  // namespace coxswain::model
