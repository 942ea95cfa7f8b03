// Losses against their formulas, written out in double precision, and their gradients against
// central differences of these.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "coordinator/api/local_function.h"
#include "coordinator/job/job_parser.h"
#include "coordinator/job/loss_kind.h"
#include "kernels/register.h"
#include "runtime/env/compute_pool.h"
#include "runtime/function/executor.h"
#include "tests/testing/cluster.h"

namespace coxswain::model {
namespace {

using testing::Must;
using testing::ToVector;
using Row = std::vector<double>;
using Ids = std::vector<int64_t>;

std::shared_ptr<const job::LossSpec> Loss(const std::string& model, const std::string& loss) {
  return Must(job::ParseJob(absl::StrCat("dataset: {path: a.csv}\nfeatures: [{name: u, kind: ",
                                         "categorical}, {name: i, kind: categorical}]\nmodel: ",
                                         model, "\nloss: ", loss, "\n"),
                            "job.yaml"))
      .loss;
}

struct Input {
  std::string name;
  Tensor value;
};

// Losses of examples and, behind them, the gradients of their sum for the first `differentiate`
// inputs.
std::vector<Row> Run(const std::vector<Input>& inputs, size_t differentiate,
                     const std::function<Output(FunctionBuilder&)>& losses) {
  graph::OpRegistry registry;
  kernels::RegisterAllOps(&registry);
  std::vector<data::ColumnSpec> columns;
  std::vector<Tensor> arguments;
  for (const Input& input : inputs) {
    columns.push_back({input.name, {input.value.dtype(), input.value.shape()}});
  }
  graph::Function built = Must(
      BuildLocalFunction("loss", &registry, columns, ComputeType::kF32, [&](FunctionBuilder& f) {
        const Output loss = losses(f);
        f.Result("loss", loss);
        std::vector<Output> xs;
        for (size_t i = 0; i < differentiate; ++i) xs.push_back(f.Column(inputs[i].name));
        const std::vector<Output> gradients = f.Gradients({loss}, xs);
        for (size_t i = 0; i < xs.size(); ++i) f.Result(absl::StrCat("g", i), gradients[i]);
      }));
  for (const graph::Function::Argument& argument : built.arguments) {
    for (const Input& input : inputs) {
      if (input.name == argument.name) arguments.push_back(input.value);
    }
  }
  const auto function = Must(function::CompiledFunction::Compile(std::move(built)));
  const auto pool = env::NewInlinePool();
  function::RunOptions options;
  options.pool = pool.get();
  std::vector<Row> rows;
  for (const Tensor& result : Must(function->Run(arguments, options))) {
    const std::vector<float> values = ToVector<float>(result);
    rows.emplace_back(values.begin(), values.end());
  }
  return rows;
}

void CheckClose(const Row& found, const Row& wanted) {
  REQUIRE(found.size() == wanted.size());
  for (size_t i = 0; i < wanted.size(); ++i) {
    INFO(i);
    CHECK(found[i] == Approx(wanted[i]).epsilon(1e-4).margin(1e-5));
  }
}

// The derivative of `sum` at each of `x`.
Row Differences(Row x, const std::function<double(const Row&)>& sum) {
  Row slopes;
  for (double& number : x) {
    constexpr double kStep = 1e-6;
    const double at = number;
    number = at + kStep;
    const double above = sum(x);
    number = at - kStep;
    slopes.push_back((above - sum(x)) / (2 * kStep));
    number = at;
  }
  return slopes;
}

double Softplus(double x) { return std::log1p(std::exp(-std::fabs(x))) + std::max(x, 0.0); }
double Sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

TEST_CASE("each loss of a label is its formula, and so is its gradient", "[losses]") {
  struct Case {
    std::string model, loss;
    std::function<double(double, double)> formula;  // of score and label
    bool binary = true;
  };
  const std::vector<Case> cases = {
      {"{kind: logistic_regression}", "{kind: hinge}",
       [](double s, double y) { return std::max(0.0, 1 - (2 * y - 1) * s); }},
      {"{kind: logistic_regression}", "{kind: focal, gamma: 1.5, alpha: 0.3}",
       [](double s, double y) {
         const double p = Sigmoid(s);
         return -0.3 * y * std::pow(1 - p, 1.5) * std::log(p) -
                0.7 * (1 - y) * std::pow(p, 1.5) * std::log(1 - p);
       }},
      {"{kind: logistic_regression}", "{kind: focal, gamma: 0, alpha: 0.5}",
       [](double s, double y) { return 0.5 * (Softplus(s) - y * s); }},
      {"{kind: linear_regression}", "{kind: mae}",
       [](double s, double y) { return std::fabs(s - y); }, false},
      {"{kind: linear_regression}", "{kind: huber, delta: 0.75}",
       [](double s, double y) {
         const double e = std::fabs(s - y);
         return e <= 0.75 ? e * e / 2 : 0.75 * (e - 0.75 / 2);
       },
       false},
  };
  for (const Case& c : cases) {
    INFO(c.loss);
    const auto loss = Loss(c.model + "\nlabel: {column: y}", c.loss);
    const Row scores = {-3, -0.9, -0.2, 0.1, 0.6, 0.8, 2.5, 4};
    Row labels = {0, 1, 1, 0, 0, 1, 1, 0};
    if (!c.binary) labels = {-3.5, 0.5, 0.1, 0.2, 0.1, 3, 2, -1};
    const auto tensor = [](const Row& row) {
      return Tensor::FromVector(std::vector<float>(row.begin(), row.end()));
    };
    const auto found =
        Run({{"scores", tensor(scores)}, {"labels", tensor(labels)}}, 1, [&](FunctionBuilder& f) {
          return loss->PerExample(f, f.Column("scores"), f.Column("labels"));
        });
    Row wanted;
    for (size_t i = 0; i < scores.size(); ++i) wanted.push_back(c.formula(scores[i], labels[i]));
    CheckClose(found[0], wanted);
    CheckClose(found[1], Differences(scores, [&](const Row& x) {
                 double sum = 0;
                 for (size_t i = 0; i < x.size(); ++i) sum += c.formula(x[i], labels[i]);
                 return sum;
               }));
  }
}

TEST_CASE("scores far from 0 make no infinite loss", "[losses]") {
  for (const char* text : {"{kind: hinge}", "{kind: focal}"}) {
    INFO(text);
    const auto loss = Loss("{kind: logistic_regression}\nlabel: {column: y}", text);
    const auto found = Run({{"scores", Tensor::FromVector<float>({-300, 300, -300, 300})},
                            {"labels", Tensor::FromVector<float>({0, 0, 1, 1})}},
                           1, [&](FunctionBuilder& f) {
                             return loss->PerExample(f, f.Column("scores"), f.Column("labels"));
                           });
    for (const Row& row : found) {
      for (const double x : row) CHECK(std::isfinite(x));
    }
  }
}

// Three examples with items 4, 2, 4 and what they are held against.
struct Ranked {
  Row own = {0.4, -0.3, 1.1}, others, biases = {0.1, 0.2, -0.3, 0.05};
  Ids own_ids = {4, 2, 4}, other_ids = {2, 7, 4, 7};
  Row known = {0, 0, 0, 0, 0, 1, 0, 1, 1, 0, 0, 0};
  Row correction = {0.3, -0.2, 0.1, -0.2};

