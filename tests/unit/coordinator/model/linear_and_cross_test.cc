// linear_regression, logistic_regression of several classes, dcn_v2, and what hidden layers may do
// beside their activation, against their formulas, in plain loops over the values of the variables.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/testing/trained_model.h"

namespace coxswain::model {
namespace {

using testing::Bag;
using testing::CheckPredictions;
using testing::Example;
using testing::kExamples;
using testing::Layers;
using testing::Row;
using testing::ShopJob;
using testing::Trained;

TEST_CASE("linear_regression is a weight for each value, and weight times number") {
  const Trained t(testing::kShopData,
                  ShopJob("{kind: linear_regression}", "mean") + "loss: {kind: huber}\n", 5);
  REQUIRE(t.predictions.size() == kExamples.size());
  for (size_t i = 0; i < kExamples.size(); ++i) {
    const Example& e = kExamples[i];
    const double score = t.values.at("wide/bias")[0] + t.Vector("shop_linear", e.shop, 1)[0] +
                         Bag(t, "tags_linear", e.tags, 1, "sum")[0] +
                         t.values.at("wide/age")[0] * e.numbers[0] +
                         t.values.at("wide/price")[0] * e.numbers[1];
    CHECK(t.predictions[i] == Approx(score).epsilon(1e-4));
  }
  CHECK(t.losses.back() < 0.9f * t.losses.front());
}

TEST_CASE("logistic_regression of several classes has weights for each of them") {
  const std::string csv =
      "shop,tags,age,price,kind\na,x|y|y,1,0.5,1\nb,,-2,0.25,0\nc,z,0.5,3,2\n"
      "a,y|z,0,-1,0\nb,x,2,1,2\n";
  std::string job = ShopJob("{kind: logistic_regression, classes: 3}", "mean");
  job.replace(job.find("bought"), 6, "kind");
  const Trained t(csv, job, 5);
  CHECK(t.values.at("wide/bias").size() == 3);
  CHECK(t.values.at("shop_linear").size() % 3 == 0);
  REQUIRE(t.predictions.size() == 3 * kExamples.size());
  for (size_t i = 0; i < kExamples.size(); ++i) {
    const Example& e = kExamples[i];
    const Row shop = t.Vector("shop_linear", e.shop, 3),
              tags = Bag(t, "tags_linear", e.tags, 3, "sum");
    Row scores;
    double sum = 0;
    for (size_t c = 0; c < 3; ++c) {
      scores.push_back(t.values.at("wide/bias")[c] + shop[c] + tags[c] +
                       t.values.at("wide/age")[c] * e.numbers[0] +
                       t.values.at("wide/price")[c] * e.numbers[1]);
      sum += std::exp(scores.back());
    }
    for (size_t c = 0; c < 3; ++c) {
      CHECK(t.predictions[3 * i + c] == Approx(std::exp(scores[c]) / sum).epsilon(1e-4));
    }
  }
  CHECK(t.losses.back() < 0.9f * t.losses.front());
}

Row SideBySide(const Trained& t, const Example& e, int64_t dim) {
  Row x = t.Vector("shop", e.shop, dim);
  const Row tags = Bag(t, "tags", e.tags, dim, "mean");
  x.insert(x.end(), tags.begin(), tags.end());
  x.insert(x.end(), e.numbers.begin(), e.numbers.end());
  return x;
}

// The rows of a matrix that has `columns`.
Row Times(const Row& x, const Row& matrix, size_t columns) {
  Row y(columns, 0.0);
  for (size_t i = 0; i < x.size(); ++i) {
    for (size_t j = 0; j < columns; ++j) y[j] += x[i] * matrix[i * columns + j];
  }
  return y;
}

Row Crossed(const Trained& t, const Row& first, int layers, size_t rank) {
  Row x = first;
  for (int l = 0; l < layers; ++l) {
    const std::string name = absl::StrCat("cross/layer_", l, "/");
    Row y = rank == 0
                ? Times(x, t.values.at(name + "kernel"), x.size())
                : Times(Times(x, t.values.at(name + "u"), rank), t.values.at(name + "v"), x.size());
    for (size_t d = 0; d < x.size(); ++d) {
      x[d] += first[d] * (y[d] + t.values.at(name + "bias")[d]);
    }
  }
  return x;
}

TEST_CASE("dcn_v2 multiplies the features with what its cross layers make of them") {
  for (const size_t rank : {size_t{0}, size_t{3}}) {
    INFO(rank);
    const std::string model =
        absl::StrCat("{kind: dcn_v2, cross_layers: 2, rank: ", rank, ", hidden: [4], structure: ");
    const Trained stacked(model + "stacked}", "mean"), parallel(model + "parallel}", "mean");
    Row logits, beside;
    for (const Example& e : kExamples) {
      const Row x = SideBySide(stacked, e, 16);
      logits.push_back(Layers(stacked, "deep", Crossed(stacked, x, 2, rank), false)[0]);
      const Row first = SideBySide(parallel, e, 16);
      beside.push_back(Layers(parallel, "top", Crossed(parallel, first, 2, rank), false)[0] +
                       Layers(parallel, "deep", first, false)[0]);
    }
    CheckPredictions(stacked, logits);
    CheckPredictions(parallel, beside);
  }
}

TEST_CASE("layer_norm scales an example's numbers before the activation") {
  const Trained t("{kind: mlp, hidden: [4], layer_norm: true}", "mean");
  const Row &kernel = t.values.at("deep/layer_0/kernel"), &bias = t.values.at("deep/layer_0/bias");
  const Row &scale = t.values.at("deep/layer_0/norm_scale"),
            &shift = t.values.at("deep/layer_0/norm_shift");
  CHECK(t.values.count("deep/layer_1/norm_scale") == 0);
  Row logits;
  for (const Example& e : kExamples) {
    Row x = Times(SideBySide(t, e, 16), kernel, 4);
    double mean = 0, variance = 0;
    for (size_t d = 0; d < 4; ++d) mean += (x[d] += bias[d]) / 4;
    for (const double v : x) variance += (v - mean) * (v - mean) / 4;
    for (size_t d = 0; d < 4; ++d) {
      x[d] = std::max(0.0, (x[d] - mean) / std::sqrt(variance + 1e-5) * scale[d] + shift[d]);
    }
    logits.push_back(Times(x, t.values.at("deep/layer_1/kernel"), 1)[0] +
                     t.values.at("deep/layer_1/bias")[0]);
  }
  CheckPredictions(t, logits);
}

TEST_CASE("dropout drops in training, the same when it is run again, and nothing else") {
  const std::string model = "{kind: mlp, hidden: [8], dropout: ";
  const Trained t(model + "0.5}", "mean"), again(model + "0.5}", "mean"),
      none(model + "0}", "mean");
  CHECK(t.losses == again.losses);
  CHECK(t.losses != none.losses);
  // What it predicts is of all numbers.
  Row logits;
  for (const Example& e : kExamples) {
    logits.push_back(Layers(t, "deep", SideBySide(t, e, 16), false)[0]);
  }
  CheckPredictions(t, logits);
}

constexpr char kVisits[] = R"(user,item,bought
u,a,1
u,b,0
u,c,1
v,b,1
v,d,0
w,c,0
)";

// What a user has beside the item at hand.
std::vector<std::string> Had(const std::string& user, const std::string& item) {
  std::vector<std::string> had;
  const std::vector<std::pair<std::string, std::string>> rows = {
      {"u", "a"}, {"u", "b"}, {"u", "c"}, {"v", "b"}, {"v", "d"}, {"w", "c"}};
  for (const auto& [who, what] : rows) {
    if (who == user && what != item) had.push_back(what);
  }
  return had;
}

TEST_CASE("din weighs what is in a history by layers on it and the item at hand") {
  const Trained t(
      kVisits,
      "features:\n  - {name: item, kind: categorical, dim: 3}\n"
      "  - {name: history, kind: history, history_of: item, group_by: user}\n"
      "label: {column: bought}\n"
      "model: {kind: din, target: item, history: history, attention: [4], hidden: [5]}\n",
      6);
  CHECK(t.values.count("history") == 0);
  CHECK(t.values.at("attention/layer_0/kernel").size() == 12 * 4);
  Row logits;
  for (const auto& [user, item] : std::vector<std::pair<std::string, std::string>>{
           {"u", "a"}, {"u", "b"}, {"u", "c"}, {"v", "b"}, {"v", "d"}, {"w", "c"}}) {
    const Row q = t.Vector("item", item, 3);
    Row interest(3, 0.0);
    for (const std::string& other : Had(user, item)) {
      const Row v = t.Vector("item", other, 3);
      Row pair = v;
      pair.insert(pair.end(), q.begin(), q.end());
      for (size_t d = 0; d < 3; ++d) pair.push_back(v[d] - q[d]);
      for (size_t d = 0; d < 3; ++d) pair.push_back(v[d] * q[d]);
      const double weight = Layers(t, "attention", pair, false)[0];
      for (size_t d = 0; d < 3; ++d) interest[d] += weight * v[d];
    }
    Row x = q;
    x.insert(x.end(), interest.begin(), interest.end());
    logits.push_back(Layers(t, "deep", x, false)[0]);
  }
  CheckPredictions(t, logits);
}

}  // namespace
}  // namespace coxswain::model
