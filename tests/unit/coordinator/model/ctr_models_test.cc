// dlrm and deepfm against their formulas, written out in plain loops over the values of the
// variables.
#include <catch2/catch.hpp>
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

}  // namespace
}  // namespace coxswain::model
