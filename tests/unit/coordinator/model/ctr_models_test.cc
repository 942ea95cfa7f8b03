// dlrm and deepfm against their formulas, written out in plain loops over the values of the
// variables.
#include <catch2/catch.hpp>
#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "coordinator/api/variable_info.h"
#include "coordinator/job/job_parser.h"
#include "coordinator/model/model.h"
#include "runtime/data/dataset.h"
#include "runtime/data/dataset_options.h"
#include "tests/testing/cluster.h"
#include "tests/testing/data_files.h"

namespace coxswain::model {
namespace {

using testing::Must;
using testing::MustStart;
using testing::ToVector;
using Row = std::vector<double>;

constexpr char kData[] = R"(shop,tags,age,price,bought
a,x|y|y,1,0.5,1
b,,-2,0.25,0
c,z,0.5,3,1
a,y|z,0,-1,0
b,x,2,1,1
)";

// A model on that data, trained for some steps so that nothing is at its first value, and the
// values of its variables.
struct Trained {
  Trained(const std::string& model, const std::string& combiner) {
    const std::string path = files.Write("shop.csv", kData);
    job = Must(job::ParseJob(
        absl::StrCat(
            "dataset: {path: ", path, "}\nfeatures:\n", "  - {name: shop, kind: categorical}\n",
            "  - {name: tags, kind: categorical, value_separator: \"|\", combiner: ", combiner,
            "}\n", "  - {name: age, kind: numeric}\n  - {name: price, kind: numeric}\n",
            "label: {column: bought}\nmodel: ", model, "\n",
            "optimizer: {table: {kind: sgd, learning_rate: 0.5}, ",
            "dense: {kind: sgd, learning_rate: 0.1}}\ntrain: {shuffle: false}\n"),
        "job.yaml"));
    ParameterServerStrategy strategy(MustStart(1, 1, 1));
    data::DatasetOptions options;
    options.spec = job.dataset;
    options.batch_size = 5;
    options.epochs = 60;
    PerWorkerDataset dataset = Must(strategy.CreatePerWorkerDataset(options));
    const auto built = Must(Model::Create(&strategy, job, dataset));
    ClusterCoordinator coordinator(strategy);
    const RemoteFunction step = Must(built->DefineTrain());
    const RemoteFunction evaluate = Must(built->DefineEvaluate(Part::kTraining));
    while (const auto ticket = dataset.NextTicket()) {
      const RemoteValue value = coordinator.Schedule(step, *ticket);
      losses.push_back(Must(coordinator.Fetch<float>(value, "loss")));
    }
    const Ticket all{Part::kTraining, 0, 0, 5};
    const auto results = Must(coordinator.Schedule(evaluate, all).Get());
    for (const float p : ToVector<float>(results[0])) predictions.push_back(static_cast<double>(p));
    for (const auto& info : strategy.variables()) {
      const int64_t rows = info->shape.rank() == 0 ? 1 : info->shape.dim(0);
      const Tensor value = Must(strategy.ReadShard(*info, 0, 0, rows));
      for (const float x : ToVector<float>(value)) {
        values[info->name].push_back(static_cast<double>(x));
      }
    }
    for (const char* feature : {"shop", "tags"}) {
      for (const char* text : {"a", "b", "c", "x", "y", "z"}) {
        if (const auto id = dataset.data().Lookup(feature, text)) ids[text] = *id;
      }
    }
  }

  Row Vector(const std::string& table, const std::string& text, int64_t width) const {
    const Row& all = values.at(table);
    const int64_t begin = ids.at(text) * width;
    return {all.begin() + begin, all.begin() + begin + width};
  }

  DataFiles files;
  job::JobSpec job;
  std::vector<float> losses;
  Row predictions;  // probabilities, in the order of the file
  std::map<std::string, Row> values;
  std::map<std::string, int64_t> ids;
};

// The file's rows: shop, tags, numbers.
struct Example {
  std::string shop;
  std::vector<std::string> tags;
  Row numbers;
};
const std::vector<Example> kExamples = {{"a", {"x", "y", "y"}, {1, 0.5}},
                                        {"b", {}, {-2, 0.25}},
                                        {"c", {"z"}, {0.5, 3}},
                                        {"a", {"y", "z"}, {0, -1}},
                                        {"b", {"x"}, {2, 1}}};

Row Bag(const Trained& t, const std::string& table, const std::vector<std::string>& texts,
        int64_t width, const std::string& combiner) {
  Row sum(static_cast<size_t>(width), 0.0);
  for (const std::string& text : texts) {
    const Row row = t.Vector(table, text, width);
    for (size_t d = 0; d < row.size(); ++d) sum[d] += row[d];
  }
  const double n = static_cast<double>(texts.size());
  const double divisor = combiner == "mean" ? n : combiner == "sqrtn" ? std::sqrt(n) : 1;
  if (n > 0) {
    for (double& x : sum) x /= divisor;
  }
  return sum;
}

double Relu(double x) { return x > 0 ? x : 0; }

// Layers "name/layer_0", ...; relu on all, or on all but the last.
Row Layers(const Trained& t, const std::string& name, Row x, bool last_active) {
  for (int i = 0; t.values.count(absl::StrFormat("%s/layer_%d/bias", name, i)) > 0; ++i) {
    const Row& kernel = t.values.at(absl::StrFormat("%s/layer_%d/kernel", name, i));
    Row y = t.values.at(absl::StrFormat("%s/layer_%d/bias", name, i));
    REQUIRE(kernel.size() == x.size() * y.size());
    for (size_t j = 0; j < y.size(); ++j) {
      for (size_t k = 0; k < x.size(); ++k) y[j] += x[k] * kernel[k * y.size() + j];
    }
    const bool last = t.values.count(absl::StrFormat("%s/layer_%d/bias", name, i + 1)) == 0;
    if (!last || last_active) {
      for (double& v : y) v = Relu(v);
    }
    x = std::move(y);
  }
  return x;
}

double Dot(const Row& a, const Row& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

void CheckPredictions(const Trained& t, const Row& logits) {
  REQUIRE(t.predictions.size() == logits.size());
  for (size_t i = 0; i < logits.size(); ++i) {
    INFO("example " << i);
    CHECK(t.predictions[i] == Approx(1 / (1 + std::exp(-logits[i]))).epsilon(1e-4));
  }
  CHECK(t.losses.back() < 0.9f * t.losses.front());  // it learns
}

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
