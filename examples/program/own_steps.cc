// What a program may do itself between the gradients and the optimizers, and with single closures:
// noise and clipping, a learning rate that it sets while it trains, a step counter, a mean that is
// counted once, results that go from one closure to another, deadlines. A whole program; it needs
// nothing but an installed Coxswain.
#include <coxswain/coxswain.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

namespace cox = coxswain;

namespace {

constexpr int64_t kRows = 64;

// Examples that agree with the weights (1, -2, 3).
cox::Tensor Inputs(int64_t round) {
  std::vector<float> x;
  for (int64_t i = 0; i < 3 * kRows; ++i) {
    x.push_back(static_cast<float>(std::sin(static_cast<double>(7 * i + 3 * round))));
  }
  return cox::Tensor::FromVector(x, cox::Shape{kRows, 3}).value();
}

absl::Status Train(double* last) {
  COX_ASSIGN_OR_RETURN(cox::Cluster cluster,
                       cox::Cluster::InProcess(/*num_ps=*/2, /*num_workers=*/2));
  cox::ParameterServerStrategy strategy(cluster);
  COX_ASSIGN_OR_RETURN(
      cox::Variable weights,
      strategy.CreateVariable("weights", {.shape = cox::Shape{3, 1}, .optimizer = cox::Sgd{}}));
  COX_ASSIGN_OR_RETURN(cox::Variable rate, strategy.CreateVariable("rate", {}));
  COX_ASSIGN_OR_RETURN(cox::Variable global_step,
                       strategy.CreateVariable("global_step", {.dtype = cox::DType::kI64}));
  COX_ASSIGN_OR_RETURN(cox::MeanMetric mean_loss, strategy.CreateMean("mean_loss"));

  // A function's results may be another one's arguments.
  COX_ASSIGN_OR_RETURN(cox::RemoteFunction label, strategy.Define("label", [](cox::FunctionBuilder&
                                                                                  f) {
    const cox::Output x = f.Argument("x", cox::DType::kF32, cox::Shape{cox::kUnknownDim, 3});
    const cox::Tensor truth = cox::Tensor::FromVector<float>({1, -2, 3}, cox::Shape{3, 1}).value();
    f.Result("y", f.MatMul(x, f.Constant(truth)));
  }));

  COX_ASSIGN_OR_RETURN(
      cox::RemoteFunction step, strategy.Define("step", [&](cox::FunctionBuilder& f) {
        const cox::Output x = f.Argument("x", cox::DType::kF32, cox::Shape{cox::kUnknownDim, 3});
        const cox::Output y = f.Argument("y", cox::DType::kF32, cox::Shape{cox::kUnknownDim, 1});
        const cox::Output loss = f.Mean(f.Square(f.Sub(f.MatMul(x, f.Read(weights)), y)));
        f.LearningRate(f.Read(rate));
        std::vector<cox::VariableGradient> gradients = f.Gradients(loss);
        for (cox::VariableGradient& g : gradients) {
          const cox::Output low = f.Op("Maximum", {g.values, f.Scalar(-1)});
          g.values = f.Op("Minimum", {low, f.Scalar(1)});
        }
        f.ApplyGradients(gradients);
        f.Update(mean_loss, loss);
        const cox::Output one = f.Constant(cox::Tensor::Scalar<int64_t>(1));
        f.Results("train", {{"loss", loss}, {"step", f.FetchAdd(global_step, one)}});
      }));

  cox::CoordinatorOptions options;
  options.on_error = cox::ErrorPolicy::kCollect;  // what comes too late costs no other closure
  cox::ClusterCoordinator coordinator(strategy, options);
  for (const float now : {0.1f, 0.03f, 0.01f}) {
    COX_RETURN_IF_ERROR(strategy.Assign(rate, cox::Tensor::Scalar<float>(now)));
    COX_RETURN_IF_ERROR(strategy.Reset(mean_loss));
    std::vector<cox::RemoteValue> values;
    for (int64_t round = 0; round < 100; ++round) {
      const cox::Tensor x = Inputs(round);
      const cox::RemoteValue y = coordinator.Schedule(label, {x});  // returns at once
      values.push_back(
          coordinator.Schedule(step, {.arguments = {x, y}, .deadline = absl::Minutes(1)}));
    }
    COX_RETURN_IF_ERROR(coordinator.Join());
    COX_ASSIGN_OR_RETURN(*last, strategy.Read(mean_loss));
    COX_ASSIGN_OR_RETURN(std::vector<float> losses, coordinator.Fetch<float>(values, "train/loss"));
    COX_ASSIGN_OR_RETURN(cox::Tensor steps, strategy.Read(global_step));
    std::printf("rate %.2f: %lld steps so far, mean loss %.4f, the last one %.4f\n", now,
                static_cast<long long>(steps.data<int64_t>()[0]), *last, losses.back());
  }

  // A closure that nobody wants any more says what has become of it.
  const cox::RemoteValue unwanted = coordinator.Schedule(label, {Inputs(0)});
  unwanted.Cancel();
  const absl::Status status = unwanted.Get().status();
  std::printf("the one that was not wanted: %s\n",
              status.ok() ? "it was done before" : std::string(status.message()).c_str());
  return coordinator.Join();
}

}  // namespace

int main() {
  double last = 1;
  if (absl::Status status = Train(&last); !status.ok()) {
    std::fprintf(stderr, "%s\n", status.ToString().c_str());
    return EXIT_FAILURE;
  }
  return last < 0.01 ? EXIT_SUCCESS : EXIT_FAILURE;
}
