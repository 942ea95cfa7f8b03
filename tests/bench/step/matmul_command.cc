#include "tests/bench/step/matmul_command.h"

#include <cstdio>
#include <random>
#include <utility>

#include "absl/strings/str_format.h"
#include "coxswain/optimizers.h"
#include "runtime/base/status.h"
#include "tests/bench/step/report.h"

namespace coxswain {
namespace {

Tensor RandomBatch(int64_t batch, int64_t in) {
  Tensor t(DType::kF32, Shape{batch, in});
  std::mt19937_64 random(1);
  std::uniform_real_distribution<float> value(-1, 1);
  for (int64_t i = 0; i < t.num_elements(); ++i) t.mutable_data<float>()[i] = value(random);
  return t;
}

// loss = mean((x + b) w')^2; b makes x one that needs a gradient. w is [out, in], a shard per PS.
absl::StatusOr<RemoteFunction> DefineLayer(const MatMulFlags& flags, bool on_ps, int num_ps,
                                           ParameterServerStrategy* strategy) {
  VariableOptions options;
  options.optimizer = Adagrad{.learning_rate = 0.01};
  options.shape = Shape{flags.in};
  ASSIGN_OR_RETURN(const Variable b, strategy->CreateVariable("b", options));
  options.shape = Shape{flags.out, flags.in};
  options.initializer = GlorotUniform(1);
  options.partitioner = FixedShards(num_ps);
  ASSIGN_OR_RETURN(const Variable w, strategy->CreateVariable("w", options));
  return strategy->Define("layer", [&](FunctionBuilder& f) {
    const Output x = f.Add(f.Constant(RandomBatch(flags.batch, flags.in)), f.Read(b));
    const Output y =
        on_ps ? f.MatMul(x, w, true) : f.MatMul(x, f.Read(w), /*transpose_a=*/false, true);
    f.Minimize(f.Mean(f.Square(y)));
  });
}

}  // namespace

CLI::App* AddMatMulCommand(CLI::App* app, MatMulFlags* flags) {
  CLI::App* command = app->add_subcommand(
      "matmul", "Times a layer whose matrix stays on the PS, and one that reads it");
  command->add_option("--batch", flags->batch, "examples")->check(CLI::PositiveNumber);
  command->add_option("--in", flags->in, "columns of the matrix")->check(CLI::PositiveNumber);
  command->add_option("--out", flags->out, "rows of the matrix")->check(CLI::PositiveNumber);
  command->add_option("--cluster", flags->clusters, "as of step")->allow_extra_args(false);
  command->add_option("--seconds", flags->options.seconds, "of timing, for each line")
      ->check(CLI::PositiveNumber);
  return command;
}

absl::Status RunMatMul(const MatMulFlags& flags) {
  std::printf("[%d x %d] x [%d x %d], f32, Adagrad\n%s", static_cast<int>(flags.batch),
              static_cast<int>(flags.in), static_cast<int>(flags.in), static_cast<int>(flags.out),
              TableHead().c_str());
  for (const std::string& name : flags.clusters) {
    ASSIGN_OR_RETURN(const ClusterShape cluster, ParseClusterShape(name));
    double rate[2] = {0, 0}, bytes[2] = {0, 0};
    for (const int on_ps : {0, 1}) {
      StepShape shape;
      shape.name = on_ps ? "on ps" : "read";
      shape.batch = flags.batch;
      ASSIGN_OR_RETURN(
          const Figures f,
          MeasureFunction(shape, cluster, flags.options, [&](ParameterServerStrategy* strategy) {
            return DefineLayer(flags, on_ps == 1, cluster.ps, strategy);
          }));
      std::fputs(TableRow(f).c_str(), stdout);
      std::fflush(stdout);
      rate[on_ps] = f.steps_per_second;
      bytes[on_ps] = f.bytes_to_ps + f.bytes_from_ps;
    }
    std::printf("on ps against read: %.2f times the rate, 1/%.1f of the bytes\n", rate[1] / rate[0],
                bytes[0] / bytes[1]);
  }
  return absl::OkStatus();
}

}  // namespace coxswain
