// Optimizers, learning rate schedules, and initializers. An optimizer is a struct of parameters;
// its formula is in the file of its name in kernels/optimizers. Defaults are those of a job
// (docs/job.md):
//
//   table.optimizer = cox::LazyAdam{.learning_rate = 0.01};
//   table.optimizer = cox::WithSchedule(cox::Adagrad{.epsilon = 1e-7}, cox::LinearDecay(10000));
//   table.initializer = cox::NormalInit(0.1);
//
// Thread model: values. Invalid parameters are reported when a variable is created with them.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

namespace coxswain {

namespace proto {
class InitializerSpec;
class LearningRateSchedule;
class OptimizerSpec;
}  // namespace proto

// A handle on the message in which an optimizer, an initializer or a schedule is sent. Cheap to
// copy.
template <typename Proto>
class SpecHandle {
 public:
  SpecHandle();  // none
  // Within Coxswain.
  SpecHandle(const Proto& spec);                    // NOLINT: is one
  operator const Proto&() const { return *spec_; }  // NOLINT: is one
  const Proto& proto() const { return *spec_; }

 private:
  std::shared_ptr<const Proto> spec_;
};
using OptimizerSpec = SpecHandle<proto::OptimizerSpec>;  // none: not trained by Minimize
using InitializerSpec = SpecHandle<proto::InitializerSpec>;
using ScheduleSpec = SpecHandle<proto::LearningRateSchedule>;

// kernels/optimizers/sgd.h
struct Sgd {
  double learning_rate = 0.01;
  double l2 = 0;

  operator OptimizerSpec() const;  // NOLINT: is one
};

// kernels/optimizers/momentum.h
struct Momentum {
  double learning_rate = 0.01;
  double momentum = 0.9;
  bool nesterov = false;
  double l2 = 0;

  operator OptimizerSpec() const;  // NOLINT: is one
};

// kernels/optimizers/adagrad.h
struct Adagrad {
  double learning_rate = 0.05;
  double initial_accumulator = 0.1;
  double epsilon = 1e-8;
  double l2 = 0;

  operator OptimizerSpec() const;  // NOLINT: is one
};

// kernels/optimizers/rowwise_adagrad.h
struct RowwiseAdagrad {
  double learning_rate = 0.05;
  double initial_accumulator = 0;
  double epsilon = 1e-8;
  double l2 = 0;

  operator OptimizerSpec() const;  // NOLINT: is one
};

// kernels/optimizers/rmsprop.h
struct Rmsprop {
  double learning_rate = 0.001;
  double rho = 0.9;
  double epsilon = 1e-8;
  double l2 = 0;

  operator OptimizerSpec() const;  // NOLINT: is one
};

// kernels/optimizers/adam.h
struct Adam {
  double learning_rate = 0.001;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  double l2 = 0;

  operator OptimizerSpec() const;  // NOLINT: is one
};

// kernels/optimizers/lazy_adam.h
struct LazyAdam {
  double learning_rate = 0.001;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  double l2 = 0;

  operator OptimizerSpec() const;  // NOLINT: is one
};

// kernels/optimizers/adamw.h
struct AdamW {
  double learning_rate = 0.001;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  double weight_decay = 0.004;

  operator OptimizerSpec() const;  // NOLINT: is one
};

// kernels/optimizers/ftrl.h
struct Ftrl {
  double learning_rate = 0.05;
  double l1 = 0;
  double l2 = 0;
  double learning_rate_power = -0.5;
  double initial_accumulator = 0.1;

  operator OptimizerSpec() const;  // NOLINT: is one
};

// The optimizer with a learning rate schedule. Schedules have the names of Keras'; `factor`s
// multiply the optimizer's learning rate. Formulas: kernels/optimizers/learning_rate.h.
OptimizerSpec WithSchedule(const OptimizerSpec& optimizer, const ScheduleSpec& schedule);

// The learning rate of a gradient that is late: its shard took updates since it was read.
enum class StalenessRate : uint8_t {
  kNone,     // as of all others
  kInverse,  // divided by its staleness, where that is more than 1
  kRoot,     // or by the root of it
};

// The optimizer with something of its own in place of Consistency::staleness_rate and
// Consistency::delay_compensation, which say it of all others.
OptimizerSpec WithStalenessRate(const OptimizerSpec& optimizer, StalenessRate rate);
OptimizerSpec WithDelayCompensation(const OptimizerSpec& optimizer, double factor);

// factors[i] after step boundaries[i].
ScheduleSpec PiecewiseConstant(const std::vector<int64_t>& boundaries,
                               const std::vector<double>& factors);
ScheduleSpec ExponentialDecay(int64_t decay_steps, double decay_rate, bool staircase = false);
ScheduleSpec CosineDecay(int64_t decay_steps, double end_factor = 0);
ScheduleSpec LinearDecay(int64_t decay_steps, double end_factor = 0);
// Linear warm-up before the schedule.
ScheduleSpec WarmUp(int64_t steps, const ScheduleSpec& then = {}, double factor = 0);

InitializerSpec Zeros();
InitializerSpec Ones();
InitializerSpec ConstantInit(double value);
InitializerSpec NormalInit(double stddev, uint64_t seed = 0);
// Normal, but drawn again beyond two standard deviations.
InitializerSpec TruncatedNormalInit(double stddev, uint64_t seed = 0);
InitializerSpec UniformInit(double low, double high, uint64_t seed = 0);
InitializerSpec GlorotUniform(uint64_t seed = 0);

}  // namespace coxswain
