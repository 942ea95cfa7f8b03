// batch_norm against its formula: a step goes by its batch, predictions by the running statistics,
// which a step moves.
#include <catch2/catch.hpp>
#include <cmath>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/testing/reference_gradient.h"

namespace coxswain::model {
namespace {

using Catch::Matchers::Contains;
using testing::CheckStepIsGradient;
using testing::CrossEntropy;
using testing::Row;
using testing::Trained;

constexpr char kPoints[] = "x,y,is\n1,0.5,1\n-1,1,0\n0.25,-2,1\n2,2,0\n0.5,0.1,1\n";
const std::vector<Row> kInputs = {{1, 0.5}, {-1, 1}, {0.25, -2}, {2, 2}, {0.5, 0.1}};
const Row kLabels = {1, 0, 1, 0, 1};

std::string Job(const std::string& keys, const std::string& rest = "") {
  return absl::StrCat("features:\n  - {name: x, kind: numeric}\n  - {name: y, kind: numeric}\n",
                      "label: {column: is}\nmodel: {kind: mlp, hidden: [3], activation: tanh, ",
                      keys, "}\n", rest);
}

Row Times(const Row& x, const Row& matrix, const Row& bias) {
  Row y = bias;
  for (size_t i = 0; i < x.size(); ++i) {
    for (size_t j = 0; j < y.size(); ++j) y[j] += x[i] * matrix[i * y.size() + j];
  }
  return y;
}

std::vector<Row> Sums(const Trained& t) {
  std::vector<Row> sums;
  for (const Row& x : kInputs) {
    sums.push_back(Times(x, t.values.at("deep/layer_0/kernel"), t.values.at("deep/layer_0/bias")));
  }
  return sums;
}

struct Statistics {
  Row mean, variance;
};

Statistics OfBatch(const std::vector<Row>& sums) {
  Statistics s{Row(3, 0.0), Row(3, 0.0)};
  const double n = static_cast<double>(sums.size());
  for (const Row& x : sums) {
    for (size_t d = 0; d < 3; ++d) s.mean[d] += x[d] / n;
  }
  for (const Row& x : sums) {
    for (size_t d = 0; d < 3; ++d) {
      s.variance[d] += (x[d] - s.mean[d]) * (x[d] - s.mean[d]) / n;
    }
  }
  return s;
}

double Logit(const Trained& t, Row sums, const Statistics& s, double epsilon) {
  for (size_t d = 0; d < 3; ++d) {
    const double unit = (sums[d] - s.mean[d]) / std::sqrt(s.variance[d] + epsilon);
    sums[d] = std::tanh(unit * t.values.at("deep/layer_0/norm_scale")[d] +
                        t.values.at("deep/layer_0/norm_shift")[d]);
  }
  return Times(sums, t.values.at("deep/layer_1/kernel"), t.values.at("deep/layer_1/bias"))[0];
}

double Loss(const Trained& t, double epsilon) {
  const std::vector<Row> sums = Sums(t);
  const Statistics batch = OfBatch(sums);
  double loss = 0;
  for (size_t i = 0; i < sums.size(); ++i) {
    loss += CrossEntropy(Logit(t, sums[i], batch, epsilon), kLabels[i]) / 5;
  }
  return loss;
}

TEST_CASE("batch_norm: a step goes by its batch, and its gradient goes through the statistics") {
  const std::string job = Job("batch_norm: {epsilon: 0.01}");
  Trained before(kPoints, job, 5, 7);
  const Trained after(kPoints, job, 5, 8);
  CHECK(before.values.count("deep/layer_1/running_mean") == 0);
  CheckStepIsGradient(&before, after, [](const Trained& t) { return Loss(t, 0.01); });
}

TEST_CASE("batch_norm: a step moves the running statistics towards those of its batch") {
  const std::string job = Job("batch_norm: {momentum: 0.75}");
  const Trained before(kPoints, job, 5, 7), after(kPoints, job, 5, 8);
  const Statistics batch = OfBatch(Sums(before));
  for (const auto& [name, towards] :
       {std::make_pair("deep/layer_0/running_mean", batch.mean),
        std::make_pair("deep/layer_0/running_variance", batch.variance)}) {
    for (size_t d = 0; d < 3; ++d) {
      INFO(name << " " << d);
      CHECK(
          after.values.at(name)[d] ==
          Approx(0.75 * before.values.at(name)[d] + 0.25 * towards[d]).epsilon(1e-4).margin(1e-5));
    }
  }
}

TEST_CASE("batch_norm: predictions go by the running statistics, whatever else is in the batch") {
  const Trained t(kPoints, Job("batch_norm: {momentum: 0.75}"), 5);
  const Statistics running{t.values.at("deep/layer_0/running_mean"),
                           t.values.at("deep/layer_0/running_variance")};
  const std::vector<Row> sums = Sums(t);
  Row logits;
  for (const Row& x : sums) logits.push_back(Logit(t, x, running, 0.001));
  testing::CheckPredictions(t, logits);
}

TEST_CASE("batch_norm: one of it and layer_norm, and its keys") {
  const auto parse = [](const std::string& keys) {
    return job::ParseJob("dataset: {path: a.csv}\n" + Job(keys), "job.yaml");
  };
  CHECK_THAT(std::string(parse("layer_norm: true, batch_norm: {}").status().message()),
             Contains("model.batch_norm: give one of layer_norm and batch_norm"));
  CHECK_THAT(std::string(parse("batch_norm: {momentum: 1}").status().message()),
             Contains("wanted number >= 0, < 1"));
  const auto job = parse("batch_norm: {}");
  REQUIRE(job.ok());
  CHECK_THAT(job->model->Options(), Contains("batch_norm: {momentum: 0.99, epsilon: 0.001}"));
}

}  // namespace
}  // namespace coxswain::model
