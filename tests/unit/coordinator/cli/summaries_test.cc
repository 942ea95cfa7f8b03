#include "coordinator/cli/summaries.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "coordinator/api/variable_info.h"
#include "coordinator/cli/learning_rates.h"
#include "tests/testing/data_files.h"
#include "tests/testing/event_files.h"
#include "tests/testing/pages.h"
#include "tests/testing/tiny_disk.h"

namespace coxswain::cli {
namespace {

using Catch::Matchers::Contains;
using Points = Curves::Points;
using Phase = runner::Progress::Phase;

std::shared_ptr<const VariableInfo> Variable(const std::string& name, bool table, double rate) {
  auto variable = std::make_shared<VariableInfo>();
  variable->name = name;
  variable->table = table;
  variable->optimizer.set_kind("sgd");
  variable->optimizer.set_learning_rate(rate);
  return variable;
}

// Summaries in a directory, and a clock that stands still until it is set.
struct Written {
  absl::Status Begin() { return summaries.Begin(dir.Path("runs/one"), 0); }
  // Training has come so far, at 100 examples a step.
  void Train(int64_t steps, double loss, double seconds, bool trained = false) {
    runner::Progress progress;
    progress.steps = progress.updates = steps;
    progress.examples = 100 * steps;
    progress.loss = loss;
    progress.seconds = seconds;
    progress.trained = trained;
    summaries.AddProgress(progress);
  }
  Curves Read() const { return ReadCurves(dir.Path("runs/one")); }

