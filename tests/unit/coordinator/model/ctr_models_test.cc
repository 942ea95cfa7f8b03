// dlrm, deepfm, fm, ffm and autoint against their formulas, written out in plain loops over the
// values of the variables.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <string>
#include <vector>

#include "tests/testing/trained_model.h"

namespace coxswain::model {
namespace {

using testing::Bag;
using testing::CheckPredictions;
using testing::Dot;
using testing::Example;
using testing::kExamples;
using testing::Layers;
using testing::Row;
using testing::Trained;

TEST_CASE("dlrm scores the products of all pairs of its vectors") {
  for (const char* combiner : {"sum", "mean", "sqrtn"}) {
    INFO(combiner);
    const Trained t("{kind: dlrm, dim: 3, bottom: [4], top: [5]}", combiner);
    CHECK(t.values.at("bottom/layer_1/kernel").size() == 4 * 3);
    CHECK(t.values.at("top/layer_0/kernel").size() == (3 + 3) * 5);
    Row logits;
    for (const Example& e : kExamples) {
      const std::vector<Row> v = {Layers(t, "bottom", e.numbers, true), t.Vector("shop", e.shop, 3),
                                  Bag(t, "tags", e.tags, 3, combiner)};
      Row x = v[0];
      x.insert(x.end(), {Dot(v[1], v[0]), Dot(v[2], v[0]), Dot(v[2], v[1])});
      logits.push_back(Layers(t, "top", x, false)[0]);
    }
    CheckPredictions(t, logits);
  }
}

TEST_CASE("dlrm without numbers scores the products of its embeddings alone") {
  const Trained t("{kind: dlrm, dim: 3, top: [], features: [shop, tags]}", "sum");
  CHECK(t.values.count("bottom/layer_0/kernel") == 0);
  Row logits;
  for (const Example& e : kExamples) {
    const double product = Dot(t.Vector("shop", e.shop, 3), Bag(t, "tags", e.tags, 3, "sum"));
    logits.push_back(Layers(t, "top", {product}, false)[0]);
  }
  CheckPredictions(t, logits);
}

TEST_CASE("deepfm adds a linear part, the products of all pairs and layers on the same vectors") {
  for (const char* combiner : {"sum", "mean", "sqrtn"}) {
    INFO(combiner);
    const Trained t("{kind: deepfm, dim: 3, hidden: [4]}", combiner);
    const Row& number_vectors = t.values.at("numbers/vectors");
    Row logits;
    for (const Example& e : kExamples) {
      std::vector<Row> v = {t.Vector("shop", e.shop, 3), Bag(t, "tags", e.tags, 3, combiner)};
      double linear = t.values.at("wide/bias")[0] + t.Vector("shop_linear", e.shop, 1)[0] +
                      Bag(t, "tags_linear", e.tags, 1, "sum")[0] +
                      t.values.at("wide/age")[0] * e.numbers[0] +
                      t.values.at("wide/price")[0] * e.numbers[1];
      for (size_t n = 0; n < 2; ++n) {
        Row scaled(number_vectors.begin() + static_cast<int64_t>(n) * 3,
                   number_vectors.begin() + static_cast<int64_t>(n) * 3 + 3);
        for (double& x : scaled) x *= e.numbers[n];
        v.push_back(scaled);
      }
      Row joined;
      double products = 0;
      for (size_t i = 0; i < v.size(); ++i) {
        joined.insert(joined.end(), v[i].begin(), v[i].end());
        for (size_t j = 0; j < i; ++j) products += Dot(v[i], v[j]);
      }
      logits.push_back(linear + products + Layers(t, "deep", joined, false)[0]);
    }
    CheckPredictions(t, logits);
  }
}

TEST_CASE("deepfm of numbers alone has no table") {
  const Trained t("{kind: deepfm, dim: 2, hidden: [], features: [age, price]}", "sum");
  const Row& vectors = t.values.at("numbers/vectors");
  Row logits;
  for (const Example& e : kExamples) {
    const Row a = {vectors[0] * e.numbers[0], vectors[1] * e.numbers[0]};
    const Row b = {vectors[2] * e.numbers[1], vectors[3] * e.numbers[1]};
    logits.push_back(t.values.at("wide/bias")[0] + t.values.at("wide/age")[0] * e.numbers[0] +
                     t.values.at("wide/price")[0] * e.numbers[1] + Dot(a, b) +
                     Layers(t, "deep", {a[0], a[1], b[0], b[1]}, false)[0]);
  }
  CheckPredictions(t, logits);
}

// Of the features shop, tags, age and price.
double Linear(const Trained& t, const Example& e) {
  return t.values.at("wide/bias")[0] + t.Vector("shop_linear", e.shop, 1)[0] +
         Bag(t, "tags_linear", e.tags, 1, "sum")[0] + t.values.at("wide/age")[0] * e.numbers[0] +
         t.values.at("wide/price")[0] * e.numbers[1];
}

// Their vectors.
std::vector<Row> FieldVectors(const Trained& t, const Example& e, size_t dim,
                              const char* combiner) {
  std::vector<Row> v = {t.Vector("shop", e.shop, dim), Bag(t, "tags", e.tags, dim, combiner)};
  const Row& numbers = t.values.at("numbers/vectors");
  for (size_t n = 0; n < 2; ++n) {
    Row& scaled = v.emplace_back();
    for (size_t d = 0; d < dim; ++d) scaled.push_back(numbers[n * dim + d] * e.numbers[n]);
  }
  return v;
}

TEST_CASE("fm adds a linear part and the products of all pairs") {
  const Trained t("{kind: fm, dim: 3}", "mean");
  Row logits;
  for (const Example& e : kExamples) {
    const std::vector<Row> v = FieldVectors(t, e, 3, "mean");
    double products = 0;
    for (size_t i = 0; i < v.size(); ++i) {
      for (size_t j = 0; j < i; ++j) products += Dot(v[i], v[j]);
    }
    logits.push_back(Linear(t, e) + products);
  }
  CheckPredictions(t, logits);
}

TEST_CASE("ffm multiplies what each of two features has for the other") {
  const Trained t("{kind: ffm, dim: 3}", "sum");
  const auto part = [](const Row& all, size_t of) {
    return Row(all.begin() + static_cast<int64_t>(of) * 3,
               all.begin() + static_cast<int64_t>(of) * 3 + 3);
  };
  Row logits;
  for (const Example& e : kExamples) {
    const std::vector<Row> v = FieldVectors(t, e, 4 * 3, "sum");
    double products = 0;
    for (size_t i = 0; i < v.size(); ++i) {
      for (size_t j = 0; j < i; ++j) products += Dot(part(v[i], j), part(v[j], i));
    }
    logits.push_back(Linear(t, e) + products);
  }
  CheckPredictions(t, logits);
}

// The row times a matrix of so many columns.
Row Times(const Row& x, const Row& matrix, size_t columns) {
  Row y(columns, 0.0);
  for (size_t i = 0; i < x.size(); ++i) {
    for (size_t c = 0; c < columns; ++c) y[c] += x[i] * matrix[i * columns + c];
  }
  return y;
}

// A layer of self-attention with two heads of 2.
std::vector<Row> Attended(const Trained& t, const std::string& layer, const std::vector<Row>& x) {
  constexpr size_t kHeads = 2, kDim = 2, kWidth = kHeads * kDim;
  const auto all = [&](const char* name) {
    std::vector<Row> rows;
    for (const Row& row : x) rows.push_back(Times(row, t.values.at(layer + name), kWidth));
    return rows;
  };
  const std::vector<Row> query = all("query"), key = all("key"), value = all("value");
  std::vector<Row> y = all("residual");
  for (size_t i = 0; i < x.size(); ++i) {
    for (size_t h = 0; h < kHeads; ++h) {
      Row weights;
      double sum = 0;
      for (size_t j = 0; j < x.size(); ++j) {
        double score = 0;
        for (size_t d = 0; d < kDim; ++d) score += query[i][h * kDim + d] * key[j][h * kDim + d];
        weights.push_back(std::exp(score));
        sum += weights.back();
      }
      for (size_t j = 0; j < x.size(); ++j) {
        for (size_t d = 0; d < kDim; ++d) {
          y[i][h * kDim + d] += weights[j] / sum * value[j][h * kDim + d];
        }
      }
    }
    for (double& number : y[i]) number = std::max(0.0, number);
  }
  return y;
}

TEST_CASE("autoint lets vectors attend to each other, beside layers on them") {
  const Trained t(
      "{kind: autoint, dim: 3, attention_layers: 2, heads: 2, head_dim: 2, hidden: [4]}", "mean");
  Row logits;
  for (const Example& e : kExamples) {
    std::vector<Row> x = FieldVectors(t, e, 3, "mean");
    Row joined, attended;
    for (const Row& v : x) joined.insert(joined.end(), v.begin(), v.end());
    for (const char* layer : {"attention/layer_0/", "attention/layer_1/"})
      x = Attended(t, layer, x);
    for (const Row& v : x) attended.insert(attended.end(), v.begin(), v.end());
    logits.push_back(Layers(t, "top", attended, false)[0] + Layers(t, "deep", joined, false)[0]);
  }
  CheckPredictions(t, logits);
}

}  // namespace
}  // namespace coxswain::model
