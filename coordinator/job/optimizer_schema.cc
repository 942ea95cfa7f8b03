#include "coordinator/job/optimizer_schema.h"

#include <charconv>
#include <deque>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "coordinator/job/bound_key.h"
#include "coordinator/job/merged_section.h"
#include "coordinator/job/size_limits.h"
#include "kernels/optimizers/optimizer_info.h"
#include "protos/variable.pb.h"

namespace coxswain::job {
namespace {

using enum KeyType;

constexpr SchemaKey kScheduleKeys[] = {
    Field<proto::LearningRateSchedule>(
        kChoice, "kind", "constant",
        "how the learning rate changes from step to step, as in Keras' schedules")
        .Choices("constant piecewise_constant exponential_decay cosine_decay linear_decay"),
    Field<proto::LearningRateSchedule>(kInts, "boundaries", nullptr,
                                       "ascending numbers of steps after which the rate changes")
        .Only("piecewise_constant")
        .Min(0)
        .Max(kMostSteps),
    Field<proto::LearningRateSchedule>(
        kReals, "factors", nullptr,
        "for each boundary, what the learning rate is multiplied by after it")
        .Only("piecewise_constant")
        .Min(0),
    Field<proto::LearningRateSchedule>(
        kInt, "decay_steps", nullptr,
        "number of updates over which the rate decays by the factor `decay_rate`")
        .Only("exponential_decay")
        .Min(1)
        .Max(kMostSteps),
    Field<proto::LearningRateSchedule>(
        kReal, "decay_rate", nullptr,
        "factor by which the rate is multiplied over each `decay_steps` updates")
        .Only("exponential_decay")
        .Above(0),
    Field<proto::LearningRateSchedule>(
        kBool, "staircase", "false",
        "the rate drops at the end of each `decay_steps` updates, instead of gradually")
        .Only("exponential_decay"),
    Field<proto::LearningRateSchedule>(
        kInt, "decay_steps", "=all updates after the warm-up",
        "number of updates until the rate reaches its final value, where it stays")
        .Only("cosine_decay linear_decay")
        .Min(1)
        .Max(kMostSteps),
    Field<proto::LearningRateSchedule>(kReal, "end_factor", "0",
                                       "final rate, as a fraction of the learning rate")
        .Only("cosine_decay linear_decay")
        .Min(0),
    Field<proto::LearningRateSchedule>(
        kInt, "warmup_steps", "0",
        "number of initial updates in which the rate rises linearly; the schedule begins after "
        "them. An update is a batch; where `train.consistency` makes one of several batches, all "
        "numbers of a schedule count updates, and `train.steps` batches")
        .Min(0)
        .Max(kMostSteps),
    Field<proto::LearningRateSchedule>(
        kReal, "warmup_factor", "0",
        "initial rate of the warm-up, as a fraction of the learning rate")
        .Min(0)
        .Max(1),
};
constexpr SchemaSection kSchedule = {
    "optimizer.table.schedule, optimizer.dense.schedule, tables.NAME.optimizer.schedule", "kind",
    kScheduleKeys};

// The shortest text that reads as this number: "1e-8".
std::string NumberText(double value) {
  char text[32];
  const auto end = std::to_chars(text, text + sizeof(text), value).ptr;
  return absl::StrReplaceAll(absl::string_view(text, static_cast<size_t>(end - text)),
                             {{"e-0", "e-"}, {"e+0", "e+"}});
}

// The keys of all optimizers, and the texts that they point to.
struct Keys {
  std::deque<std::string> texts;
  std::deque<std::vector<SchemaKey>> of_kinds;
  std::vector<KeysOfWord> words;

  SchemaKey KeyOf(const kernels::OptimizerInfo::Parameter& p) {
    if (p.is_switch) return SchemaKey(kBool, p.name, p.fallback != 0 ? "true" : "false", p.help);
    SchemaKey key(kReal, p.name, texts.emplace_back(NumberText(p.fallback)).c_str(), p.help);
    key.min = p.range.min;
    key.max = p.range.max;
    key.above_min = p.range.above_min;
    key.below_max = p.range.below_max;
    return key;
  }

  Keys() {
    for (const kernels::OptimizerInfo& info : kernels::AllOptimizers()) {
      std::vector<SchemaKey>& keys = of_kinds.emplace_back();
      for (const kernels::OptimizerInfo::Parameter& p : info.parameters) keys.push_back(KeyOf(p));
      keys.push_back(SchemaKey(kSection, "schedule", "{kind: constant}",
                               "how the learning rate changes during training; with `ftrl`, as in "
                               "TensorFlow, this also scales what a row has learnt before")
                         .Of(&kSchedule));
      keys.push_back(
          SchemaKey(
              kChoice, "staleness_rate", "=`train.consistency.staleness_rate`",
              "what the learning rate of late gradients is divided by, see `train.consistency`")
              .Choices("none inverse root"));
      keys.push_back(
          SchemaKey(kReal, "delay_compensation", "=`train.consistency.delay_compensation`",
                    "factor of the compensation of late gradients, see `train.consistency`")
              .Min(0));
      words.push_back({info.kind, keys});
    }
  }
};

std::string KindsHelp() {
  return absl::StrJoin(kernels::AllOptimizers(), "; ",
                       [](std::string* out, const kernels::OptimizerInfo& info) {
                         absl::StrAppend(out, "`", info.kind, "`: ", info.help);
                       });
}

}  // namespace

const SchemaSection& OptimizerScheduleSchema() { return kSchedule; }

const SchemaSection& OptimizerSchema() {
  static const auto* const keys = new Keys();
  static const auto* const help = new std::string(KindsHelp());
  static const auto* const made = new MergedSection(
      keys->words, "optimizer.table, optimizer.dense, tables.NAME.optimizer",
      SchemaKey(kChoice, "kind", "=that of the section's default", help->c_str()));
  return made->section();
}

}  // namespace coxswain::job
