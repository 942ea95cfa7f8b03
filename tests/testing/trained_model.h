// A small model that was trained for some steps, so that nothing is at its first value, with the
// values of its variables: for tests that hold models against their formulas in plain loops.
#pragma once

#include <catch2/catch.hpp>
#include <cmath>
#include <map>
#include <string>
#include <utility>
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

namespace coxswain::testing {

using Row = std::vector<double>;

inline constexpr char kShopData[] = R"(shop,tags,age,price,bought
a,x|y|y,1,0.5,1
b,,-2,0.25,0
c,z,0.5,3,1
a,y|z,0,-1,0
b,x,2,1,1
)";

// The job's sections behind `dataset`.
inline std::string ShopJob(const std::string& model, const std::string& combiner) {
  return absl::StrCat(
      "features:\n  - {name: shop, kind: categorical}\n",
      "  - {name: tags, kind: categorical, value_separator: \"|\", combiner: ", combiner, "}\n",
      "  - {name: age, kind: numeric}\n  - {name: price, kind: numeric}\n",
      "label: {column: bought}\nmodel: ", model, "\n");
}

struct Trained {
  // On the data above.
  Trained(const std::string& model, const std::string& combiner)
      : Trained(kShopData, ShopJob(model, combiner), 5) {}

  // On all `rows` of a file in each step; `rest`: the job's sections behind `dataset`.
  // `more`: keys of `dataset`; with queries `rows` counts them.
  Trained(const std::string& csv, const std::string& rest, int64_t rows, int64_t steps = 60,
          const std::string& more = "") {
    const std::string path = files.Write("shop.csv", csv);
    job = Must(job::ParseJob(
        absl::StrCat("dataset: {path: ", path, more.empty() ? "" : ", ", more, "}\n", rest,
                     "optimizer: {table: {kind: sgd, learning_rate: 0.5}, ",
                     "dense: {kind: sgd, learning_rate: 0.1}}\ntrain: {shuffle: false}\n"),
        "job.yaml"));
    ParameterServerStrategy strategy(MustStart(1, 1, 1));
    data::DatasetOptions options;
    options.spec = job.dataset;
    options.batch_size = rows;
    options.epochs = steps;
    PerWorkerDataset dataset = Must(strategy.CreatePerWorkerDataset(options));
    const auto built = Must(model::Model::Create(&strategy, job, dataset));
    ClusterCoordinator coordinator(strategy);
    const RemoteFunction step = Must(built->DefineTrain());
    while (const auto ticket = dataset.NextTicket()) {
      const RemoteValue value = coordinator.Schedule(step, *ticket);
      losses.push_back(Must(coordinator.Fetch<float>(value, "loss")));
    }
    // What items are ranked against is known of held-out parts alone.
    if (job::HasLabel(job)) {
      const RemoteFunction evaluate = Must(built->DefineEvaluate(Part::kTraining));
      const Ticket all{Part::kTraining, 0, 0, rows};
      const auto results = Must(coordinator.Schedule(evaluate, all).Get());
      for (const Tensor& result : results) {
        if (result.dtype() != DType::kF32) continue;
        const auto numbers = ToVector<float>(result);
        evaluated.emplace_back(numbers.begin(), numbers.end());
      }
      predictions = evaluated.at(0);
    }
    for (const auto& info : strategy.variables()) {
      const int64_t size = info->shape.rank() == 0 ? 1 : info->shape.dim(0);
      const Tensor value = Must(strategy.ReadShard(*info, 0, 0, size));
      for (const float x : ToVector<float>(value)) {
        values[info->name].push_back(static_cast<double>(x));
      }
    }
    for (const auto& feature : job.dataset.features()) {
      for (const char* text : {"a", "b", "c", "d", "x", "y", "z"}) {
        if (const auto id = dataset.data().Lookup(feature.name(), text)) ids[text] = *id;
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
  Row predictions;             // in the order of the file
  std::vector<Row> evaluated;  // the evaluation's results that are f32; the first is `predictions`
  std::map<std::string, Row> values;
  std::map<std::string, int64_t> ids;
};

// The file's rows: shop, tags, numbers.
struct Example {
  std::string shop;
  std::vector<std::string> tags;
  Row numbers;
};
inline const std::vector<Example> kExamples = {{"a", {"x", "y", "y"}, {1, 0.5}},
                                               {"b", {}, {-2, 0.25}},
                                               {"c", {"z"}, {0.5, 3}},
                                               {"a", {"y", "z"}, {0, -1}},
                                               {"b", {"x"}, {2, 1}}};

inline Row Bag(const Trained& t, const std::string& table, const std::vector<std::string>& texts,
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

inline double Relu(double x) { return x > 0 ? x : 0; }

// Layers "name/layer_0", ...; relu on all, or on all but the last.
inline Row Layers(const Trained& t, const std::string& name, Row x, bool last_active) {
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

inline double Dot(const Row& a, const Row& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

inline void CheckPredictions(const Trained& t, const Row& logits) {
  REQUIRE(t.predictions.size() == logits.size());
  for (size_t i = 0; i < logits.size(); ++i) {
    INFO("example " << i);
    CHECK(t.predictions[i] == Approx(1 / (1 + std::exp(-logits[i]))).epsilon(1e-4));
  }
  CHECK(t.losses.back() < 0.9f * t.losses.front());  // it learns
}

}  // namespace coxswain::testing