  Ranked() {
    for (int i = 0; i < 12; ++i) others.push_back(0.7 * std::sin(1.0 + 2.3 * i));
  }
  double Score(const Row& x, size_t i, size_t n) const { return x[4 * i + n] + biases[n]; }
};

Tensor Matrix(const Row& row, int64_t columns) {
  const std::vector<float> values(row.begin(), row.end());
  return Tensor::FromVector(values, Shape{static_cast<int64_t>(row.size()) / columns, columns})
      .value();
}
Tensor Vector(const Row& row) {
  return Tensor::FromVector(std::vector<float>(row.begin(), row.end()));
}

// `formula`: the loss of example i by the own scores and the others.
void CheckRanking(const job::LossSpec& loss, const Ranked& r, bool corrected, bool with_ids,
                  const std::function<double(const Row&, const Row&, size_t)>& formula) {
  const std::vector<Input> inputs = {{"own", Vector(r.own)},
                                     {"others", Matrix(r.others, 4)},
                                     {"biases", Vector(r.biases)},
                                     {"own_ids", Tensor::FromVector(r.own_ids)},
                                     {"other_ids", Tensor::FromVector(r.other_ids)},
                                     {"known", Matrix(r.known, 4)},
                                     {"correction", Vector(r.correction)},
                                     {"own_log_q", Vector({-1.5, -0.5, -2.5})}};
  const auto found = Run(inputs, 2, [&](FunctionBuilder& f) {
    job::Ranking ranking;
    ranking.own = f.Column("own");
    ranking.others = f.Column("others");
    ranking.biases = f.Column("biases");
    if (with_ids) {
      ranking.own_ids = f.Column("own_ids");
      ranking.other_ids = f.Column("other_ids");
    }
    if (loss.rejects_known()) ranking.known = f.Column("known");
    // A function has no argument that it does not use.
    if (corrected && loss.against() == job::Against::kDrawn) {
      ranking.correction = f.Column("correction");
    } else if (corrected) {
      ranking.log_q = f.Column("correction");
      ranking.own_log_q = f.Column("own_log_q");
    }
    return loss.PerRanking(f, ranking);
  });
  Row wanted;
  for (size_t i = 0; i < 3; ++i) wanted.push_back(formula(r.own, r.others, i));
  CheckClose(found[0], wanted);
  const auto sum = [&](const Row& own, const Row& others) {
    double all = 0;
    for (size_t i = 0; i < 3; ++i) all += formula(own, others, i);
    return all;
  };
  CheckClose(found[1], Differences(r.own, [&](const Row& x) { return sum(x, r.others); }));
  CheckClose(found[2], Differences(r.others, [&](const Row& x) { return sum(r.own, x); }));
}

std::shared_ptr<const job::LossSpec> RankingLoss(const std::string& loss) {
  return Loss("{kind: two_tower, user: {features: [u]}, item: {feature: i}}", loss);
}

TEST_CASE("bpr is the mean over items that the example does not have", "[losses]") {
  const Ranked r;
  for (const bool reject : {true, false}) {
    INFO(reject);
    const auto loss =
        RankingLoss(absl::StrCat("{kind: bpr, reject_known: ", reject ? "true" : "false", "}"));
    CheckRanking(*loss, r, false, true, [&](const Row& own, const Row& others, size_t i) {
      double sum = 0, count = 0;
      for (size_t n = 0; n < 4; ++n) {
        if (r.other_ids[n] == r.own_ids[i] || (reject && r.known[4 * i + n] > 0)) continue;
        sum += -std::log(Sigmoid(own[i] - r.Score(others, i, n)));
        ++count;
      }
      return sum / count;
    });
  }
}

TEST_CASE("in_batch_softmax leaves the example's own item out, wherever it is", "[losses]") {
  const Ranked r;
  const Row own_log_q = {-1.5, -0.5, -2.5};
  for (const bool correct : {true, false}) {
    INFO(correct);
    const auto loss = RankingLoss(
        absl::StrCat("{kind: in_batch_softmax, correct: ", correct ? "true" : "false", "}"));
    CheckRanking(*loss, r, correct, true, [&](const Row& own, const Row& others, size_t i) {
      const double t = own[i] - (correct ? own_log_q[i] : 0);
      double sum = std::exp(t);
      for (size_t n = 0; n < 4; ++n) {
        if (r.other_ids[n] == r.own_ids[i] || r.known[4 * i + n] > 0) continue;
        sum += std::exp(r.Score(others, i, n) - (correct ? r.correction[n] : 0));
      }
      return std::log(sum) - t;
    });
  }
}

TEST_CASE("sampled_softmax takes what an example is known to have only if it is not told otherwise",
          "[losses]") {
  const Ranked r;
  for (const bool reject : {true, false}) {
    INFO(reject);
    const auto loss = RankingLoss(
        absl::StrCat("{kind: sampled_softmax, reject_known: ", reject ? "true" : "false", "}"));
    CheckRanking(*loss, r, true, reject, [&](const Row& own, const Row& others, size_t i) {
      double sum = std::exp(own[i]);
      for (size_t n = 0; n < 4; ++n) {
        if (reject && (r.other_ids[n] == r.own_ids[i] || r.known[4 * i + n] > 0)) continue;
        sum += std::exp(r.Score(others, i, n) + r.correction[n]);
      }
      return std::log(sum) - own[i];
    });
  }
}

TEST_CASE("full_softmax is the cross entropy over all items", "[losses]") {
  const Row scores = {0.1, 1.5, -0.7, 0.3, 0.2, 0.9};
  const Ids items = {2, 0};
  const auto loss = RankingLoss("{kind: full_softmax}");
  const auto found = Run({{"scores", Matrix(scores, 3)}, {"items", Tensor::FromVector(items)}}, 1,
                         [&](FunctionBuilder& f) {
                           job::Ranking ranking;
                           ranking.others = f.Column("scores");
                           ranking.own_ids = f.Column("items");
                           return loss->PerRanking(f, ranking);
                         });
  const auto formula = [&](const Row& x, size_t i) {
    double sum = 0;
    for (size_t n = 0; n < 3; ++n) sum += std::exp(x[3 * i + n]);
    return std::log(sum) - x[3 * i + static_cast<size_t>(items[i])];
  };
  CheckClose(found[0], {formula(scores, 0), formula(scores, 1)});
  CheckClose(found[1],
             Differences(scores, [&](const Row& x) { return formula(x, 0) + formula(x, 1); }));
}

}  // namespace
}  // namespace coxswain::model
