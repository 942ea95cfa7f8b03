// sasrec against its formula, in plain loops, and its step against the numeric gradient.
#include <catch2/catch.hpp>
#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "coordinator/model/saved_history.h"
#include "coordinator/predict/predictor.h"
#include "tests/testing/reference_gradient.h"
#include "tests/testing/saved_jobs.h"

namespace coxswain::model {
namespace {

using Catch::Matchers::Contains;
using testing::CheckStepIsGradient;
using testing::Dot;
using testing::Row;
using testing::Trained;

// Who took what, and when; of u all four, of v three.
constexpr char kVisits[] = "user,item,time\nu,a,1\nv,b,1\nu,b,2\nv,c,2\nu,c,3\nv,a,3\nu,a,4\n";
struct Visit {
  char user;
  std::string item;
  std::vector<std::string> before;  // the last three of the user, oldest first
};
const std::vector<Visit> kRows = {
    {'u', "a", {}},         {'v', "b", {}},         {'u', "b", {"a"}},          {'v', "c", {"b"}},
    {'u', "c", {"a", "b"}}, {'v', "a", {"b", "c"}}, {'u', "a", {"a", "b", "c"}}};

std::string Job(const std::string& model,
                const std::string& history = ", by: time, max_values: 3") {
  return absl::StrCat("features:\n  - {name: item, kind: categorical, oov_buckets: 0}\n",
                      "  - {name: seen, kind: history, history_of: item, group_by: user", history,
                      "}\nmodel: ", model, "\nloss: {kind: full_softmax}\n");
}

Row Times(const Row& x, const Row& matrix) {
  Row y(matrix.size() / x.size(), 0.0);
  for (size_t i = 0; i < x.size(); ++i) {
    for (size_t j = 0; j < y.size(); ++j) y[j] += x[i] * matrix[i * y.size() + j];
  }
  return y;
}

Row Norm(const Trained& t, const std::string& name, const Row& x) {
  double mean = 0, variance = 0;
  const double n = static_cast<double>(x.size());
  for (const double v : x) mean += v / n;
  for (const double v : x) variance += (v - mean) * (v - mean) / n;
  Row y;
  for (size_t d = 0; d < x.size(); ++d) {
    y.push_back((x[d] - mean) / std::sqrt(variance + 1e-5) * t.values.at(name + "/norm_scale")[d] +
                t.values.at(name + "/norm_shift")[d]);
  }
  return y;
}

void AddTo(Row* x, const Row& y) {
  for (size_t d = 0; d < x->size(); ++d) (*x)[d] += y[d];
}

void Attend(const Trained& t, const std::string& block, size_t heads, std::vector<Row>* all) {
  std::vector<Row> q, k, v;
  for (const Row& x : *all) {
    const Row h = Norm(t, block + "attention", x);
    q.push_back(Times(h, t.values.at(block + "query")));
    k.push_back(Times(h, t.values.at(block + "key")));
    v.push_back(Times(h, t.values.at(block + "value")));
  }
  const size_t width = q[0].size() / heads;
  for (size_t i = 0; i < all->size(); ++i) {
    for (size_t h = 0; h < heads; ++h) {
      Row weights;
      double sum = 0;
      for (size_t j = 0; j <= i; ++j) {
        double score = 0;
        for (size_t d = h * width; d < (h + 1) * width; ++d) score += q[i][d] * k[j][d];
        weights.push_back(std::exp(score / std::sqrt(static_cast<double>(width))));
        sum += weights.back();
      }
      for (size_t j = 0; j <= i; ++j) {
        for (size_t d = h * width; d < (h + 1) * width; ++d) {
          (*all)[i][d] += weights[j] / sum * v[j][d];
        }
      }
    }
  }
}

// What each of these has become.
std::vector<Row> Outputs(const Trained& t, const std::vector<std::string>& before, int blocks,
                         size_t heads) {
  std::vector<Row> all;
  for (size_t e = 0; e < before.size(); ++e) {
    Row x = t.Vector("item", before[e], 4);
    const auto place = static_cast<int64_t>(before.size() - 1 - e) * 4;
    const Row& positions = t.values.at("positions");
    AddTo(&x, Row(positions.begin() + place, positions.begin() + place + 4));
    all.push_back(x);
  }
  for (int b = 0; b < blocks; ++b) {
    const std::string block = absl::StrCat("block_", b, "/");
    Attend(t, block, heads, &all);
    for (Row& x : all) {
      AddTo(&x, testing::Layers(t, block + "layers", Norm(t, block + "layers", x), false));
    }
  }
  for (Row& x : all) x = Norm(t, "last", x);
  return all;
}

Row User(const Trained& t, const std::vector<std::string>& before, int blocks, size_t heads) {
  return before.empty() ? Row(4, 0.0) : Outputs(t, before, blocks, heads).back();
}

double Loss(const Trained& t, int blocks, size_t heads) {
  double loss = 0;
  for (const Visit& visit : kRows) {
    const Row user = User(t, visit.before, blocks, heads);
    double sum = 0;
    for (const char* item : {"a", "b", "c"}) sum += std::exp(Dot(user, t.Vector("item", item, 4)));
    loss -= Dot(user, t.Vector("item", visit.item, 4)) - std::log(sum);
  }
  return loss / static_cast<double>(kRows.size());
}

TEST_CASE("sasrec: its step is the gradient of the plain formula, with one head and with two") {
  for (const int heads : {1, 2}) {
    CAPTURE(heads);
    const std::string job =
        Job(absl::StrCat("{kind: sasrec, history: seen, dim: 4, blocks: 2, heads: ", heads, "}"));
    Trained before(kVisits, job, 7, 5);
    const Trained after(kVisits, job, 7, 6);
    CheckStepIsGradient(&before, after,
                        [&](const Trained& t) { return Loss(t, 2, static_cast<size_t>(heads)); });
  }
}

// The items of three users in their order, and the times that their rows count.
struct Sequence {
  std::string items;
  std::vector<double> weights;
};
const std::vector<Sequence> kSequences = {
    {"abca", {9, 0.5, 2, 1}}, {"bcd", {9, 0, 3}}, {"xyz", {9, 1, 0.25}}};

// Round by round, so that users take turns.
std::string SequencesCsv() {
  std::string csv = "user,item,time,weight\n";
  for (size_t i = 0; i < 4; ++i) {
    for (size_t user = 0; user < kSequences.size(); ++user) {
      const Sequence& of = kSequences[user];
      if (i >= of.items.size()) continue;
      absl::StrAppend(&csv, "u", user, ",", of.items.substr(i, 1), ",", i, ",", of.weights[i],
                      "\n");
    }
  }
  return csv;
}

// What a user had, what the user took then, and how much that counts.
struct Choice {
  Row user;
  std::string item, known;  // known: all items of the window
  double weight = 0;
};

// All that windows of so many targets teach.
std::vector<Choice> Choices(const Trained& t, size_t length, int blocks, size_t heads) {
  std::vector<Choice> choices;
  for (const Sequence& of : kSequences) {
    for (size_t last = of.items.size() - 1; last > 0;) {
      const size_t begin = last - std::min(length, last);
      std::vector<std::string> values;
      for (size_t i = begin; i < last; ++i) values.push_back(of.items.substr(i, 1));
      const std::vector<Row> users = Outputs(t, values, blocks, heads);
      for (size_t i = begin; i < last; ++i) {
        choices.push_back({users[i - begin], of.items.substr(i + 1, 1),
                           of.items.substr(begin, last - begin + 1), of.weights[i + 1]});
      }
      last = begin;
    }
  }
  return choices;
}

double Score(const Trained& t, const Choice& choice, const std::string& item) {
  return Dot(choice.user, t.Vector("item", item, 4));
}

// The weighted mean of -log of the softmax over all seven items.
double LossOfAll(const Trained& t, size_t length, int blocks, size_t heads, bool weighted) {
  double loss = 0, weights = 0;
  for (const Choice& choice : Choices(t, length, blocks, heads)) {
    double sum = 0;
    for (const char* item : {"a", "b", "c", "d", "x", "y", "z"}) {
      sum += std::exp(Score(t, choice, item));
    }
    const double weight = weighted ? choice.weight : 1;
    loss -= weight * (Score(t, choice, choice.item) - std::log(sum));
    weights += weight;
  }
  return loss / weights;
}

std::string AllJob(int64_t length, const std::string& loss = "{kind: full_softmax}",
                   const std::string& more = "", int heads = 1) {
  return absl::StrCat(
      "features:\n  - {name: item, kind: categorical, oov_buckets: 0}\n",
      "  - {name: seen, kind: history, history_of: item, group_by: user, by: time, max_values: ",
      length, "}\nmodel: {kind: sasrec, history: seen, dim: 4, positions: all, heads: ", heads,
      more, "}\nloss: ", loss, "\n");
}

int64_t WindowsOfLength(size_t length) {
  int64_t windows = 0;
  for (const Sequence& of : kSequences) {
    windows += static_cast<int64_t>((of.items.size() - 1 + length - 1) / length);
  }
  return windows;
}

TEST_CASE("sasrec: a step on all positions is the gradient of the mean over windows' targets") {
  for (const size_t length : {2, 3, 10}) {
    for (const bool weighted : {false, true}) {
      const int heads = length == 3 ? 2 : 1;
      CAPTURE(length, weighted);
      std::string job = AllJob(static_cast<int64_t>(length), "{kind: full_softmax}", "", heads);
      if (weighted) job += "label: {weight: weight}\n";
      const int64_t windows = WindowsOfLength(length);
      Trained before(SequencesCsv(), job, windows, 5);
      const Trained after(SequencesCsv(), job, windows, 6);
      CheckStepIsGradient(&before, after, [&](const Trained& t) {
        return LossOfAll(t, length, 2, static_cast<size_t>(heads), weighted);
      });
    }
  }
}

TEST_CASE("sasrec: all positions of batches, with the targets of a batch as negatives") {
  for (const bool reject : {false, true}) {
    CAPTURE(reject);
    const std::string job = AllJob(
        2, absl::StrCat("{kind: in_batch_softmax, reject_known: ", reject ? "true" : "false", "}"));
    Trained before(SequencesCsv(), job, WindowsOfLength(2), 5);
    const Trained after(SequencesCsv(), job, WindowsOfLength(2), 6);
    std::map<std::string, double> share;
    for (const Sequence& of : kSequences) {
      for (const char item : of.items) share[std::string(1, item)] += 0.1;
    }
    CheckStepIsGradient(&before, after, [&](const Trained& t) {
      const std::vector<Choice> choices = Choices(t, 2, 2, 1);
      const auto corrected = [&](const Choice& choice, const std::string& item) {
        return std::exp(Score(t, choice, item)) / share.at(item);
      };
      double loss = 0;
      for (const Choice& choice : choices) {
        const double own = corrected(choice, choice.item);
        double sum = own;
        for (const Choice& other : choices) {
          const bool known = reject && choice.known.find(other.item) != std::string::npos;
          if (other.item != choice.item && !known) sum += corrected(choice, other.item);
        }
        loss -= std::log(own / sum);
      }
      return loss / static_cast<double>(choices.size());
    });
  }
}

// The loss of one step on everything, with vectors of positions of 0, and what the step changed.
struct Step {
  double loss = 0;
  std::map<std::string, Row> changes;
};
Step OneStep(const std::string& job_text, int64_t examples) {
  const DataFiles files;
  const std::string path = files.Write("rows.csv", SequencesCsv());
  const job::JobSpec job = testing::Must(job::ParseJob(
      absl::StrCat("dataset: {path: ", path, "}\n", job_text,
                   "optimizer: {table: {kind: sgd, learning_rate: 1}, dense: {kind: sgd, "
                   "learning_rate: 1}}\n"),
      "job.yaml"));
  ParameterServerStrategy strategy(testing::MustStart(1, 1, 1));
  data::DatasetOptions options;
  options.spec = job.dataset;
  options.batch_size = examples;
  PerWorkerDataset dataset = testing::Must(strategy.CreatePerWorkerDataset(options));
  REQUIRE(dataset.data().num_examples(Part::kTraining) == examples);
  const auto built = testing::Must(model::Model::Create(&strategy, job, dataset));
  const auto read = [&](const VariableInfo& info) {
    return testing::ToVector<float>(
        testing::Must(strategy.ReadShard(info, 0, 0, info.shape.dim(0))));
  };
  std::map<std::string, std::vector<float>> before;
  for (const auto& info : strategy.variables()) {
    if (info->name == "positions") {
      testing::Must(strategy.WriteShard(*info, 0, 0, Tensor::Zeros(DType::kF32, info->shape)));
    }
    before[info->name] = read(*info);
  }
  ClusterCoordinator coordinator(strategy);
  const RemoteFunction step = testing::Must(built->DefineTrain());
  const RemoteValue value = coordinator.Schedule(step, *dataset.NextTicket());
  Step result;
  result.loss = static_cast<double>(testing::Must(coordinator.Fetch<float>(value, "loss")));
  for (const auto& info : strategy.variables()) {
    const std::vector<float> now = read(*info);
    for (size_t i = 0; i < now.size(); ++i) {
      result.changes[info->name].push_back(static_cast<double>(now[i]) -
                                           static_cast<double>(before.at(info->name)[i]));
    }
  }
  return result;
}

TEST_CASE("sasrec: a window's loss and gradient are the means of those of its targets' rows") {
  // Histories have all that a user had, so that windows and rows see the same; but for the place of
  // an item, which is counted from the end of the window.
  std::string job = AllJob(10);
  const Step all = OneStep(job, 3);
  job.replace(job.find("all"), 3, "last");
  const Step rows = OneStep(job, 10);
  // The first row of a user has no history: all seven items are alike, and nothing is learned.
  CHECK(all.loss * 7 == Approx(rows.loss * 10 - 3 * std::log(7.0)).epsilon(1e-5));
  REQUIRE(all.changes.size() == rows.changes.size());
  for (const auto& [name, changes] : all.changes) {
    CAPTURE(name);
    const Row& of_rows = rows.changes.at(name);
    REQUIRE(changes.size() == of_rows.size());
    double most = 0;
    Row sums(8, 0.0);  // of the places: they differ, and together they do not
    for (size_t i = 0; i < changes.size(); ++i) {
      most = std::max(most, std::abs(changes[i]));
      if (name == "positions") {
        sums[i % 4] += changes[i] * 7;
        sums[4 + i % 4] += of_rows[i] * 10;
      } else {
        CHECK(changes[i] * 7 == Approx(of_rows[i] * 10).margin(1e-5).epsilon(1e-3));
      }
    }
    for (size_t i = 0; i < 4; ++i) CHECK(sums[i] == Approx(sums[4 + i]).margin(1e-5).epsilon(1e-3));
    CHECK(most > 1e-6);
  }
}

// Everybody goes round the same ring, forward or backward: what comes next depends on the order.
std::string RingCsv() {
  std::string csv = "user,item,time\n";
  const std::string ring = "abcdxyz";
  for (int user = 0; user < 28; ++user) {
    for (int i = 0; i < 6; ++i) {
      const int step = user % 2 == 0 ? i : 70 - i;
      absl::StrAppend(&csv, "u", user, ",",
                      ring.substr(static_cast<size_t>((user / 2 + step) % 7), 1), ",", i, "\n");
    }
  }
  return csv;
}
// Nobody can know a user's first item, and of the second only that it is one of two; of the other
// four there are two for who does not see the order.
const double kUnknownSecond = std::log(2.0), kUnknownOrder = std::log(2.0) * 4;

TEST_CASE("sasrec: all positions learn which item follows which, by every loss") {
  for (const std::string loss : {"full_softmax", "in_batch_softmax, reject_known: false",
                                 "sampled_softmax, negatives: 40", "bpr, reject_known: false"}) {
    CAPTURE(loss);
    const std::string job =
        absl::StrCat("features:\n  - {name: item, kind: categorical, oov_buckets: 0}\n",
                     "  - {name: seen, kind: history, history_of: item, group_by: user, by: time, ",
                     "max_values: 5}\nmodel: {kind: sasrec, history: seen, dim: 16, blocks: 1, ",
                     "positions: all}\nloss: {kind: ", loss, "}\n");
    const Trained t(RingCsv(), job, 28, 600);
    // The second item of six is one of two, whoever learns from it.
    CHECK(t.losses.back() < t.losses.front() / 2);
    if (loss == "full_softmax") CHECK(t.losses.back() < (kUnknownSecond + kUnknownOrder / 2) / 5);
  }
}

TEST_CASE("sasrec: learns which item follows which, that no bag of items tells") {
  const Trained t(RingCsv(), Job("{kind: sasrec, history: seen, dim: 16, blocks: 1}"), 168, 2000);
  const double best = (std::log(7.0) + kUnknownSecond) / 6;
  CHECK(t.losses.back() < best + kUnknownOrder / 6 / 2);
}

TEST_CASE(
    "sasrec: a saved model keeps histories in their order, and scores a row as its job does") {
  const DataFiles files;
  files.Write("visits.csv", "user,item,time\nu,c,1\nv,b,1\nu,a,2\nv,c,2\nu,b,3\nv,a,3\nu,c,4\n");
  const SavedJob saved = TrainAndSave(
      files, "dataset: {path: visits.csv}\n" + Job("{kind: sasrec, history: seen, dim: 4}") +
                 "split: {holdout_per: user, by: time, holdout_last: true}\n"
                 "train: {batch_size: 2}\n");
  const auto history = testing::Must(SavedHistory::Load(saved.directory, 4));
  const auto predictor = testing::Must(predict::Predictor::Load(saved.directory));
  std::string names;
  for (const int64_t id : history.Values(*history.Find("u"))) names += predictor->NameOf(id);
  CHECK(names == "cab");
  const std::vector<int64_t> longer = {5, 1, 2, 0};
  const auto seen = job::SeenOf(predictor->job(), longer);
  CHECK(std::vector<int64_t>(seen.begin(), seen.end()) == std::vector<int64_t>{1, 2, 0});
  // The order makes a difference.
  const std::vector<std::string> columns = {"seen"};
  const std::vector<data::RowReader::Cells> cells = {{"c|a|b"}, {"b|a|c"}};
  const auto rows = testing::Must(predictor->rows().ReadCells(columns, cells));
  const auto scores = testing::Must(predictor->Predict(testing::Must(rows.Read(0, 2))));
  REQUIRE(scores.score.dim(0) == 2);
  bool differs = false;
  for (int64_t i = 0; i < scores.score.dim(1); ++i) {
    differs = differs || std::abs(scores.score.data<float>()[i] -
                                  scores.score.data<float>()[scores.score.dim(1) + i]) > 1e-4f;
  }
  CHECK(differs);
}

TEST_CASE("sasrec: what is wrong with its history is said") {
  const auto error = [](const std::string& text) {
    const auto job = job::ParseJob("dataset: {path: a.csv}\n" + text, "job.yaml");
    REQUIRE_FALSE(job.ok());
    return std::string(job.status().message());
  };
  const std::string model = "{kind: sasrec, history: seen}";
  CHECK_THAT(error(Job(model, ", max_values: 3")), Contains("with by and max_values"));
  CHECK_THAT(error(Job(model, ", by: time")), Contains("with by and max_values"));
  CHECK_THAT(error(Job("{kind: sasrec, history: item}")), Contains("with by and max_values"));
  CHECK_THAT(error(Job("{kind: sasrec, history: none}")), Contains("unknown feature 'none'"));
  CHECK_THAT(error(Job("{kind: sasrec, history: seen, dim: 6, heads: 4}")),
             Contains("model.heads: wanted a divisor of dim, 6"));
  const std::string all = "{kind: sasrec, history: seen, positions: all}";
  CHECK_THAT(error(Job(all, ", by: time")), Contains("with by and max_values"));
  const auto refused = [&](const std::string& data) {
    const auto job =
        job::ParseJob(absl::StrCat("dataset: {path: a.csv, ", data, "}\n", Job(all)), "job.yaml");
    REQUIRE_FALSE(job.ok());
    return std::string(job.status().message());
  };
  CHECK_THAT(refused("streaming: true"),
             Contains("model.positions: all: windows of a user's rows are made in memory"));
  CHECK_THAT(refused("query: user"), Contains("model.positions: all: its examples are windows"));
}

}  // namespace
}  // namespace coxswain::model
