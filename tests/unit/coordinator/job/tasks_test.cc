// `labels`: several labels, a task each, and what is wrong with them.
#include <catch2/catch.hpp>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "coordinator/job/job_parser.h"
#include "coordinator/job/loss_kind.h"

namespace coxswain::job {
namespace {

using Catch::Matchers::Contains;

std::string Text(const std::string& labels, const std::string& rest = "",
                 const std::string& model = "{kind: mmoe, experts: 2}") {
  return absl::StrCat("dataset: {path: a.csv}\nfeatures:\n  - {name: age, kind: numeric}\n",
                      "  - {name: shop, kind: categorical}\nsplit: {test: 0.1}\nmodel: ", model,
                      "\n", labels, rest);
}

constexpr char kTwo[] =
    "labels:\n  - {name: click, column: c, positive: \"> 2\"}\n"
    "  - {name: stars, column: s, weight: w, loss: {kind: huber, delta: 2}, loss_weight: 0.5}\n";

std::string ErrorOf(const std::string& text) {
  const auto job = ParseJob(text, "job.yaml");
  REQUIRE_FALSE(job.ok());
  return std::string(job.status().message());
}

JobSpec MustParse(const std::string& labels) {
  auto job = ParseJob(Text(labels), "job.yaml");
  INFO(job.status().message());
  REQUIRE(job.ok());
  return *std::move(job);
}

std::vector<std::string> MetricNames(const std::string& text) {
  const auto job = ParseJob(text, "job.yaml");
  INFO(job.status().message());
  REQUIRE(job.ok());
  std::vector<std::string> names;
  for (const MetricSpec& metric : job->evaluate.metrics) names.push_back(metric.name);
  return names;
}

TEST_CASE("labels and features: their names have no accents, and their columns may") {
  const std::string labels =
      "labels:\n  - {name: käufe, column: käufe}\n  - {name: b, column: c}\n";
  CHECK_THAT(ErrorOf(Text(labels)),
             Contains("labels.käufe: wanted a name of ASCII letters, digits, '_' and '-' "
                      "other than 'weight'; found 'käufe'"));
  const std::string file = absl::StrReplaceAll(Text(kTwo), {{"name: age", "name: größe"}});
  CHECK_THAT(ErrorOf(file),
             Contains("features.größe: wanted a name of ASCII letters, digits, '_' and "
                      "'-' other than 'label' and 'known'; found 'größe'; a column may have any "
                      "name: {name: NAME, column: \"größe\"}"));
  const auto named = ParseJob(
      absl::StrReplaceAll(
          Text(kTwo), {{"name: age", "name: size, column: größe"}, {"column: s", "column: übrig"}}),
      "job.yaml");
  INFO(named.status().message());
  REQUIRE(named.ok());
  CHECK(named->dataset.features(0).column() == "größe");
  CHECK(named->dataset.labels(1).column() == "übrig");
}

TEST_CASE("labels: each has a column, a loss, a weight of rows and one of the loss") {
  const auto job = ParseJob(Text(kTwo), "job.yaml");
  INFO(job.status().message());
  REQUIRE(job.ok());
  REQUIRE(job->tasks.size() == 2);
  REQUIRE(job->dataset.labels_size() == 2);
  CHECK(job->dataset.label().ByteSizeLong() == 0);
  CHECK(std::string(KindOf(*job->loss).name) == "by_task");
  CHECK(job->tasks[0].name == "click");
  CHECK(std::string(KindOf(*job->tasks[0].loss).name) == "sigmoid_cross_entropy");
  CHECK(job->tasks[0].loss_weight == 1);
  CHECK(job->dataset.labels(0).positive_comparison() == ">");
  CHECK(job->dataset.labels(0).bounded());
  CHECK(std::string(KindOf(*job->tasks[1].loss).name) == "huber");
  CHECK(job->tasks[1].loss_weight == 0.5);
  CHECK(job->dataset.labels(1).weight() == "w");
  CHECK_FALSE(job->dataset.labels(1).bounded());
}

TEST_CASE("labels: a loss without a kind is the default one, with its keys alone") {
  CHECK_THAT(
      ErrorOf(Text("labels: [{name: a, column: c, loss: {delta: 2}}]\n")),
      Catch::Matchers::StartsWith("job.yaml:7:38: key 'delta' in labels.a.loss is not for kind "
                                  "sigmoid_cross_entropy, only for huber"));
  const auto job = ParseJob(Text("labels: [{name: a, column: c, loss: {}}]\n"), "job.yaml");
  INFO(job.status().message());
  REQUIRE(job.ok());
  CHECK(std::string(KindOf(*job->tasks[0].loss).name) == "sigmoid_cross_entropy");
}

TEST_CASE("labels: metrics are TASK/metric; one without a task is of all that it fits") {
  CHECK(MetricNames(Text(kTwo)) ==
        std::vector<std::string>{"click/auc", "click/logloss", "click/accuracy", "stars/rmse"});
  CHECK(MetricNames(Text(kTwo, "evaluate: {metrics: [mae, click/auc]}\n")) ==
        std::vector<std::string>{"stars/mae", "click/auc"});
  CHECK(MetricNames(Text(kTwo,
                         "evaluate: {metrics: [stars/mae]}\n"
                         "train: {early_stopping: {metric: stars/mae}}\n"))
            .size() == 1);
  CHECK_THAT(ErrorOf(Text(kTwo, "evaluate: {metrics: [clik/auc]}\n")),
             Contains("unknown task 'clik'") && Contains("click"));
  CHECK_THAT(ErrorOf(Text(kTwo, "evaluate: {metrics: [stars/auc]}\n")),
             Contains("'stars/auc' says nothing about this task"));
  CHECK_THAT(ErrorOf(Text(kTwo, "evaluate: {metrics: [hit_rate@10]}\n")),
             Contains("says nothing about any of the tasks"));
  CHECK_THAT(ErrorOf(Text(kTwo, "evaluate: {metrics: [click/auc, auc]}\n")),
             Contains("'click/auc' is there twice"));
}

TEST_CASE("labels: a mistake in them is the only error, also where metrics go by them") {
  const std::string rest =
      "evaluate: {metrics: [click/auc]}\ntrain: {early_stopping: {metric: click/auc}}\n";
  for (const char* labels :
       {"labels: [{name: click, columm: c}]\n", "labels: [{name: a/b, column: c}]\n",
        "labels: [{name: click, column: c, positive: big}]\n"}) {
    const std::string error = ErrorOf(Text(labels, rest));
    CAPTURE(error);
    CHECK_THAT(error, Contains("labels"));
    CHECK_THAT(error, !Contains("evaluate") && !Contains("early_stopping"));
  }
}

constexpr char kGenres[] =
    "labels:\n  - {name: genre, column: g, value_separator: \"|\", loss_weight: 0.5,\n"
    "     classes: [Action, Children's, Sci-Fi]}\n  - {name: click, column: c}\n";

TEST_CASE("labels with classes: a task each, whose label is 1 where the list has it") {
  const auto job = ParseJob(Text(kGenres), "job.yaml");
  INFO(job.status().message());
  REQUIRE(job.ok());
  REQUIRE(job->tasks.size() == 4);
  REQUIRE(job->dataset.labels_size() == 4);
  CHECK(job->tasks[1].name == "genre-Children_s");
  CHECK(job->tasks[1].list == "genre");
  CHECK(job->tasks[1].loss_weight == 0.5);
  CHECK(job->dataset.labels(1).name() == "genre-Children_s");
  CHECK(job->dataset.labels(1).column() == "g");
  CHECK(job->dataset.labels(1).value_separator() == "|");
  REQUIRE(job->dataset.labels(1).positive_values_size() == 1);
  CHECK(job->dataset.labels(1).positive_values(0) == "Children's");
  CHECK(job->tasks[3].list.empty());
  CHECK(job->dataset.labels(3).value_separator().empty());
  CHECK(job->Where("labels.genre-Sci-Fi") == job->Where("labels.genre"));
  CHECK(MustParse("labels: [{name: g, column: g, classes: [a, b]}]\n")
            .dataset.labels(0)
            .value_separator() == " ");
}

TEST_CASE("labels with classes: a metric of the list is the mean, and stands for all of them") {
  const std::vector<std::string> all = {"genre/auc", "genre/logloss", "genre/accuracy",
                                        "click/auc", "click/logloss", "click/accuracy"};
  CHECK(MetricNames(Text(kGenres)) == all);
  CHECK(MetricNames(Text(kGenres, "evaluate: {metrics: [auc, genre-Action/auc]}\n")) ==
        std::vector<std::string>{"genre/auc", "click/auc", "genre-Action/auc"});
  const auto job = ParseJob(Text(kGenres), "job.yaml");
  REQUIRE(job.ok());
  CHECK(job->evaluate.metrics[0].task == 0);
  CHECK(job->evaluate.metrics[0].tasks == 3);
  CHECK(job->evaluate.metrics[3].task == 3);
  CHECK(job->evaluate.metrics[3].tasks == 1);
  CHECK_THAT(ErrorOf(Text(kGenres, "evaluate: {metrics: [gnre/auc]}\n")),
             Contains("unknown task 'gnre'") && Contains("genre"));
}

std::vector<std::string> ClassNames(const std::string& classes) {
  const JobSpec job = MustParse(absl::StrCat(
      "labels: [{name: g, column: g, value_separator: '|', classes: ", classes, "}]\n"));
  std::vector<std::string> names;
  for (const TaskSpec& task : job.tasks) names.push_back(task.name);
  return names;
}

TEST_CASE("labels with classes: a task's name keeps the letters of any script") {
  CHECK(ClassNames("[Comédie, 喜剧, \"Драма 2\"]") ==
        std::vector<std::string>{"g-Comédie", "g-喜剧", "g-Драма_2"});
  // A blank and a control character of Latin-1 are no letters.
  CHECK(ClassNames("[\"a\\u00a0b\", \"c\\u0085d\"]") == std::vector<std::string>{"g-a_b", "g-c_d"});
}

TEST_CASE("labels with classes: names that would be the same get numbers") {
  CHECK(ClassNames("[a b, a_b, a!b]") == std::vector<std::string>{"g-a_b-2", "g-a_b", "g-a_b-3"});
  CHECK(ClassNames("['?', '!', _-2]") == std::vector<std::string>{"g-_", "g-_-3", "g-_-2"});
}

TEST_CASE("labels with classes: an unknown task's error names each that there is once") {
  CHECK_THAT(ErrorOf(Text(kGenres, "evaluate: {metrics: [gnre/auc]}\n")),
             Contains("there is: genre, genre-Action, genre-Children_s, genre-Sci-Fi, click"));
}

TEST_CASE("labels: where there is one, or one list, early stopping may name the metric alone") {
  const auto metric_of = [](const std::string& labels) {
    const auto job = ParseJob(Text(labels,
                                   "train: {early_stopping: {metric: auc}, "
                                   "reduce_on_plateau: {metric: logloss}}\n"),
                              "job.yaml");
    INFO(job.status().message());
    REQUIRE(job.ok());
    return job->train.early_stopping->metric + " " + job->train.reduce_on_plateau->metric;
  };
  CHECK(metric_of("labels: [{name: genre, column: g, classes: [a, b]}]\n") ==
        "genre/auc genre/logloss");
  CHECK(metric_of("labels: [{name: click, column: c}]\n") == "click/auc click/logloss");
  CHECK_THAT(
      ErrorOf(Text(kGenres,
                   "evaluate: {metrics: [auc]}\n"
                   "train: {early_stopping: {metric: auc}}\n")),
      Contains("unknown metric of evaluate 'auc'") && Contains("there is: genre/auc, click/auc"));
}

TEST_CASE("labels with classes: what is wrong with them is said with its place") {
  const auto error = [](const std::string& keys) {
    return ErrorOf(Text(absl::StrCat("labels:\n  - {name: g, column: g, ", keys, "}\n")));
  };
  CHECK_THAT(error("classes: [a, b], positive_values: [a]"),
             Contains("job.yaml:8") && Contains("wanted neither positive nor positive_values"));
  CHECK_THAT(error("classes: [a, a]"), Contains("labels.g.classes: 'a' is there twice"));
  CHECK_THAT(error("value_separator: x"), Contains("this is for a label that has classes"));
  CHECK_THAT(error("classes: [a], value_separator: ''"), Contains("labels.g.value_separator"));
  CHECK_THAT(error("classes: [a]}\n  - {name: g-a, column: c"),
             Contains("a second label of the name 'g-a'"));
}

TEST_CASE("labels: what is wrong with them is said with its place") {
  CHECK_THAT(ErrorOf(Text("")), Contains("a mmoe needs a list of labels, a task each"));
  CHECK_THAT(ErrorOf(Text("label: {column: c}\n", kTwo)),
             Contains("job.yaml:7:") && Contains("label: a mmoe has several"));
  CHECK_THAT(ErrorOf(Text(kTwo, "label: {column: c}\n", "{kind: mlp}")),
             Contains("a mlp has one label"));
  CHECK_THAT(ErrorOf(Text("labels: [{name: a/b, column: c}]\n")), Contains("found 'a/b'"));
  CHECK_THAT(ErrorOf(Text("labels: [{name: weight, column: c}]\n")), Contains("found 'weight'"));
  CHECK_THAT(ErrorOf(Text("labels: [{name: a, column: c}, {name: a, column: d}]\n")),
             Contains("a second label of the name 'a'"));
  CHECK_THAT(ErrorOf(Text("labels: [{name: a}]\n")), Contains("column"));
  CHECK_THAT(ErrorOf(Text("labels: [{name: a, column: c, loss: {kind: bpr}}]\n")),
             Contains("labels.a.loss.kind: bpr is not for a task"));
  CHECK_THAT(ErrorOf(Text("labels: [{name: a, column: c, positive: big}]\n")),
             Contains("labels.a.positive: wanted a comparison"));
  CHECK_THAT(ErrorOf(Text(kTwo, "loss: {kind: mse}\n")), Contains("it has: by_task"));
  CHECK_THAT(ErrorOf(Text(kTwo, "", "{kind: mmoe, hidden: []}")),
             Contains("an expert needs a layer"));
}

}  // namespace
}  // namespace coxswain::job
