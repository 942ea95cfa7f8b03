// The code that the READMEs show as a whole op, optimizer, loss, metric, format or command
// is compiled into this program (readme_code.cmake) and does what its page says.
#include <catch2/catch.hpp>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "coordinator/cli/commands/command_list.h"
#include "coordinator/cli/exit_code.h"
#include "coordinator/job/job_format.h"
#include "coordinator/job/loss_kind.h"
#include "coordinator/job/metric_kind.h"
#include "coordinator/model/metric.h"
#include "coxswain/optimizers.h"
#include "kernels/register.h"
#include "protos/dataset.pb.h"
#include "runtime/data/data_format.h"
#include "runtime/graph/op.h"
#include "tests/ops/op_case.h"

namespace coxswain {
#include "readme_code/sign_sgd_parameters.h"
}  // namespace coxswain
#include "readme_code/sign_sgd.h"

namespace coxswain::kernels {
void RegisterClip(graph::OpRegistry* registry);
}  // namespace coxswain::kernels

namespace coxswain::model {
const job::LossKind& LogCoshLoss();
const job::MetricKind& BiasMetric();
}  // namespace coxswain::model

namespace coxswain::data {
const DataFormat& TsvFiles();
}  // namespace coxswain::data

namespace coxswain::job {
const JobFormat& TsvJobFormat();
}  // namespace coxswain::job

namespace coxswain::cli {
void AddLossesCommand(CLI::App& app, Run* run);
}  // namespace coxswain::cli

namespace coxswain {
namespace {

TEST_CASE("the op that kernels/README.md shows passes the checks of its cases") {
  graph::OpRegistry registry;
  kernels::RegisterAllOps(&registry);
  kernels::RegisterClip(&registry);
  int cases = 0;
  for (const testing::OpCase& op_case : testing::AllOpCases()) {
    if (op_case.file != "clip") continue;
    ++cases;
    INFO(op_case.label);
    CHECK(testing::CheckForward(op_case, registry) == std::vector<std::string>{});
    if (testing::HasGradient(op_case)) {
      CHECK(testing::CheckGradient(op_case, registry) == std::vector<std::string>{});
    }
  }
  CHECK(cases == 2);
}

TEST_CASE("the optimizer that ps_server/README.md shows moves weights by its rate") {
  const kernels::SignSgdOptimizer::Rule<double> rule{0.25, 0};
  double up = 1, down = 1, still = 1;
  rule(-7.0, up);
  rule(0.5, down);
  rule(0.0, still);
  CHECK(up == 1.25);
  CHECK(down == 0.75);
  CHECK(still == 1);
  CHECK(std::string(kernels::SignSgdOptimizer::kKind) == "sign_sgd");
}

TEST_CASE("the loss and metric that coordinator/model/README.md shows are kinds") {
  CHECK(std::string(model::LogCoshLoss().name) == "log_cosh");

  const std::unique_ptr<model::Metric> bias = model::BiasMetric().make(0);
  const std::vector<float> predicted = {1, 2, 6}, label = {1, 1, 2}, weight = {1, 1, 2};
  model::Measured measured;
  measured.prediction = predicted;
  measured.label = label;
  measured.weight = weight;
  bias->Add(measured);
  CHECK(bias->Value(4) == Approx((0 + 1 + 2 * 4) / 4.0));
}

TEST_CASE("the format that coordinator/job/README.md shows reads fields with tabs between") {
  CHECK(std::string(data::TsvFiles().name()) == job::TsvJobFormat().name);
  proto::DatasetSpec spec;
  data::TsvFiles().FillDefaults(&spec);
  CHECK(spec.csv().separator() == "\t");
  CHECK(spec.csv().header());
}

TEST_CASE("the command that coordinator/cli/README.md shows runs") {
  CLI::App app;
  cli::Run run;
  cli::AddLossesCommand(app, &run);
  app.parse("losses");
  REQUIRE(run);
  CHECK(run() == cli::kExitDone);
}

}  // namespace
}  // namespace coxswain
