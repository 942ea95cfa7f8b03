#include <utility>

#include "coxswain/optimizers.h"
#include "kernels/optimizers/optimizer_list.h"
#include "kernels/optimizers/optimizer_spec.h"
#include "protos/variable.pb.h"

namespace coxswain {
namespace {

proto::LearningRateSchedule Schedule(const char* kind) {
  proto::LearningRateSchedule schedule;
  schedule.set_kind(kind);
  return schedule;
}

proto::InitializerSpec Initializer(const char* kind, uint64_t seed = 0) {
  proto::InitializerSpec initializer;
  initializer.set_kind(kind);
  initializer.set_seed(seed);
  return initializer;
}

// In the message, 0 is what was not said.
InitializerSpec Normal(const char* kind, double stddev, uint64_t seed) {
  if (stddev == 0) return Zeros();
  proto::InitializerSpec initializer = Initializer(kind, seed);
  initializer.set_stddev(stddev);
  return initializer;
}

ScheduleSpec Decay(const char* kind, int64_t decay_steps, double end_factor) {
  proto::LearningRateSchedule schedule = Schedule(kind);
  schedule.set_decay_steps(decay_steps);
  schedule.set_end_factor(end_factor);
  return schedule;
}

}  // namespace

template <typename Proto>
SpecHandle<Proto>::SpecHandle() {
  static const auto* const none = new std::shared_ptr<const Proto>(std::make_shared<Proto>());
  spec_ = *none;
}
template <typename Proto>
SpecHandle<Proto>::SpecHandle(const Proto& spec) : spec_(std::make_shared<Proto>(spec)) {}

template class SpecHandle<proto::OptimizerSpec>;
template class SpecHandle<proto::InitializerSpec>;
template class SpecHandle<proto::LearningRateSchedule>;

#define COX_CONVERT(O) \
  O::Parameters::operator OptimizerSpec() const { return kernels::ToSpec(O{*this}); }
COX_OPTIMIZERS(COX_CONVERT)
#undef COX_CONVERT

OptimizerSpec WithSchedule(const OptimizerSpec& optimizer, const ScheduleSpec& schedule) {
  proto::OptimizerSpec with = optimizer.proto();
  *with.mutable_schedule() = schedule.proto();
  return with;
}

OptimizerSpec WithStalenessRate(const OptimizerSpec& optimizer, StalenessRate rate) {
  proto::OptimizerSpec with = optimizer.proto();
  with.set_staleness_rate(rate == StalenessRate::kInverse ? "inverse"
                          : rate == StalenessRate::kRoot  ? "root"
                                                          : "none");
  return with;
}

OptimizerSpec WithDelayCompensation(const OptimizerSpec& optimizer, double factor) {
  proto::OptimizerSpec with = optimizer.proto();
  with.set_delay_compensation(factor);
  return with;
}

ScheduleSpec PiecewiseConstant(const std::vector<int64_t>& boundaries,
                               const std::vector<double>& factors) {
  proto::LearningRateSchedule schedule = Schedule("piecewise_constant");
  for (int64_t boundary : boundaries) schedule.add_boundaries(boundary);
  for (double factor : factors) schedule.add_factors(factor);
  return schedule;
}

ScheduleSpec ExponentialDecay(int64_t decay_steps, double decay_rate, bool staircase) {
  proto::LearningRateSchedule schedule = Schedule("exponential_decay");
  schedule.set_decay_steps(decay_steps);
  schedule.set_decay_rate(decay_rate);
  schedule.set_staircase(staircase);
  return schedule;
}

ScheduleSpec CosineDecay(int64_t decay_steps, double end_factor) {
  return Decay("cosine_decay", decay_steps, end_factor);
}

ScheduleSpec LinearDecay(int64_t decay_steps, double end_factor) {
  return Decay("linear_decay", decay_steps, end_factor);
}

ScheduleSpec WarmUp(int64_t steps, const ScheduleSpec& then, double factor) {
  proto::LearningRateSchedule schedule = then.proto();
  schedule.set_warmup_steps(steps);
  schedule.set_warmup_factor(factor);
  return schedule;
}

InitializerSpec Zeros() { return Initializer("zeros"); }

InitializerSpec Ones() { return Initializer("ones"); }

InitializerSpec ConstantInit(double value) {
  proto::InitializerSpec initializer = Initializer("constant");
  initializer.set_value(value);
  return initializer;
}

InitializerSpec NormalInit(double stddev, uint64_t seed) { return Normal("normal", stddev, seed); }

InitializerSpec TruncatedNormalInit(double stddev, uint64_t seed) {
  return Normal("truncated_normal", stddev, seed);
}

InitializerSpec UniformInit(double low, double high, uint64_t seed) {
  if (low == 0 && high == 0) return Zeros();
  proto::InitializerSpec initializer = Initializer("uniform", seed);
  initializer.set_low(low);
  initializer.set_high(high);
  return initializer;
}

InitializerSpec GlorotUniform(uint64_t seed) { return Initializer("glorot_uniform", seed); }

}  // namespace coxswain
