// A model begins with the prediction that is right on average, and not with 1/2 or 0.
#include <catch2/catch.hpp>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "coordinator/api/variable_info.h"
#include "coordinator/model/losses/log_odds.h"
#include "tests/testing/training_job.h"

namespace coxswain::model {
namespace {

using testing::Must;

// y is 1 in a third of the rows, z in a quarter; the mean of stars is 3.
std::string Rows() {
  std::string rows = "user,film,age,y,z,stars,class\n";
  for (int i = 0; i < 120; ++i) {
    absl::StrAppend(&rows, "u", i * 7 % 20, ",f", i % 11, ",", i % 17 - 8, ",", i % 3 == 0, ",",
                    i % 4 == 0, ",", 1 + i % 5, ",", i % 3, "\n");
  }
  return rows;
}

std::string Job(const std::string& label, const std::string& model, const std::string& loss = "") {
  return absl::StrCat("name: first\ndataset: {path: a.csv}\nfeatures:\n",
                      "  - {name: user, kind: categorical}\n  - {name: film, kind: categorical}\n",
                      "  - {name: age, kind: numeric}\n", label, "\nmodel: ", model, "\n", loss);
}

std::vector<float> ValueOf(TrainingJob* job, const std::string& name) {
  for (const auto& info : job->strategy()->variables()) {
    if (info->name != name) continue;
    const Tensor value = Must(job->strategy()->Read(Variable(info)));
    return {value.values<float>().begin(), value.values<float>().end()};
  }
  FAIL("there is no variable " << name);
  return {};
}

std::vector<float> FirstOf(const std::string& text, const std::string& name) {
  const DataFiles files;
  files.Write("a.csv", Rows());
  TrainingJob job(files, text);
  return ValueOf(&job, name);
}

TEST_CASE("first score: of all models with one score it is that of the labels' mean") {
  const float third = std::log(0.5f);  // 1/3 to 2/3
  for (const auto& [model, bias] : std::vector<std::pair<std::string, std::string>>{
           {"{kind: logistic_regression}", "wide/bias"},
           {"{kind: wide_deep, deep: {hidden: [4]}}", "wide/bias"},
           {"{kind: deepfm, dim: 3, hidden: [4]}", "wide/bias"},
           {"{kind: fm, dim: 3}", "wide/bias"},
           {"{kind: ffm, dim: 2}", "wide/bias"},
           {"{kind: mlp, hidden: [4]}", "deep/layer_1/bias"},
           {"{kind: dlrm, dim: 4, bottom: [3], top: [5]}", "top/layer_1/bias"},
           {"{kind: dcn_v2, hidden: [4]}", "deep/layer_1/bias"},
           {"{kind: dcn_v2, hidden: [4], structure: parallel}", "deep/layer_1/bias"},
           {"{kind: autoint, dim: 3, head_dim: 2, hidden: [4]}", "deep/layer_1/bias"}}) {
    CAPTURE(model);
    const std::vector<float> first = FirstOf(Job("label: {column: y}", model), bias);
    REQUIRE(first.size() == 1);
    CHECK(first[0] == Approx(third));
  }
  const std::vector<float> factors = FirstOf(
      "name: first\ndataset: {path: a.csv}\nfeatures:\n  - {name: user, kind: categorical}\n"
      "  - {name: film, kind: categorical}\nlabel: {column: stars}\nmodel: {kind: "
      "matrix_factorization, user: {feature: user}, item: {feature: film}}\nloss: {kind: mse}\n",
      "mean");
  CHECK(factors == std::vector<float>{3});
}

TEST_CASE("first score: each task has its own, and layers that are inside begin with zeros") {
  const std::string labels = "labels:\n  - {name: y, column: y}\n  - {name: z, column: z}";
  for (const char* model : {"{kind: shared_bottom, hidden: [4], tower: [3]}",
                            "{kind: mmoe, experts: 2, hidden: [4], tower: [3]}"}) {
    CAPTURE(model);
    const DataFiles files;
    files.Write("a.csv", Rows());
    TrainingJob job(files, Job(labels, model));
    CHECK(ValueOf(&job, "tower/y/layer_1/bias")[0] == Approx(std::log(0.5)));
    CHECK(ValueOf(&job, "tower/z/layer_1/bias")[0] == Approx(std::log(1.0 / 3)));
    CHECK(ValueOf(&job, "tower/y/layer_0/bias") == std::vector<float>(3, 0));
  }
}

TEST_CASE("first score: it goes by the loss") {
  const auto first = [](const char* loss, const char* column = "stars") {
    return FirstOf(Job(absl::StrCat("label: {column: ", column, "}"), "{kind: mlp, hidden: [4]}",
                       absl::StrCat("loss: {kind: ", loss, "}\n")),
                   "deep/layer_1/bias")[0];
  };
  CHECK(first("mse") == Approx(3));
  CHECK(first("mae") == Approx(3));
  CHECK(first("huber") == Approx(3));
  CHECK(first("focal", "y") == Approx(std::log(0.5)));
  CHECK(first("hinge", "y") == 0);
  // A score for each class has no first one.
  CHECK(FirstOf(Job("label: {column: class}", "{kind: logistic_regression, classes: 3}"),
                "wide/bias") == std::vector<float>(3, 0));
}

TEST_CASE("first score: labels that are all the same have one that can be learned again") {
  CHECK(LogOdds(0.25) == Approx(std::log(1.0 / 3)));
  CHECK(LogOdds(0) == Approx(std::log(1e-6)).epsilon(1e-3));
  CHECK(LogOdds(1) == Approx(-LogOdds(0)));
}

}  // namespace
}  // namespace coxswain::model