  const DataFiles dir;
  absl::Time now = absl::FromUnixSeconds(1'700'000'000);
  std::vector<std::string> warnings;
  Summaries summaries{[this](const std::string& text) { warnings.push_back(text); },
                      [this] { return now; }};
};

runner::Evaluation Evaluated(const std::string& part, int64_t steps, double auc) {
  runner::Evaluation evaluation;
  evaluation.part = part;
  evaluation.steps = steps;
  evaluation.loss = 0.25;
  evaluation.metrics = {{"auc", auc}};
  return evaluation;
}

TEST_CASE("summaries that were not begun write nothing", "[tensorboard]") {
  Written w;
  w.Train(10, 1, 1, /*trained=*/true);
  w.summaries.AddEvaluation(Evaluated("test", 10, 0.5));
  w.summaries.AddText("job", "name: films");
  w.summaries.Finish();
  CHECK_FALSE(std::filesystem::exists(w.dir.Path("runs")));
}

TEST_CASE("summaries have a point of training at most once a second, and its last one",
          "[tensorboard]") {
  Written w;
  REQUIRE(w.Begin().ok());
  w.Train(0, 0, 0);
  w.Train(10, 4, 0.5);
  for (int tick = 1; tick < 5; ++tick) {  // within the second
    w.now += absl::Milliseconds(200);
    w.Train(10 + tick, 3, 0.5 + 0.2 * tick);
  }
  w.now += absl::Milliseconds(200);
  w.Train(20, 2, 1.5);
  w.Train(25, 1, 1.75);
  w.summaries.Finish();
  const Curves curves = w.Read();
  CHECK(curves.points.at("train/loss") == Points{{10, 4}, {20, 2}, {25, 1}});
  CHECK(curves.points.at("train/examples_per_second") ==
        Points{{10, 2000}, {20, 1000}, {25, 2000}});
}

TEST_CASE("summaries have a point of training before each evaluation", "[tensorboard]") {
  Written w;
  REQUIRE(w.Begin().ok());
  w.Train(10, 4, 0.5);
  w.Train(20, 3, 1);
  w.summaries.AddProgress({Phase::kEvaluating});
  w.summaries.AddEvaluation(Evaluated("validation", 20, 0.5));
  w.Train(20, 3, 1);
  w.Train(30, 2, 1.5, /*trained=*/true);
  w.summaries.AddEvaluation(Evaluated("test", 30, 0.75));
  w.summaries.AddEvaluation(Evaluated("test", 30, 0.75));  // once more, as of the result
  const Curves curves = w.Read();
  CHECK(curves.points.at("train/loss") == Points{{10, 4}, {20, 3}, {30, 2}});
  CHECK(curves.points.at("train/mean_loss") == Points{{20, 0.25}, {30, 0.25}});
  CHECK(curves.points.at("validation/auc") == Points{{20, 0.5}});
  CHECK(curves.points.at("test/auc") == Points{{30, 0.75}});
}

TEST_CASE("an evaluation of other values at the same step is written, without a mean loss",
          "[tensorboard]") {
  Written w;
  REQUIRE(w.Begin().ok());
  w.summaries.AddEvaluation(Evaluated("validation", 20, 0.5));
  w.summaries.AddEvaluation(Evaluated("validation", 20, 0.75));
  const Curves curves = w.Read();
  CHECK(curves.points.at("validation/auc") == Points{{20, 0.5}, {20, 0.75}});
  CHECK(curves.points.at("train/mean_loss") == Points{{20, 0.25}});
}

TEST_CASE("a metric that is not defined has no point", "[tensorboard]") {
  Written w;
  REQUIRE(w.Begin().ok());
  w.summaries.AddMetrics("test", 5, {{"auc", std::nan("")}, {"rmse", 0.5}});
  w.summaries.AddMetrics("test", 6, {{"auc", std::nan("")}});
  const Curves curves = w.Read();
  CHECK(curves.points.count("test/auc") == 0);
  CHECK(curves.points.at("test/rmse") == Points{{5, 0.5}});
}

TEST_CASE("evaluations that a checkpoint has stay, and those that it lacks are made again",
          "[tensorboard]") {
  Written w;
  REQUIRE(w.Begin().ok());
  const std::vector<runner::Evaluation> known = {Evaluated("validation", 10, 0.5),
                                                 Evaluated("validation", 20, 0.625),
                                                 Evaluated("validation", 30, 0.75)};
  for (const runner::Evaluation& evaluation : known) w.summaries.AddEvaluation(evaluation);
  w.summaries.AddEvaluation(Evaluated("validation", 40, 0.875));
  // Its shards are of step 20, its state of step 30.
  runner::TrainingMeter::Reading trained;
  trained.steps = 20;
  Summaries again([](const std::string&) {}, [&] { return w.now; });
  REQUIRE(again.Begin(w.dir.Path("runs/one"), trained.steps).ok());
  again.GoOn(trained, known);
  again.AddEvaluation(Evaluated("validation", 40, 1));
  const Curves curves = w.Read();
  CHECK(curves.points.at("validation/auc") == Points{{10, 0.5}, {20, 0.625}, {30, 0.75}, {40, 1}});
  CHECK(curves.points.at("train/mean_loss") ==
        Points{{10, 0.25}, {20, 0.25}, {30, 0.25}, {40, 0.25}});
}

TEST_CASE("a job that goes on drops the points behind its step, and one that begins drops all",
          "[tensorboard]") {
  Written w;
  REQUIRE(w.Begin().ok());
  for (int step = 10; step <= 50; step += 10) {
    w.now += absl::Seconds(1);
    w.Train(step, step, 0.1 * step);
  }
  // Nobody has ended it. The checkpoint is of step 30.
  runner::TrainingMeter::Reading trained;
  trained.steps = 30;
  trained.examples = 3000;
  trained.seconds = 3;
  trained.recent_loss = 29;
  Summaries again([](const std::string&) {}, [&] { return w.now; });
  REQUIRE(again.Begin(w.dir.Path("runs/one"), trained.steps).ok());
  again.GoOn(trained, {});
  runner::Progress progress;
  progress.steps = 35;
  progress.examples = 3500;
  progress.seconds = 4;
  progress.loss = 7;
  again.AddProgress(progress);
  Curves curves = w.Read();
  CHECK(curves.points.at("train/loss") == Points{{10, 10}, {20, 20}, {30, 29}, {35, 7}});
  CHECK(curves.points.at("train/examples_per_second").back().second == 500);
  CHECK(curves.starts == std::vector<int64_t>{0, 30});
  CHECK(EventFiles(w.dir.Path("runs/one")).size() == 2);
  REQUIRE(w.Begin().ok());
  CHECK(w.Read().points.at("train/loss").empty());
}

TEST_CASE("steps that go back start a session at the smaller step", "[tensorboard]") {
  Written w;
  REQUIRE(w.Begin().ok());
  for (const int64_t steps : {10, 20, 30, 20, 25}) {
    w.summaries.AddMetrics("validation", steps, {{"auc", 0.5}});
  }
  const Curves curves = w.Read();
  CHECK(curves.points.at("validation/auc") == Points{{10, 0.5}, {20, 0.5}, {25, 0.5}});
  CHECK(curves.starts == std::vector<int64_t>{0, 20});
}

TEST_CASE("summaries show learning rates as schedules and the plateau have them", "[tensorboard]") {
  Written w;
  REQUIRE(w.Begin().ok());
  auto scheduled = std::make_shared<VariableInfo>(*Variable("film", true, 0.5));
  scheduled->optimizer.mutable_schedule()->set_kind("linear_decay");
  scheduled->optimizer.mutable_schedule()->set_decay_steps(100);
  auto by_default = std::make_shared<VariableInfo>(*Variable("user", true, 0));
  by_default->optimizer.clear_learning_rate();  // that of sgd is 0.01
  auto fixed = std::make_shared<VariableInfo>(*Variable("fixed", false, 1));
  fixed->optimizer.clear_kind();  // is not trained
  w.summaries.ShowRates(NamedRates({scheduled, by_default, fixed, Variable("bias", false, 0.125),
                                    Variable("weights", false, 0.125)}));
  runner::Progress progress;
  progress.steps = 300;
  progress.updates = 50;  // each of several batches
  progress.rate_factor = 0.5;
  w.summaries.AddProgress(progress);
  const Curves curves = w.Read();
  CHECK(curves.points.at("learning_rate/film") == Points{{300, 0.125}});
  CHECK(curves.points.at("learning_rate/user") == Points{{300, 0.005F}});
  CHECK(curves.points.at("learning_rate/dense") == Points{{300, 0.0625}});
  CHECK(curves.points.size() == 4);  // and the loss
}

TEST_CASE("variables with different learning rates have a curve each", "[tensorboard]") {
  const auto rates = NamedRates({Variable("bias", false, 0.5), Variable("weights", false, 0.25)});
  REQUIRE(rates.size() == 2);
  CHECK(rates[0].name == "bias");
  CHECK(rates[1].name == "weights");
  CHECK(rates[1].After(1000) == 0.25);
  CHECK(NamedRates({}).empty());
}

TEST_CASE("a disk that fills up ends the summaries with one warning", "[tensorboard]") {
  Written w;
  std::filesystem::create_directory(w.dir.Path("runs"));
  const TinyDisk disk(w.dir.Path("runs/one"), "64k");
  if (!disk.mounted()) return;
  REQUIRE(w.Begin().ok());
  w.summaries.AddMetrics("test", 1, {{"auc", 0.5}});
  disk.Fill();
  const std::string name(10000, 'a');
  for (int step = 2; step < 10; ++step) w.summaries.AddMetrics("test", step, {{name, 0.5}});
  REQUIRE(w.warnings.size() == 1);
  CHECK_THAT(w.warnings[0], Contains("warning: no more summaries for TensorBoard: ") &&
                                Contains("No space left on device"));
  CHECK(w.Read().points.at("test/auc") == Points{{1, 0.5}});
}

TEST_CASE("docs/report.md has every tag of the summaries, and no other", "[tensorboard][report]") {
  Written w;
  REQUIRE(w.Begin().ok());
  w.summaries.AddText("job", "name: films");
  w.summaries.ShowRates(NamedRates({Variable("TABLE", true, 0.5), Variable("bias", false, 0.5)}));
  w.summaries.AddCounters({}, 2);
  w.Train(10, 1, 1);
  runner::Evaluation evaluation = Evaluated("PART", 10, 0.5);
  evaluation.metrics = {{"NAME", 0.5}};
  w.summaries.AddEvaluation(evaluation);
  const Curves curves = w.Read();
  std::set<std::string> written, documented;
  for (const auto& [tag, points] : curves.points) written.insert(absl::StrCat("`", tag, "`"));
  for (const auto& [tag, text] : curves.texts) written.insert(absl::StrCat("`", tag, "`"));
  for (const std::string& cell : FirstCells("docs/report.md", "tag")) documented.insert(cell);
  CHECK(written == documented);
}

TEST_CASE("counters are points of the training that follows them", "[tensorboard]") {
  Written w;
  REQUIRE(w.Begin().ok());
  runner::RunCounters counters;
  counters.failures.workers_lost = 1;
  counters.failures.ps_lost = 2;
  counters.failures.closures_rerun = 30;
  counters.retried = 4;
  w.summaries.AddCounters(counters, 5);
  w.Train(10, 1, 1);
  const Curves curves = w.Read();
  CHECK(curves.points.at("cluster/workers") == Points{{10, 5}});
  CHECK(curves.points.at("cluster/workers_lost") == Points{{10, 1}});
  CHECK(curves.points.at("cluster/parameter_servers_lost") == Points{{10, 2}});
  CHECK(curves.points.at("cluster/closures_retried") == Points{{10, 4}});
  CHECK(curves.points.at("cluster/closures_rerun") == Points{{10, 30}});
}

TEST_CASE("a text is shown as it is", "[tensorboard]") {
  Written w;
  REQUIRE(w.Begin().ok());
  w.summaries.AddText("job", "name: films\n  # a comment");
  CHECK(w.Read().texts.at("job") == "    name: films\n      # a comment");
}

}  // namespace
}  // namespace coxswain::cli
