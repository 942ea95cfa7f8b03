// Keys that would change nothing are refused in a job file, by their place.
#include <catch2/catch.hpp>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "coordinator/job/job_parser.h"
#include "tests/testing/data_files.h"

namespace coxswain::job {
namespace {

using Catch::Matchers::Contains;

std::string ErrorOf(const std::string& text) {
  const DataFiles files;
  // What a model has kept of such a job is read.
  const auto kept = ParseKeptJob(text, "job.yaml", "/");
  INFO(kept.status().message());
  REQUIRE(kept.ok());
  const auto job = ParseJobFile(files.Write("job.yaml", text));
  return job.ok() ? "" : std::string(job.status().message());
}

std::string Labelled(const std::string& item, const std::string& model,
                     const std::string& more = "") {
  return absl::StrCat("dataset: {path: a.csv}\nfeatures:\n  - {name: item, kind: categorical", item,
                      "}\n  - {name: n, kind: numeric}\nlabel: {column: y}\nmodel: ", model, "\n",
                      more);
}

TEST_CASE("a job file may not give a dimension to a feature that has a weight for each value") {
  CHECK_THAT(ErrorOf(Labelled(", dim: 4", "{kind: logistic_regression}")),
             Contains("job.yaml:3:") && Contains("features.item.dim: it would change nothing") &&
                 Contains("a logistic_regression has a weight each"));
  CHECK_THAT(ErrorOf(Labelled(", dim: 4", "{kind: linear_regression}")),
             Contains("features.item.dim"));
  CHECK(ErrorOf(Labelled("", "{kind: logistic_regression}")).empty());
  CHECK(ErrorOf(Labelled(", dim: 4", "{kind: mlp, hidden: [4]}")).empty());
  const std::string wide =
      "{kind: wide_deep, wide: {features: [item]}, deep: {features: [n], "
      "hidden: [4]}}";
  CHECK_THAT(ErrorOf(Labelled(", dim: 4", wide)), Contains("features.item.dim"));
}

TEST_CASE("a job file may not say how a din or a sasrec sums up the history, which they do not") {
  const auto job = [](const std::string& history, const std::string& rest) {
    return absl::StrCat(
        "dataset: {path: a.csv}\nfeatures:\n  - {name: item, kind: categorical}\n"
        "  - {name: seen, kind: history, history_of: item, group_by: user, by: time, max_values: 3",
        history, "}\n", rest, "\n");
  };
  const std::string sasrec = "model: {kind: sasrec, history: seen, dim: 4}";
  const std::string din =
      "label: {column: y}\nmodel: {kind: din, target: item, history: seen, hidden: [4]}";
  for (const std::string& model : {sasrec, din}) {
    CAPTURE(model);
    CHECK(ErrorOf(job("", model)).empty());
    CHECK_THAT(ErrorOf(job(", combiner: sum", model)),
               Contains("features.seen.combiner: it would change nothing"));
  }
  CHECK_THAT(ErrorOf(job(", dim: 4, combiner: sum", sasrec)),
             Contains("features.seen.dim") && Contains("features.seen.combiner"));
  const std::string two_tower =
      "model: {kind: two_tower, user: {features: [seen]}, item: {feature: item}}";
  CHECK(ErrorOf(job(", combiner: sum", two_tower)).empty());
}

TEST_CASE("a job file may not give two penalties to a table, of which one counts") {
  const std::string model = "{kind: mlp, hidden: [4]}";
  const std::string both =
      "tables: {item: {l2: 0.1, optimizer: {kind: sgd, learning_rate: 0.1, l2: 0.2}}}";
  CHECK_THAT(ErrorOf(Labelled("", model, both)),
             Contains("tables.item.optimizer.l2: it would change nothing: tables.item.l2 takes"));
  CHECK(ErrorOf(Labelled("", model,
                         "tables: {item: {l2: 0.1, optimizer: {kind: sgd, learning_rate: 0.1}}}"))
            .empty());
}

}  // namespace
}  // namespace coxswain::job
